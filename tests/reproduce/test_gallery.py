"""The gallery: valid, self-contained, complete."""

from html.parser import HTMLParser

import pytest

from metastable.experiments.reproducing import reproduce
from metastable.report.gallery import SLOTS
from tests.reproduce.test_reproduce import FAKES

VOID = {"meta", "link", "img", "br", "input", "source"}


class Page(HTMLParser):
    """Collects ids, addresses and headings, and checks that tags close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.links: list[str] = []
        self.tags: list[tuple[str, dict]] = []
        self.open: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.tags.append((tag, values))
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values["href"]] if tag == "a" else []
        self.addresses += [
            v for k, v in attrs if k in ("src", "srcset", "poster", "data") or (k, tag) == ("href", "link")
        ]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gallery")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAKE_LOG", str(folder / "log"))
        reproduce(["good", "other", "wrong", "crash"], preset="quick", out=folder / "out", homes=FAKES, jobs=2)
    text = (folder / "out" / "gallery.html").read_text()
    return text, Page(text)


@pytest.mark.slow
def test_nothing_is_fetched(page):
    text, parsed = page
    assert all(address.startswith("data:") for address in parsed.addresses)
    assert "<script" not in text
    assert "url(" not in text
    assert "@import" not in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "https://" not in text


def test_ids_are_unique_and_links_lead_somewhere(page):
    _, parsed = page
    assert len(parsed.ids) == len(set(parsed.ids))
    assert all(link.startswith("#") and link[1:] in parsed.ids for link in parsed.links)


def test_everything_is_shown(page):
    text, parsed = page
    for name in ("good", "other", "wrong", "crash"):
        assert f"experiment-{name}" in parsed.ids
        assert f"metastable reproduce {name}" in text
    assert text.count("not run</span>") == len(SLOTS)
    assert "wrong &lt;holds&gt; &amp; is &quot;quoted&quot;" in text
    assert "Seeds 1. Replay one" in text
    assert "metastable reproduce wrong --quick --seeds 1 --seed 1 --out replay" in text
    assert "the lamp went out" in text
    assert "Not run yet" in text
    pictures = [values for tag, values in parsed.tags if tag == "img"]
    films = [values for tag, values in parsed.tags if tag == "video"]
    assert len(pictures) == len(films) == 3
    assert all(values["alt"] for values in pictures)
    assert all({"controls", "muted", "playsinline", "loop", "aria-label"} <= set(values) for values in films)
    assert sum(tag == "h1" for tag, _ in parsed.tags) == 1
