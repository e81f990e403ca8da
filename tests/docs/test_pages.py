"""The Python of README.md, docs/usage.md, docs/figures.md and docs/flow.md runs as printed."""

import re
from pathlib import Path

import pytest

from tests.docs.test_extending import run_blocks

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```(python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        "docs/usage.md",
        pytest.param("docs/figures.md", marks=pytest.mark.slow),
        pytest.param("docs/flow.md", marks=pytest.mark.slow),
        pytest.param("README.md", marks=pytest.mark.slow),
    ],
)
def test_page(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_blocks(_BLOCK.findall((ROOT / page).read_text()), tmp_path, {"__name__": "example"})


def test_commands_that_others_grep() -> None:
    """The README's two commands are one line each; .ci/run takes the second from there."""
    lines = (ROOT / "README.md").read_text().splitlines()
    assert sum(bool(re.match(r"^ *python3 -m venv .*metastable reproduce --quick", line)) for line in lines) == 1
    assert sum(bool(re.match(r"^ *python3 -m venv .*pytest", line)) for line in lines) == 1
