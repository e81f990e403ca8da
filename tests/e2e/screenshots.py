"""Every page at three widths in both themes, to look at: ``python -m tests.e2e.screenshots FOLDER``."""

import sys
from pathlib import Path

import metastable as ms
from tests.e2e.browser import chromium, tab
from tests.e2e.explorer_server import Server

SIZES = ((390, 844), (1280, 860), (1920, 1080))
SEEN = "window.lab && lab.slots.a.seen !== null && lab.slots.a.seen === lab.slots.a.wanted"
DRAWN = "document.querySelectorAll('.lab-cell[href]').length === 12"
PAGES = {
    "explore": ("/?mask=causal&at=0.6&look=first.trails&view=30,20,1", SEEN),
    "polytope": ("/?n=40&geometry=rescaled&beta=1&V=1,1,-0.5&t=6&at=1&look=fit.limit", SEEN),
    "compare": ("/?n=48&at=0.7&compare=beta:1", f"{SEEN} && lab.slots.b && lab.slots.b.seen"),
    "sweep": ("/sweep?t=4&x=beta&xlow=1&xhigh=9&xcount=4&y=n&ylow=8&yhigh=32&ycount=3&runs=2&drawn=1", DRAWN),
    "models": ("/models?layers=24&at=0.5&compare=init", SEEN),
    "records": ("/records", "document.querySelector('.lab-records')"),
    "record": ("/records?open=small-run&at=0.5", SEEN),
}


def shoot(folder: Path, records: Path) -> None:
    """Pictures of all pages of an explorer of its own, and of an exported file, by itself and in a notebook's frame."""
    run = ms.simulate(ms.Dynamics(mask="causal"), ms.initial.sphere(n=32, d=3), t=8.0, save=41)
    run.save(records / "small-run")
    (records / "broken").mkdir(exist_ok=True)
    (records / "broken" / "provenance.json").write_text("{ not json")
    pages = {"exported": run.export(records / "run.html", play=False).as_uri()}
    frame = records / "notebook.html"
    frame.write_text(f"<!doctype html><body>{run.view(play=False)._repr_html_()}</body>")
    pages["notebook"] = frame.as_uri()
    server = Server(records)
    try:
        with chromium() as browser:
            for theme in ("light", "dark"):
                for width, height in SIZES:
                    with tab(browser, width, height, color_scheme=theme, reduced_motion="reduce") as page:
                        page.set_default_timeout(120_000)
                        for name, (address, ready) in PAGES.items():
                            page.goto(server.url + address)
                            page.wait_for_function(ready)
                            page.wait_for_timeout(400)
                            page.screenshot(path=folder / f"{name}-{width}-{theme}.png", full_page=width == 390)
                        for name, address in pages.items():
                            page.goto(address)
                            page.wait_for_timeout(1200)
                            page.screenshot(path=folder / f"{name}-{width}-{theme}.png")
    finally:
        server.kill()


if __name__ == "__main__":
    import tempfile

    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as records:
        shoot(place, Path(records))
