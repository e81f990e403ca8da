"""One progress bar: bars on a terminal, few lines elsewhere, results that stay."""

import io
import sys

import pytest

from metastable import progress
from metastable.progress import Progress, progress_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def work(count: int | None) -> None:
    with progress_bar(count) as report:
        report(Progress("loading", None, "a model"))
        for k in range(3):
            report(Progress("texts", k / 3, f"{k} of 3 [not markup]"))
        report(Progress("texts", 1.0, "3 read", over=True))
        report(Progress("spectra", 1.0, "none", over=True))


@pytest.mark.parametrize("kind", [Terminal, io.StringIO])
def test_results_stay(kind: type[io.StringIO], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    numbered = ["[1/2] texts: 3 read", "[2/2] spectra: none"]
    for count, expected in ((2, numbered), (None, ["texts: 3 read", "spectra: none"])):
        screen = kind()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", screen)
            work(count)
        for line in expected:
            assert f"{line}\n" in screen.getvalue()
        assert (" of 3 [not markup]" in screen.getvalue()) == screen.isatty()


def test_lines_are_few(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    work(2)
    assert capsys.readouterr().err.count("\n") == 2
    monkeypatch.setattr(progress, "_INTERVAL", 0.0)
    work(2)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[:2] == ["loading: a model", "texts: 0 of 3 [not markup]"]
