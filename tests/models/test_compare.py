"""`metastable compare`: several studies on one page."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from metastable.cli import main
from metastable.errors import InputError
from metastable.models.comparison import numbers, reread, sides
from metastable.models.comparison_figures import every_picture
from metastable.models.comparison_page import _read, _texts, check_free, publish
from metastable.models.curves import similarity_curves, sources
from metastable.models.study import read
from tests.models.study_records import made_study


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two studies with everything, one of them with controls, and one of a model without maps and known weights."""
    folder = tmp_path_factory.mktemp("compared")
    made_study(folder / "a", name="first", written=True)
    made_study(folder / "b", name="second", layers=3, control=(), mean=0.5, rungs=(0.9, 0.8, 0.7, 0.6), written=True)
    made_study(folder / "c", name="third", layers=3, control=(), maps=False, parts=False, written=True)
    return folder


def quick(patch: pytest.MonkeyPatch) -> None:
    def unrendered(figure: Any, path: Path, **_: Any) -> None:
        assert figure.axes
        path.write_text('<svg xmlns="http://www.w3.org/2000/svg" width="245pt" height="100pt"/>')

    patch.setattr("metastable.models.comparison_page.save_figure", unrendered)


@pytest.mark.slow
def test_two_studies(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    with pytest.MonkeyPatch.context() as patch:
        quick(patch)
        assert main(["compare", str(home / "a"), str(home / "b"), "--out", str(out), "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        assert facts["compared"] == ["first", "second"]
        assert facts["numbers"]["mean cosine"] == {"first": 0.2, "second": 0.5}
        text = (out / "compare.html").read_text()
        assert "difference" in text
        assert "first and second" in text
        assert text.count("<img") == 9
        assert main(["compare", str(home / "a"), str(home / "b"), "--out", str(out)]) == 0  # made again
    rows = list(csv.reader((out / "numbers.csv").open()))
    assert rows[0] == ["measure", "first", "second"]
    assert len(rows) > 15


@pytest.mark.slow
def test_three_and_one_without_maps(home: Path) -> None:
    shown = sides([str(home / name) for name in "abc"])
    table = dict(numbers(shown))
    assert table["share of heads that are good triples"][2] is None
    assert table["mean cosine"] == [0.2, 0.5, 0.2]
    for picture in every_picture(shown).values():
        assert picture.draw().get_size_inches()[0] <= 4.0
    assert len(every_picture(shown)["cosines-raw"].draw().axes[0].get_xticks()) == 5  # more would lie on each other


@pytest.mark.slow
def test_a_model_and_its_controls(home: Path) -> None:
    shown = sides([str(home / "a")])
    assert [side.label for side in shown] == ["trained", "fresh weights", "random tokens"]
    table = dict(numbers(shown))
    assert table["mean cosine"] == pytest.approx([0.2, 0.99, 0.2])
    assert table["median effective beta"][1] is None
    same = sides([str(home / "a"), f"{home / 'a'}:init"])  # one study twice is no other study
    assert [side.label for side in same] == ["first", "first (fresh weights)"]
    one = sides([str(home / "b"), f"{home / 'a'}:init"])
    assert [side.label for side in one] == ["second", "first (fresh weights)"]


@pytest.mark.slow
def test_who_read_what(home: Path) -> None:
    """Random tokens are not the texts that the model read."""
    a, b = str(home / "a"), str(home / "b")
    assert _texts(sides([a])).startswith("All read the same texts, but for random tokens (texts of as many")
    assert _texts(sides([a, f"{a}:tokens"])).startswith("The texts are the same, but for first (random tokens)")
    assert _texts(sides([a, f"{a}:init"])) == "Both read the same texts."
    assert [("random" in _read(side)) for side in sides([a])] == [False, False, True]
    assert _texts(sides([a, b])) == "Both read the same texts."


def test_a_page_of_a_model_and_its_controls(home: Path, tmp_path: Path) -> None:
    """What the controls do is said beside what the model does; nothing is drawn of which there is one alone."""
    with pytest.MonkeyPatch.context() as patch:
        quick(patch)
        text = publish(sides([str(home / "a")]), tmp_path / "out").read_text()
    assert "<h1>first and its controls</h1>" in text
    assert "<td>One point after 3 layers.</td>" in text
    assert "<td>Heads form groups in 0 of 3 layers.</td>" in text
    assert "<td>The strongest head pays the first token 20% of its attention.</td>" in text
    names = set(re.findall(r'id="figure-([^"]+)"', text))
    assert names == {"similarity", "cosines-raw", "cosines-centred", "groups", "sinks", "ranks"}


def test_names_of_axes_do_not_run_into_one_another(home: Path) -> None:
    """Those of models of unlike depth did: "share of the trained depth" stood twice in the width of one."""
    first, second = (source for name in "ab" for source in sources(read(home / name))[:1])
    figure = similarity_curves([first, replace(second, depth=2)])
    figure.draw_without_rendering()
    left, right = (panel.xaxis.label.get_window_extent() for panel in figure.axes[-2:])
    assert figure.axes[-1].get_xlabel().startswith("share of the")
    assert left.x1 < right.x0
    assert right.x1 <= figure.bbox.x1


def test_any_picture_of_a_comparison_by_its_name(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        quick(patch)
        publish(sides([str(home / "a"), f"{home / 'a'}:init", str(home / "b")]), tmp_path / "out")
    place, out = str(tmp_path / "out"), tmp_path / "sinks.pdf"
    assert [side.label for side in reread(tmp_path / "out")] == ["first", "first (fresh weights)", "second"]
    assert main(["plot", place, "--kind", "sinks", "--out", str(out)]) == 0
    assert out.read_bytes().startswith(b"%PDF")
    assert main(["plot", place, "--kind", "sinks"]) == 0
    check_free(tmp_path / "out")  # a picture inside is in nobody's way
    capsys.readouterr()
    assert main(["plot", place]) == 2
    assert "name a picture with --kind: similarity, cosines-raw" in capsys.readouterr().err
    assert main(["plot", place, "--kind", "sink"]) == 2
    assert "did you mean 'sinks'" in capsys.readouterr().err
    assert main(["plot", place, "--kind", "sinks", "--head", "1"]) == 2
    assert "holds a comparison, whose pictures have no option 'head'" in capsys.readouterr().err
    (tmp_path / "out" / "comparison.json").write_text('{"sides": [{}]}')
    assert main(["plot", place, "--kind", "sinks"]) == 2
    assert "is damaged" in capsys.readouterr().err


def test_what_cannot_be_compared(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="has no controls"):
        sides([str(home / "b")])
    with pytest.raises(InputError, match="no control 'shuffle'"):
        sides([str(home / "b"), f"{home / 'a'}:shuffle"])
    (tmp_path / "mine.txt").write_text("mine")
    assert main(["compare", str(home / "a"), str(home / "b"), "--out", str(tmp_path)]) == 2
    assert "holds no comparison (mine.txt)" in capsys.readouterr().err
    assert main(["compare"]) == 2
    assert "Name two studies" in capsys.readouterr().err


def test_a_model_is_measured_first(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is no folder is measured into the folder that `metastable model` would take."""
    monkeypatch.chdir(tmp_path)
    asked: list[str] = []

    def run(settings: Any, folder: Path, progress: Any) -> tuple[Any, str]:
        asked.append(str(folder))
        return made_study(folder, name=settings.model, control=(), parts=False, maps=False, written=True), "made"

    def load(name: str) -> None:
        if name == "nowhere":
            raise InputError("There is no model 'nowhere'.")

    monkeypatch.setattr("metastable.models.comparison.run", run)
    monkeypatch.setattr("metastable.models.comparison.load", load)
    with pytest.raises(InputError, match="no model"):
        sides(["minilm", "nowhere"])
    assert asked == [], "every name is tried before the first is measured"
    shown = sides([str(home / "b"), "minilm"])
    assert asked == ["model-minilm"]
    assert [side.label for side in sides([str(home / "b"), "minilm"])] == [side.label for side in shown]
    assert asked == ["model-minilm"]
