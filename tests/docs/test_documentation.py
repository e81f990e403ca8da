"""The documentation: Python of its pages runs, links lead somewhere, notebooks hold no outputs, no network needed."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from metastable.errors import InputError
from metastable.experiments import EXPERIMENTS
from metastable.explorer import presets
from tests.docs.test_extending import run_blocks

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(p for p in DOCS.rglob("*.md") if "_build" not in p.parts)
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
_BLOCK = re.compile(r"^ *```(python)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def with_python(folder: str) -> list[str]:
    return [str(p.relative_to(DOCS)) for p in sorted((DOCS / folder).glob("*.md")) if _BLOCK.search(p.read_text())]


@pytest.mark.slow
@pytest.mark.parametrize("page", [*with_python("howto"), *with_python("guide")])
def test_python_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import textwrap

    monkeypatch.chdir(tmp_path)
    blocks = [(kind, textwrap.dedent(code)) for kind, code in _BLOCK.findall((DOCS / page).read_text())]
    run_blocks(blocks, tmp_path, {"__name__": "example"})


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in _LINK.findall(text):
        if not target.startswith(("http:", "https:", "mailto:")):
            assert (page.parent / target).exists(), f"{target} in {page.name}"


def test_every_folder_of_pages_is_in_the_table_of_contents() -> None:
    index = (DOCS / "index.md").read_text()
    for folder in sorted({p.parent for p in PAGES} - {DOCS}):
        name = folder.relative_to(DOCS).as_posix()
        assert f"\n{name}/" in index, name


def test_every_public_name_is_in_the_api_pages() -> None:
    import metastable as ms

    pages = "".join(path.read_text() for path in (DOCS / "api").glob("*.md"))
    assert [name for name in ms.__all__ if not name.startswith("_") and not re.search(rf"\b{name}\b", pages)] == []


def test_literature_names_every_experiment_of_the_papers() -> None:
    page = (DOCS / "literature.md").read_text()
    named = set(re.findall(r"`([a-z]+(?:-[a-z]+)*)`", page))
    papers = {"low-rank-attention", "polytope", "hyperplanes", "codimension", "collapse", "single-cluster", "sinks"}
    assert papers <= named & set(EXPERIMENTS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebooks_hold_no_outputs_and_are_listed(path: Path) -> None:
    cells = json.loads(path.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code)
    assert f"\n{path.stem}\n" in (DOCS / "notebooks" / "index.md").read_text()
    for cell in code:
        compile("".join(cell["source"]), path.name, "exec")


def test_five_notebooks() -> None:
    assert len(NOTEBOOKS) >= 5


def test_notebooks_hide_no_failure() -> None:
    """What cannot run fails the build: only Ctrl-C, which one of them presses, is caught, and nothing is skipped."""
    for path in NOTEBOOKS:
        for cell in json.loads(path.read_text())["cells"]:
            assert not cell["metadata"].get("tags"), path.name
            lines = [line.strip() for line in cell["source"] if cell["cell_type"] == "code"]
            caught = [line for line in lines if line.startswith("except") and line != "except KeyboardInterrupt:"]
            assert caught == [], path.name
            assert not any("is not None" in line for line in lines), path.name


def test_only_a_registry_out_of_reach_leaves_a_notebook_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    sys.modules.pop("reachable", None)
    import reachable

    def fails(why: str) -> Callable[[str], object]:
        def fetch(name: str) -> object:
            raise InputError(f"{name!r}: {why}")

        return fetch

    (notebook,) = reachable.unreachable(fails("pip could not download rxnmapper"))
    assert (DOCS / notebook).is_file()
    assert reachable.unreachable(lambda name: name) == {}
    with pytest.raises(InputError, match="pinned"):
        reachable.unreachable(fails("does not have its pinned SHA-256"))


@pytest.mark.parametrize("text", [r"\frac{a}{b}", r"\sum_{j} A_{ij} V x_j", r"\dot{x}_i = T_{x_i}(u)", r"x^\top K > 0"])
def test_formulas_need_no_network(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("latex2mathml")
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    sys.modules.pop("mathml", None)
    import mathml

    made = mathml.formula(text, display=True)
    assert made.startswith("<math ")
    assert 'display="block"' in made
    assert "http" not in made.replace("http://www.w3.org/1998/Math/MathML", "")


def test_the_lesson_names_what_the_laboratory_has() -> None:
    """Presets, buttons and the number of the tour's steps, as their pages write them."""
    page = " ".join((DOCS / "howto" / "teaching.md").read_text().split())
    named = set(re.findall(r"(?<!\*)\*([^*|]+)\*(?!\*)", page))
    titles = {one.title for one in presets.PRESETS}
    words = "".join(path.read_text() for path in (ROOT / "src" / "metastable" / "explorer").glob("*.py"))
    assert [name for name in named if name not in titles and f'"{name}"' not in words] == []
    assert len(named & titles) >= 6
    assert len(presets.TOUR) >= 6
    assert "V = -I" in presets.TOUR[5].text
