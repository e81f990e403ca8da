"""The gallery: valid pages, nothing fetched, every link leads somewhere, everything is shown, also on a phone."""

import dataclasses
import json
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest

from metastable.experiments.base import Finding
from metastable.experiments.run_one import run_into
from metastable.plots import table
from metastable.report import experiment_page, gallery
from metastable.report.experiment_record import read
from metastable.report.front_page import MOST, TOPICS, chosen
from metastable.report.gallery import SLOTS, contents, write_gallery
from metastable.report.sections import Media
from metastable.report.substitutions import SLIPS
from metastable.report.verdict_table import markdown
from metastable.theory.verdicts import RULE, STATUSES, Verdict, from_readings, judge_share
from tests.reproduce.fakes import make

VOID = {"meta", "link", "img", "br", "input", "source"}


class Page(HTMLParser):
    """Collects ids, addresses and headings, and checks that tags close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
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

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)


def verdicts() -> list[Verdict]:
    """One of every status, and one with readings."""
    statuses = {
        "holds": judge_share("It holds", "s", [True] * 30, kind="theorem"),
        "fails": judge_share("It fails", "s", [False] * 3, kind="observation"),
        "undecided": judge_share("Few", "s", [True] * 3, kind="conjecture"),
        "trivial only": judge_share("All in one point", "s", [True] * 30, trivial=[True] * 30, kind="theorem"),
        "not measured": judge_share("Too short", "s", [None] * 3, kind="observation"),
    }
    assert [v.status for v in statuses.values()] == list(STATUSES) == list(statuses)
    both = [statuses["holds"], statuses["fails"]]
    return [*statuses.values(), from_readings("Tokens <swirl>", "Fig. 6", both)]


def experiments():
    every = dataclasses.replace(
        make("every"),
        judge=lambda params, data: verdicts(),
        draw=lambda params, data: {
            "Seeds in order": make("every").draw(params, data)["Seeds in order"],
            "numbers": table(["cosine\nraw"], ["model"], [["0.5 < 1"]]),
        },
        topic="observation",
        leaves_out="d = 80",
    )
    plain = dataclasses.replace(make("plain"), finding=None, topic="model")
    return [make("good"), make("wrong", holds=False), every, plain]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A gallery of four small experiments, one that crashed, one that lacks its model and one that was not run."""
    folder = tmp_path_factory.mktemp("gallery")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAKE_LOG", str(folder / "log"))
        for one in experiments():
            run_into(one, folder / "out" / one.name, preset="quick")
    names = ["good", "wrong", "every", "plain", "crash", "later"]
    front = write_gallery(folder / "out", names, {"crash": "the lamp went out"}, {"model-heads": "The shelf is empty."})
    assert front == folder / "out" / "index.html"
    return front.parent


@pytest.fixture(scope="module")
def pages(home):
    """Path -> page of the whole folder, players of films aside (their scripts are tried in tests/e2e)."""
    found = [path for path in home.rglob("*.html") if path.name != "turning.html"]
    return {path.relative_to(home).as_posix(): Page(path.read_text()) for path in found}


def test_the_pages(pages):
    assert set(pages) == {
        *("index.html", "verdicts.html", "gallery.html"),
        *(f"{name}/index.html" for name in ("good", "wrong", "every", "plain")),
    }


def test_nothing_is_fetched(home, pages):
    for name, page in pages.items():
        for address in page.addresses:
            assert address.startswith("data:") or (name != "gallery.html" and _there(home, name, address)), address
        for unwanted in ("<script", "url(", "@import", "http://", "https://"):
            assert unwanted not in page.text, (name, unwanted)
        assert "default-src 'none'" in page.text


def _there(home: Path, page: str, link: str) -> bool:
    path, _, place = link.partition("#")
    target = (home / page).parent / unquote(path) if path else home / page
    return target.is_file() and (not place or place in Page(target.read_text()).ids)


def test_links_lead_somewhere(home, pages):
    for name, page in pages.items():
        assert len(page.ids) == len(set(page.ids)), name
        for link in page.links:
            assert _there(home, name, link), (name, link)
            assert name != "gallery.html" or link.startswith("#"), "the single file needs nothing beside it"


@pytest.mark.parametrize("form", ["index.html", "gallery.html"])
def test_the_front_says_what_was_found(pages, form):
    page = pages[form]
    assert page.count("h1") == 1
    before, _, after = page.text.partition('<h2 id="findings">')
    assert after.startswith("Four findings")
    assert before.index("<h1>") < before.index('class="lead"') < before.index('id="substitutions"')
    assert "<h2" not in before, "findings are the first section"
    assert "Seeds are claimed to grow." in after
    assert "The last is 3." in after
    assert RULE.rstrip(".").replace('"', "&quot;") in page.text.replace("&#x27;", "'")
    for heading in (TOPICS["theorem"], TOPICS["observation"], TOPICS["model"]):
        assert f">{heading}<" in after
    assert TOPICS["beyond"] not in page.text
    assert "the lamp went out" in page.text
    assert "The shelf is empty." in page.text
    assert "Not run yet: <code>later</code>" in page.text
    assert page.text.count("not run</span>") == len(SLOTS) - 1
    assert "Left out with" in pages["every/index.html"].text
    assert "d = 80." in before, "what --quick leaves out is said on the front too"


