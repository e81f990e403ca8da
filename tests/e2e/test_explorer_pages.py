"""Records, sweep, models, and who is let in."""

import pytest

from tests.e2e.browser import keep, tab
from tests.e2e.explorer_server import Server, free_port

pytestmark = pytest.mark.slow  # a real browser takes seconds a page

SEEN = "window.lab && lab.slots.a.seen !== null"


def test_records_are_listed_and_a_run_is_played(browser, server):
    with tab(browser, 1280, 860, reduced_motion="reduce") as page:
        page.set_default_timeout(90_000)
        page.goto(f"{server.url}/records")
        page.wait_for_selector(".lab-records")
        text = page.locator(".lab-records").inner_text()
        assert "damaged" in text
        assert "way-out" not in text
        page.get_by_role("link", name="small-run").click()
        page.wait_for_function(SEEN)
        assert page.evaluate("[lab.slots.a.player.run.n, lab.slots.a.player.run.T]") == [10, 9]
        keep(page, "records-run")


def test_pages_of_records_are_shown_apart(browser, server):
    with tab(browser, 1280, 860) as page:
        page.goto(f"{server.url}/records?open=study")
        page.frame_locator("iframe").locator("#here").wait_for(timeout=60_000)


@pytest.mark.parametrize("path", ["broken", "../secret.html", "way-out", "nowhere", "%00", "/etc"])
def test_broken_and_hostile_names_get_a_sentence(server, path):
    status, body = server.get(f"/record?open={path}")
    assert status == 400
    assert b"Traceback" not in body
    assert b"secret" not in body.replace(b"secret.html", b"")


@pytest.mark.parametrize(
    "path", ["../secret.html", "..%2Fsecret.html", "way-out/secret.html", "study/provenance.py", "%00"]
)
def test_files_outside_are_not_there(server, path):
    status, body = server.get(f"/files/{path}")
    assert status in (400, 404)
    assert body != b"secret"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("n=1e9", "more than the explorer takes"),
        ("n=abc", "whole number"),
        ("n=4000&t=5000&dt=0.001", "pairs of tokens"),
        ("n=4000&d=128&t=1", "coordinates"),
        ("beta=nan", "finite"),
        ("V=/etc/passwd.npy", "reads no files"),
        ("V=model:../../etc/head=1", "zoo"),
        ("mask=__import__('os')", "mask"),
        ("initial=cube(side=1e999)", ""),
        ("moved=99:1:1:1", "moved token"),
        ("V=" + "9" * 5000, "short text"),
        ("geometry=%3Cscript%3E", "geometry"),
    ],
)
def test_hostile_links_are_refused_in_a_sentence(server, query, said):
    status, body = server.get(f"/run?{query}")
    assert status == 400, body[:300]
    assert said in body.decode()
    assert len(body) < 800


def test_other_sites_are_refused(server):
    assert server.get("/", Host="evil.example")[0] == 421
    assert server.get("/run", Origin="https://evil.example")[0] == 403
    assert server.get("/run?n=4&t=1&part=first", Origin=server.url)[0] == 200
    assert server.get("/run?x=" + "a" * 20_000)[0] == 414


def test_a_token_is_needed_where_other_machines_are_let_in(records):
    found = Server.__new__(Server)
    found.folder, found.port = records, free_port()
    found.start("--host", "0.0.0.0", "--remote")
    try:
        line = found.process.stdout.readline()
        token = line.split("token=")[1].split()[0]
        assert found.get("/run?n=4&t=1")[0] == 401
        assert found.get("/run?n=4&t=1&token=wrong")[0] == 401
        assert found.get(f"/run?n=4&t=1&part=first&token={token}")[0] == 200
    finally:
        found.kill()


def test_a_sweep_grows_and_its_cells_open_runs(browser, server):
    with tab(browser, 1280, 860, reduced_motion="reduce") as page:
        page.set_default_timeout(120_000)
        page.goto(f"{server.url}/sweep?t=2&d=2")
        page.wait_for_function("window.labDiagram")
        for name, value in (("xcount", 3), ("ycount", 2), ("yhigh", 12)):
            page.locator(f"input[data-control=sweep-{name}]").fill(str(value))
        page.locator("[data-do=sweep]").click()
        page.wait_for_function("document.querySelectorAll('.lab-cell[href]').length === 6")
        keep(page, "sweep")
        address = page.url
        page.locator(".lab-cell[href]").first.click()
        page.wait_for_function(SEEN)
        assert page.evaluate("new URLSearchParams(lab.slots.a.wanted).get('d')") == "2"
    with tab(browser, 1280, 860, reduced_motion="reduce") as page:  # the link draws the same diagram again
        page.set_default_timeout(120_000)
        page.goto(address)
        page.wait_for_function("document.querySelectorAll('.lab-cell[href]').length === 6")
        assert page.locator("input[data-control=sweep-yhigh]").input_value() == "12"
        assert "d=2" in page.locator(".lab-cell[href]").first.get_attribute("href")


def test_a_real_model_is_read_and_played_through_depth(browser, server):
    from metastable.models.zoo import home

    if not home("reactions-albert").exists():
        pytest.skip("reactions-albert is not in the cache")
    with tab(browser, 1280, 860, reduced_motion="reduce") as page:
        page.set_default_timeout(240_000)
        page.goto(f"{server.url}/models")
        page.wait_for_function(SEEN)
        run = page.evaluate(
            "({n: lab.slots.a.player.run.n, T: lab.slots.a.player.run.T, names: lab.slots.a.player.run.names})"
        )
        assert run["T"] == 13
        assert len(run["names"]) == run["n"] > 10
        assert page.evaluate("Boolean(lab.slots.a.player.run.attention)")
        page.locator("[data-control=text]").fill("")
        page.locator("[data-do=read]").click()
        page.wait_for_function("document.getElementById('lab-message').textContent.includes('no text')")
        keep(page, "models")
        page.goto(f"{server.url}/models?model=reactions-albert&text=CCO.CC&layers=24&variant=init&at=0.5&look=trails")
        page.wait_for_function(SEEN)
        assert page.evaluate("[lab.slots.a.player.run.T, lab.slots.a.player.clock.share]") == [25, 0.5]
        assert page.locator("[data-control=text]").input_value() == "CCO.CC"
        assert "untrained" in page.locator(".ms-caption").first.inner_text()
        page.keyboard.press("ArrowRight")
        page.wait_for_function("location.search.includes('layers=24') && !location.search.includes('at=0.5&')")
