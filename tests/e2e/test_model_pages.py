"""The page of a study and that of a comparison, opened from disk in a real browser, on a phone and on a desk."""

import pytest

from metastable.models.comparison import sides
from metastable.models.comparison_page import publish as publish_comparison
from metastable.models.run_study import _draw, publish
from metastable.progress import silent
from tests.e2e.browser import keep, tab
from tests.models.study_records import made_study

pytestmark = pytest.mark.slow  # every picture, a film, and a real browser

WIDTHS = (390, 1280)
# what reaches beyond the screen, but for tables, which scroll by themselves
BEYOND = """() => [...document.querySelectorAll('body *')].filter(
  e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1 && !e.closest('.scroll')
).map(e => `${e.tagName} ${e.textContent.slice(0, 40)}`)"""
# pictures that were not drawn, once all are asked for
BLANK = """async () => {
  const images = [...document.querySelectorAll('img')];
  for (const image of images) image.loading = 'eager';
  await Promise.all(images.map(image => image.decode().catch(() => 0)));
  return [images.length, images.filter(image => !image.naturalWidth).map(image => image.alt)];
}"""
PLAYED = """async () => {
  const film = document.querySelector('video');
  await film.play();
  await new Promise(done => setTimeout(done, 600));
  return [film.currentTime, film.videoWidth, film.poster.slice(0, 24)];
}"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    study = made_study(folder / "a", name="first", written=True)
    made_study(folder / "b", name="second-with-a-rather-long-name", control=(), written=True)
    _draw(study, silent)
    made = {"report": publish(study)}
    made["controls"] = publish_comparison(sides([str(folder / "a")]), folder / "controls")
    made["models"] = publish_comparison(sides([str(folder / "a"), str(folder / "b")]), folder / "models")
    return {name: path.as_uri() for name, path in made.items()}


@pytest.mark.parametrize("name", ["report", "controls", "models"])
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_reaches_beyond_the_screen(browser, pages, name, width):
    with tab(browser, width, 900) as page:
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(pages[name])
        count, blank = page.evaluate(BLANK)
        assert (count > 20 if name == "report" else count > 5, blank) == (True, [])
        wide, seen = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert (wide, page.evaluate(BEYOND)) == (seen, [])
        assert {url.partition(":")[0] for url in asked} <= {"file", "data"}
        assert [url for url in asked if url.startswith("file")] == [pages[name]]
        keep(page, f"{name}-{width}")


def test_the_film_plays_and_shows_a_picture_before(browser, pages):
    with tab(browser, 390, 900) as page:
        page.goto(pages["report"])
        time, wide, poster = page.evaluate(PLAYED)
        assert time > 0.1
        assert wide == 720
        assert poster == "data:image/svg+xml;base6"


def test_a_phone_can_scroll_every_table(browser, pages):
    with tab(browser, 390, 900) as page:
        page.goto(pages["report"])
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        cut = "[...document.querySelectorAll('table')].filter(one => !one.closest('.scroll')).length"
        assert page.evaluate(cut) == 0
        assert page.evaluate(BEYOND) == []
