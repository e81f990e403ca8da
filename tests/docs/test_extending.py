"""Every example of docs/extending.md runs as printed, with few tokens and many: Python, TOML and the command line."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

import metastable as ms
from metastable import experiments, observables, plots
from metastable.cli import main

DOCS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"^```(python|toml|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NEEDS = {"Family of models": ("torch", "transformers")}


def sections(page: str) -> dict[str, list[tuple[str, str]]]:
    """Blocks of code (language, text) under each heading that has some."""
    text = (DOCS / page).read_text()
    found = {part.partition("\n")[0]: _BLOCK.findall(part) for part in re.split(r"^## ", text, flags=re.MULTILINE)}
    return {title: blocks for title, blocks in found.items() if blocks}


def run_blocks(blocks: list[tuple[str, str]], folder: Path, names: dict[str, object]) -> None:
    """Python in one namespace, TOML as run.toml with this n, and commands in process, in the order of the page."""
    for k, (language, text) in enumerate(blocks):
        if language == "python":
            source = folder / f"block{k}.py"  # a file, so that the source of its functions can be found
            source.write_text(text)
            exec(compile(text, str(source), "exec"), names)
        elif language == "toml":
            (folder / "run.toml").write_text(text.replace("n = 64\n", f"n = {names['n']}\n"))
        else:
            for line in text.strip().splitlines():
                command, *arguments = shlex.split(line, comments=True)
                assert command == "metastable"
                assert main(arguments) == 0, line


@pytest.fixture
def tables() -> Iterator[None]:
    """Tables as they were, whatever an example adds to them."""
    held = [
        ms.masks.MASKS, ms.normalise.NORMALISATIONS, ms.scores.SCORES, ms.positions.POSITIONS, ms.geometry.GEOMETRIES,
        ms.methods.METHODS, ms.noises.NOISES, ms.weights.FAMILIES, ms.initial.INITIAL, observables.OBSERVABLES,
        plots.PLOTS, experiments.EXPERIMENTS, ms.engines.ENGINES,
    ]  # fmt: skip
    before = [dict(table) for table in held]
    yield
    for table, entries in zip(held, before):
        table.clear()  # type: ignore[attr-defined]
        table.update(entries)  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize("n", [64, 1000])
@pytest.mark.parametrize("title", sections("extending.md"))
def test_example(title: str, n: int, tables: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    families: dict[str, object] = {}
    for name in _NEEDS.get(title, ()):
        pytest.importorskip(name)
    if title in _NEEDS:
        from metastable.models.families import FAMILIES

        families = FAMILIES  # type: ignore[assignment]
    monkeypatch.chdir(tmp_path)
    known = dict(families)
    try:
        run_blocks(sections("extending.md")[title], tmp_path, {"n": n, "__name__": "example"})
    finally:
        for name in families.keys() - known.keys():
            del families[name]


def test_every_table_has_an_example() -> None:
    """Each row of the page's own table is a section."""
    text = (DOCS / "extending.md").read_text()
    rows = re.findall(r"^\| ([a-z ]+) \| .* \| `[\w.]+` \| .* \|$", text, re.MULTILINE)
    assert {row.capitalize() for row in rows} == set(sections("extending.md"))
