"""What is taken away from the laboratory: opened, and looked into."""

import io

import numpy as np
import pytest

from tests.e2e.browser import keep, tab

pytestmark = pytest.mark.slow  # a real browser takes seconds a page

SEEN = "window.lab && lab.slots.a.seen !== null && lab.slots.a.seen === lab.slots.a.wanted"
QUERY = "n=14&t=3&at=0.5&mask=causal&beta=2"


@pytest.fixture(scope="module")
def lab(browser, server):
    with tab(browser, 1280, 900, reduced_motion="reduce") as page:
        page.set_default_timeout(120_000)
        page.goto(f"{server.url}/?{QUERY}")
        page.wait_for_function(SEEN)
        yield page


def taken(page, kind, folder):
    """Path of the file behind an entry of the menu."""
    page.locator(".lab-take").evaluate("box => (box.open = true)")
    with page.expect_download() as found:
        page.locator(f".lab-menu [data-do={kind}]").click()
    path = folder / found.value.suggested_filename
    found.value.save_as(path)
    return path


def drawn(pixels):
    """How many colours stand in a picture (h, w, 3) on at least some dozens of pixels."""
    _, counts = np.unique(pixels.reshape(-1, 3) // 32, axis=0, return_counts=True)
    return int((counts > 30).sum())


def test_a_png_is_the_scene(lab, tmp_path):
    from PIL import Image

    picture = Image.open(taken(lab, "png", tmp_path)).convert("RGB")
    assert list(picture.size) == lab.evaluate("[lab.slots.a.player.canvas.width, lab.slots.a.player.canvas.height]")
    assert drawn(np.asarray(picture)) >= 3  # paper, and tokens of more than one colour


def test_an_svg_has_every_token(lab, tmp_path):
    data = taken(lab, "svg", tmp_path).read_bytes()
    assert data.count(b"<title>") == 14


def test_tables_and_code(lab, tmp_path):
    rows = np.loadtxt(taken(lab, "csv", tmp_path), delimiter=",", skiprows=1)
    assert rows.shape == (14 * 151, 5)
    np.testing.assert_allclose(np.linalg.norm(rows[:, 2:], axis=1), 1.0, atol=1e-7)
    assert "n = 14" in taken(lab, "toml", tmp_path).read_text()
    compile(taken(lab, "python", tmp_path).read_bytes(), "run.py", "exec")


def test_a_page_plays_from_disk(lab, browser, tmp_path):
    path = taken(lab, "html", tmp_path)
    with tab(browser, 800, 600, reduced_motion="reduce") as page:
        page.goto(path.as_uri())
        page.wait_for_function("window.player && player.run")
        assert page.evaluate("[player.run.n, player.run.T]") == [14, 151]
        page.evaluate("player.seek(0.5)")
        page.wait_for_timeout(300)
        from PIL import Image

        picture = Image.open(io.BytesIO(page.locator(".ms-canvas").screenshot())).convert("RGB")
        assert drawn(np.asarray(picture)) >= 3
        keep(page, "taken-html")


def film(path):
    import imageio_ffmpeg

    frames = imageio_ffmpeg.read_frames(str(path))
    width, height = next(frames)["size"]
    return np.stack([np.frombuffer(frame, np.uint8).reshape(height, width, 3) for frame in frames])


def animation(path):
    from PIL import Image, ImageSequence

    return np.stack([np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(Image.open(path))])


@pytest.mark.parametrize("kind", ["mp4", "gif"])
def test_films_move(lab, kind, tmp_path):
    frames = (film if kind == "mp4" else animation)(taken(lab, kind, tmp_path))
    assert len(frames) >= 100
    assert min(frames.shape[1:3]) >= 200
    assert drawn(frames[0]) >= 3
    assert np.abs(frames[0].astype(int) - frames[-1].astype(int)).mean() > 0.1
