"""The Python of README.md and of the pages of docs/ that show some runs as printed."""

import re
from pathlib import Path

import pytest

from tests.docs.test_extending import run_blocks, sections
from tests.models.test_command import unrendered

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```(python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


_ELSEWHERE = {"docs/extending.md", "docs/models.md"}  # their commands are run too: test_extending, test_models_page
PAGES = ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if p not in _ELSEWHERE and _BLOCK.search((ROOT / p).read_text())])
def test_page(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_blocks(_BLOCK.findall((ROOT / page).read_text()), tmp_path, {"__name__": "example"})


@pytest.mark.slow
@pytest.mark.network
def test_models_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python and commands in the order of the page, each corpus cut to two short texts.

    Of a study's 23 pictures and its film none is rendered: `metastable plot` and `animate` render one each.
    """
    for name in ("torch", "transformers"):
        pytest.importorskip(name)
    from metastable.models import study_settings
    from metastable.models.study_record import measured

    whole = study_settings.texts
    monkeypatch.setattr(study_settings, "texts", lambda name, limit: (text[:120] for text in whole(name, 2)))
    monkeypatch.setattr("metastable.models.run_study.save_figure", unrendered)
    monkeypatch.setattr("metastable.models.run_study.film", lambda made, path: None)
    monkeypatch.chdir(tmp_path)
    blocks = sections("models.md")
    assert len(blocks) == 6
    for title in blocks:
        run_blocks(blocks[title], tmp_path, {"__name__": "example"})
    for made in ("model-minilm/report.html", "compare-reactions-albert-reactions-bert/compare.html"):
        assert (tmp_path / made).exists(), made
    assert measured(tmp_path / "out/minilm")  # the numbers; a report would make it a finished record
    assert (tmp_path / "cosines.pdf").stat().st_size > 1000
    assert (tmp_path / "depth.gif").stat().st_size > 1000


def test_commands_that_others_grep() -> None:
    """The README's two commands are one line each; .ci/run takes the second from there."""
    lines = (ROOT / "README.md").read_text().splitlines()
    assert sum(bool(re.match(r"^ *python3 -m venv .*metastable reproduce --quick", line)) for line in lines) == 1
    assert sum(bool(re.match(r"^ *python3 -m venv .*pytest", line)) for line in lines) == 1