def test_stand_ins_and_slips_are_said(pages):
    text = pages["index.html"].text
    for _, said, read_as in SLIPS:
        assert _as_html(said) in text
        assert _as_html(read_as) in text
    assert "ALBERT reads in both directions" in text
    assert "exponential time rescaling" in text


def _as_html(text: str) -> str:
    import html

    return html.escape(text)


def test_an_experiment_shows_figures_first_and_folds_its_verdicts(pages):
    page = pages["every/index.html"]
    text = page.text
    assert text.index("Claimed") < text.index("<img") < text.index("<p>First.</p>") < text.index("<details")
    assert "<b>Seeds in order.</b> Seeds from 0 on." in text
    assert "<b>Film.</b> <b>Turning.</b> chunk = 2" in text
    assert '<a href="turning.html">Play it yourself' in text
    folded = text[text.index("<details") :]
    for status in STATUSES:
        assert f'<span class="status {status.replace(" ", "-")}">{status}</span>' in folded
    for heading in ("Theorems", "Conjectures", "Observations", "Readings"):
        assert f">{heading} <span>" in folded
    assert folded.count('<tr class="reading">') == 2
    assert "Tokens &lt;swirl&gt;" in folded
    assert folded.count("Seeds 0, 1, 2.") == 2, "of the failing verdict, and of the row of one that holds"
    pictures = [values for tag, values in page.tags if tag == "img"]
    films = [values for tag, values in page.tags if tag == "video"]
    assert len(pictures) == len(films) == 1
    assert all(values["alt"] for values in pictures)
    assert all({"controls", "muted", "playsinline", "loop", "aria-label"} <= set(values) for values in films)


def test_t5_has_a_figure_of_its_own():
    from metastable.experiments import model_similarity

    shares, counts = np.full((3, 5, 2, 2), 0.1), np.ones((5, 2, 20))
    data = {"trained": np.array(4), "share_above": shares, "histogram": counts}
    data |= {"title-t5/share_above": shares, "title-t5/histogram": counts}
    drawn = model_similarity.draw(model_similarity.Params(layers=4, bins=20), data)
    assert (
        "title-t5: raw cosines of all pairs of positions in 3 texts" in drawn["Fig. 1 on title-t5: raw cosines"].caption
    )


def test_a_table_is_a_table(pages, home):
    text = pages["every/index.html"].text
    assert '<td data-label="cosine raw">0.5 &lt; 1</td>' in text
    assert json.loads((home / "every" / "numbers.json").read_text())["columns"] == ["", "cosine raw"]
    assert "numbers.svg" not in text


def test_failing_seeds_can_be_replayed(pages):
    for form in ("wrong/index.html", "gallery.html"):
        assert "Seeds 1. Replay one" in pages[form].text
        assert "metastable reproduce wrong --quick --seeds 1 --seed 1 --out replay" in pages[form].text
    assert "wrong &lt;holds&gt; &amp; is &quot;quoted&quot;" in pages["verdicts.html"].text


def test_ten_findings_at_most_and_own_sentences_first(home):
    one = read(home / "good")
    silent = dataclasses.replace(one, finding=None)
    records = {f"plain-{k}": dataclasses.replace(silent, name=f"plain-{k}") for k in range(8)}
    spoken = Finding("a", "b", "Seeds in order")
    records |= {f"own-{k}": dataclasses.replace(one, name=f"own-{k}", finding=spoken) for k in range(8)}
    found = [record.name for record in chosen(records)]
    assert len(found) == MOST
    assert [name for name in found if name.startswith("own")] == [f"own-{k}" for k in range(8)]
    assert found[:2] == ["plain-0", "plain-1"], "in the order of the gallery"


def test_verdicts_as_a_document(home):
    text = (home / "verdicts.md").read_text()
    assert text == markdown(contents(home, ["good", "wrong", "every", "plain"]).records.values(), "Verdicts")
    assert "| trivial only | theorem | All in one point |" in text
    assert "| fails |  | row: It fails |" in text


def test_a_preview_is_small(home):
    from PIL import Image

    with Image.open(home / "good" / "preview.png") as image:
        assert np.asarray(image.convert("L")).std() > 1, "something is drawn"
        assert image.width == 560
    assert (home / "good" / "preview.png").stat().st_size < 40_000


def test_the_single_file_drops_films_and_never_pictures(home, monkeypatch):
    monkeypatch.setattr(gallery, "BUDGET", 1)
    page = Page(gallery.single_page(contents(home, ["good", "every"])))
    assert page.count("video") == 0
    assert "all pictures are here" in page.text
    assert page.text.count("Left out to keep this file small") == 2
    pictures = [values["src"] for tag, values in page.tags if tag == "img"]
    assert len(pictures) >= 5
    assert all(address.startswith("data:") for address in pictures)


def test_an_experiment_without_a_self_check_says_so(home):
    one = read(home / "good")
    assert one.checks
    assert "No self-check" not in experiment_page.experiment(one, Media())
    assert "No self-check" in experiment_page.experiment(dataclasses.replace(one, checks=()), Media())
