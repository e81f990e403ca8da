"""The gallery in a browser: real captions and tables at the width of a phone and of a screen, and a short front."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from metastable.experiments import EXPERIMENTS, experiment
from metastable.experiments.run_one import run_into
from metastable.report.gallery import write_gallery

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
CHEAP = {"ginibre": 4, "neighbours": 3, "rank-collapse": 4}  # name -> instances; neighbours has a table
PAGES = ["index.html", *(f"{name}/index.html" for name in CHEAP), "gallery.html", "verdicts.html"]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A gallery of real experiments, a few instances each: their captions, tables, sentences."""
    folder = tmp_path_factory.mktemp("gallery")
    for name, count in CHEAP.items():
        run_into(experiment(name), folder / name, "quick", {"instances": count})
    return write_gallery(folder, list(CHEAP), {"crash": "the lamp went out"}, {}).parent


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no browser")
@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("width", [390, 1280])
def test_no_picture_is_cut(home, tmp_path, page, width):
    """In a browser of that width nothing is wider than the page, and every picture is there."""
    client, scroll, wide, lost, _ = _measured(home / page, width, tmp_path)
    assert client == width
    assert scroll <= client, wide
    assert lost == 0


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no browser")
@pytest.mark.parametrize(("width", "most"), [(1280, 12_000), (390, 28_000)])
def test_the_front_of_all_experiments_is_short(home, tmp_path, width, most):
    """Ten findings and an index: all in one page it was 45,000 pixels once. (What is folded stays folded.)"""
    for name in EXPERIMENTS:
        shutil.copytree(home / "rank-collapse", tmp_path / "all" / name)
    front = write_gallery(tmp_path / "all", EXPERIMENTS)
    assert _measured(front, width, tmp_path, unfold=False)[4] <= most


def _measured(target: Path, width: int, home: Path, unfold: bool = True) -> list[Any]:
    """Client width, scroll width, what is too wide, lost pictures, height of a page in a browser of that width."""
    measure = (
        "<script>addEventListener('load', () => { for (const d of document.querySelectorAll('details')) "
        f"d.open = {str(unfold).lower()};"
        "for (const i of document.images) i.loading = 'eager'; setTimeout(() => {"
        "const w = document.documentElement.clientWidth, out = [...document.querySelectorAll('body *')].filter("
        "e => e.getBoundingClientRect().right > w + 1 && !e.closest('.overview thead') && e.offsetParent !== null);"
        "const lost = [...document.images].filter(i => i.complete && !i.naturalWidth);"
        "document.title = JSON.stringify([w, document.documentElement.scrollWidth, out.map(e => e.outerHTML."
        "slice(0, 80)), lost.length, document.documentElement.scrollHeight]); }, 400); });</script>"
    )
    text = re.sub(r"<meta http-equiv[^>]*>", "", target.read_text()).replace("</body>", measure + "</body>")
    probe = target.with_name("probe.html")
    probe.write_text(text)
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--dump-dom"]
    command += [f"--user-data-dir={home}/browser", f"--window-size={max(width, 500)},900", "--virtual-time-budget=3000"]
    if width < 500:  # a window cannot be narrower than 500 pixels: a frame of that width is
        frame = f"<iframe src='probe.html' style='width:{width}px;height:900px;border:0'></iframe>"
        (target.with_name("frame.html")).write_text(frame + _relay())
    shown = target.with_name("frame.html") if width < 500 else probe
    done = subprocess.run(
        [*command, "--allow-file-access-from-files", shown.as_uri()],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ},
    )
    probe.unlink()
    target.with_name("frame.html").unlink(missing_ok=True)
    found = re.search(r"<title>(\[.*?\])</title>", done.stdout)
    assert found, done.stderr[-300:]
    measured: list[Any] = json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    return measured


def _relay() -> str:
    return (
        "<script>setInterval(() => { const t = document.querySelector('iframe').contentDocument.title; "
        "if (t.startsWith('[')) document.title = t; }, 50);</script>"
    )
