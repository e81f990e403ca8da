"""Every example in a docstring runs as printed."""

import doctest
import importlib
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "metastable"
QUICK = ("errors", "progress", "provenance", "initial", "equation", "config", "observables")


def modules() -> list[str]:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        if ">>> " in path.read_text() and "cli" not in parts:
            found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return found


def marked(name: str) -> object:
    return pytest.param(name, marks=() if name.split(".")[0] in QUICK else pytest.mark.slow, id=name or "metastable")


@pytest.mark.parametrize("name", [marked(name) for name in modules()])
def test_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(".".join(filter(None, ["metastable", name])))
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.testmod(module, optionflags=flags).failed == 0
