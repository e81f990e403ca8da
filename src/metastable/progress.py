"""Progress of long work: what is reported, and the one bar that shows it.

Work reports `Progress` objects to a function it is given and knows nothing of terminals; `progress_bar` makes such a
function for the command line. Everything goes to stderr.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

_INTERVAL = 10.0  # seconds between lines where there is no terminal


@dataclass(frozen=True)
class Progress:
    """How far a task is.

    ``share`` lies between 0 and 1; None where it is not known. ``text`` describes it, and is the result of a task
    that is ``over``.
    """

    task: str
    share: float | None
    text: str = ""
    over: bool = False


Report = Callable[[Progress], None]


def is_quiet() -> bool:
    """Whether progress and summaries are unwanted: `--quiet`, or METASTABLE_QUIET."""
    return os.environ.get("METASTABLE_QUIET", "") not in ("", "0")


def duration(seconds: float) -> str:
    """A time as one reads it.

    >>> duration(3.21), duration(75.0), duration(4000.0), duration(3.5e6)
    ('3.2 s', '1 min 15 s', '1 h 6 min', '40.5 days')
    """
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    if seconds >= 48 * 3600:
        return f"{seconds / 86400:.1f} days"
    whole = round(seconds)
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


def counted(number: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "chunk"), counted(1200, "run")
    ('1 chunk', '1,200 runs')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def silent(progress: Progress) -> None:
    """Ignore progress."""


@contextmanager
def progress_bar(count: int | None = None) -> Iterator[Report]:
    """A function that shows progress: bars on a terminal, a line now and then elsewhere.

    With ``count`` tasks run side by side, each with a bar of its own until it is over; without, one task follows
    another, and its bar takes the place of the last. Where there is no terminal, a line is written at most every ten
    seconds. In both cases the result of a task that is over stays as a line.
    """
    if is_quiet():
        yield silent
    elif sys.stderr is not None and sys.stderr.isatty():
        with _bars(count) as report:
            yield report
    else:
        yield _lines(count)


def _lines(count: int | None) -> Report:
    last, ended = time.monotonic(), 0

    def report(progress: Progress) -> None:
        nonlocal last, ended
        if progress.over:
            ended += 1
        elif time.monotonic() - last < _INTERVAL:
            return
        with suppress(OSError, ValueError):  # a full or closed stderr does not end the work
            print(_result(progress, ended, count) if progress.over else _line(progress), file=sys.stderr, flush=True)
        last = time.monotonic()

    return report


@contextmanager
def _bars(count: int | None) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    name, text = (TextColumn(form, markup=False) for form in ("{task.description}", "{task.fields[text]}"))
    columns = (name, BarColumn(), text, TimeElapsedColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        total = None if count is None else bars.add_task("all", total=count, text="")
        running: dict[str, TaskID] = {}
        ended = 0

        def report(progress: Progress) -> None:
            nonlocal ended
            if progress.over:
                ended += 1
                if progress.task in running:
                    bars.remove_task(running.pop(progress.task))
                if total is not None:
                    bars.advance(total)
                bars.console.print(_result(progress, ended, count), markup=False, highlight=False)
                return
            if progress.task not in running:
                while count is None and running:
                    bars.remove_task(running.popitem()[1])
                running[progress.task] = bars.add_task(progress.task, total=1.0, text=progress.text)
            bar, known = running[progress.task], progress.share is not None
            bars.update(bar, total=1.0 if known else None, completed=progress.share or 0.0, text=progress.text)

        yield report


def _line(progress: Progress) -> str:
    return f"{progress.task}: {progress.text}" if progress.text else progress.task


def _result(progress: Progress, number: int, count: int | None) -> str:
    return _line(progress) if count is None else f"[{number:>{len(str(count))}}/{count}] {_line(progress)}"
