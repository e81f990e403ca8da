"""The command line in this process: quick, because JAX starts once."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from metastable import progress
from metastable.cli import main


@dataclass
class Answer:
    """What a command said and returned."""

    code: int
    out: str
    err: str

    @property
    def facts(self) -> dict[str, Any]:
        """The JSON object on stdout: exactly one line."""
        assert self.out.count("\n") == 1
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found

    def refused(self, *fragments: str) -> None:
        """Bad input: exit code 2, one sentence on stderr, nothing on stdout."""
        assert self.code == 2, self
        assert self.out == ""
        assert self.err.startswith("metastable: ")
        assert self.err.count("\n") == 1, self.err
        assert "Traceback" not in self.err
        for fragment in fragments:
            assert fragment in self.err


Metastable = Callable[..., Answer]


@pytest.fixture
def metastable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Metastable:
    """Run a command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda number: None)
    monkeypatch.setattr(progress, "_INTERVAL", float("inf"))  # a slow machine shows progress; here only answers count

    def call(*words: object) -> Answer:
        capsys.readouterr()
        code = main([str(word) for word in words])
        said = capsys.readouterr()
        return Answer(code, said.out, said.err)

    return call
