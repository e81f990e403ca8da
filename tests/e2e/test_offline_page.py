"""The exported file, opened from disk with no server."""

import html

import pytest

import metastable as ms
from tests.e2e.browser import keep, tab

pytestmark = pytest.mark.slow  # a real browser takes seconds a page

# how many pixels of the scene are not empty, just after it was drawn
PAINTED = """() => {
  player.draw();
  const gl = player.scene.gl, pixels = new Uint8Array(4 * player.canvas.width * player.canvas.height);
  gl.readPixels(0, 0, player.canvas.width, player.canvas.height, gl.RGBA, gl.UNSIGNED_BYTE, pixels);
  let count = 0;
  for (let k = 3; k < pixels.length; k += 4) count += pixels[k] > 0;
  return count;
}"""
READY = "window.player && player.run"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    made = {
        "sphere": ms.simulate(ms.Dynamics(mask="causal", beta=9.0), ms.initial.sphere(n=24, d=3), t=6.0, save=25),
        "plane": ms.simulate(ms.Dynamics(geometry="euclidean"), ms.initial.cube(n=12, d=2), t=2.0, save=9),
        "ball": ms.simulate(ms.Dynamics(beta=4.0), ms.initial.sphere(n=12, d=7), t=2.0, save=9),
    }
    for name, run in made.items():
        run.export(folder / f"{name}.html", names=[f"word {i}" for i in range(run.x.shape[-2])])
    return {name: (folder / f"{name}.html").as_uri() for name in made}


@pytest.mark.parametrize("name", ["sphere", "plane", "ball"])
def test_it_draws_and_plays_from_disk(browser, runs, name):
    with tab(browser, 900, 700) as page:
        page.goto(runs[name])
        page.wait_for_function(READY)
        page.wait_for_function("player.clock.share > 0.02")  # it plays by itself
        page.evaluate("player.pause()")
        before = page.evaluate(PAINTED)
        assert before > 500
        page.evaluate("player.seek(1)")
        page.wait_for_function(
            f"document.querySelector('.ms-time').textContent.includes('{6 if name == 'sphere' else 2}')"
        )
        keep(page, f"offline-{name}")


def test_keys_and_buttons(browser, runs):
    with tab(browser, 900, 700, reduced_motion="reduce") as page:
        page.goto(runs["sphere"])
        page.wait_for_function(READY)
        assert page.evaluate("player.playing") is False  # reduced motion is respected
        page.keyboard.press(" ")
        page.wait_for_function("player.playing && player.clock.share > 0")
        page.keyboard.press(" ")
        page.keyboard.press("Home")
        page.keyboard.press("ArrowRight")
        assert abs(page.evaluate("player.clock.time()") - 0.25) < 1e-6
        page.keyboard.press("End")
        assert page.evaluate("player.clock.share") == 1
        for key, name in (("t", "trails"), ("a", "links"), ("l", "log"), ("n", "labels")):
            page.keyboard.press(key)
            assert page.evaluate(f"player.state.{name}") is True
        assert abs(page.evaluate("player.clock.time()") - 6.0) < 1e-6  # the clock changed, the time did not
        page.keyboard.press("c")
        assert page.evaluate("player.scene.look.colour") == "position"
        page.keyboard.press("?")
        assert page.locator(".ms-help").is_visible()
        page.locator("[data-toggle=first]").click()
        assert page.evaluate("player.state.first") is False
        page.locator("input[type=range]").fill("500")
        assert abs(page.evaluate("player.clock.share") - 0.5) < 1e-6
        keep(page, "offline-keys")


def test_drag_rotates_and_hover_names_a_token(browser, runs):
    with tab(browser, 900, 700, reduced_motion="reduce") as page:
        page.goto(runs["sphere"])
        page.wait_for_function(READY)
        x, y, _ = page.evaluate(
            "Array.from({length: player.run.n}, (_, i) => player.scene.project(player.scene.position(i, player.clock"
            ".place()), player.clock.place())).sort((a, b) => b[2] - a[2])[0]"
        )
        page.mouse.move(x, y)
        page.wait_for_selector(".ms-tip:not([hidden])")
        assert "word" in page.locator(".ms-tip").inner_text()
        before = page.evaluate("player.scene.camera.azimuth")
        page.mouse.down()
        page.mouse.move(x + 60, y + 10, steps=4)
        page.mouse.up()
        assert page.evaluate("player.scene.camera.azimuth") < before - 10


def test_in_a_notebooks_frame_and_on_a_phone(browser, tmp_path):
    run = ms.simulate(ms.Dynamics(), ms.initial.sphere(n=8, d=2), t=1.0, save=5)
    page_file = tmp_path / "notebook.html"
    page_file.write_text(f"<!doctype html><body style='margin:0'>{run.view(height=500)._repr_html_()}</body>")
    with tab(browser, 390, 760, has_touch=True, color_scheme="dark") as page:
        page.goto(page_file.as_uri())
        frame = page.frames[1]
        frame.wait_for_function(READY)
        assert frame.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert frame.evaluate("player.root.dataset.theme") == "dark"
        keep(page, "offline-phone")


def test_bytes_that_are_no_run_are_refused_in_words(browser, runs, tmp_path):
    with tab(browser, 600, 500, reduced_motion="reduce") as page:
        page.goto(runs["plane"])
        page.wait_for_function(READY)
        said = page.evaluate("(() => { try { player.load(new ArrayBuffer(64)); } catch (e) { return e.message; } })()")
        assert said == "These bytes are not a run of metastable."


def test_titles_are_text_and_never_code(browser, tmp_path):
    run = ms.simulate(ms.Dynamics(), ms.initial.sphere(n=4, d=3), t=1.0, save=3)
    title = "</script><img src=x onerror=alert(1)>"
    run.export(tmp_path / "a.html", title=title, names=["</script><b>", "<i>", "c", "d"])
    with tab(browser, 600, 500) as page:
        page.goto((tmp_path / "a.html").as_uri())
        page.wait_for_function(READY)
        assert page.locator(".ms-caption").inner_text() == title
        assert page.title() == title
        assert html.escape(title) in (tmp_path / "a.html").read_text()


def test_a_frame_is_a_few_draws(browser, runs):
    """A software renderer takes every instance for a draw of its own: a thousand lines cost it 30 ms a frame."""
    with tab(browser, 900, 700, reduced_motion="reduce") as page:
        page.goto(runs["sphere"])
        page.wait_for_function(READY)
        draws, vertices = page.evaluate(
            "(() => { const { gl } = player.scene; let draws = 0, vertices = 0;"
            " for (const name of ['drawArrays', 'drawArraysInstanced']) gl[name] = (mode, first, count, more = 1) => {"
            " draws += more; vertices += count * more; }; player.draw(); return [draws, vertices]; })()"
        )
        assert draws < 8
        assert vertices > 1000  # the lines of the sphere are among them
        assert page.evaluate("player.scene.gl.getContextAttributes().antialias") is False
