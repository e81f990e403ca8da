"""What commands say: progress and notes on stderr, a short summary or one JSON object on stdout."""

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_EVERY = 10.0  # seconds between lines of progress where there is no terminal
_HOME = str(Path(__file__).parents[1])


def answer(as_json: bool, facts: Mapping[str, Any], lines: Sequence[str]) -> None:
    """Print the facts as one JSON object, or the lines."""
    if as_json:
        print(json.dumps(facts, ensure_ascii=False, allow_nan=False))
        return
    for line in lines:
        print(line)


@contextmanager
def notes() -> Iterator[list[str]]:
    """Collect the package's warnings as sentences instead of printing them; other packages' are dropped."""
    found: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield found
        finally:
            for warning in caught:
                sentence = " ".join(str(warning.message).split())
                if warning.filename.startswith(_HOME) and sentence not in found:
                    found.append(sentence)


@contextmanager
def progress(what: str, horizon: float) -> Iterator[Callable[[float], None]]:
    """A bar on a terminal, a line every ten seconds elsewhere; call what it gives with the time reached."""
    if not sys.stderr.isatty():
        yield _lines(what, horizon)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[time]}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=max(horizon, 1e-300), time="starting")

        def report(reached: float) -> None:
            bar.update(task, completed=reached, time=f"t = {reached:.4g} of {horizon:g}")

        yield report


def _lines(what: str, horizon: float) -> Callable[[float], None]:
    last = time.monotonic()

    def report(reached: float) -> None:
        nonlocal last
        if time.monotonic() - last >= _EVERY:
            print(f"{what}: t = {reached:.4g} of {horizon:g}", file=sys.stderr, flush=True)
            last = time.monotonic()

    return report
