"""Where tasks are computed: this process, worker processes, or a Dask cluster, behind one small interface.

    with make_executor(jobs, cluster) as executor:            # `metastable.sweeps.choose_executor`
        executor.submit(key, function, arguments)     # at most `executor.room` at a time
        for outcome in executor.finished(timeout): ...

A task is a function that can be imported and plain arguments; its outcome is a value or a reason. Executors know
nothing of sweeps: `metastable reproduce` and `metastable hunt` use them too.
"""

import signal
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self

from metastable.errors import InputError

Why = Literal["", "error", "died", "limit"]


@dataclass(frozen=True)
class Outcome:
    """What became of a task: ``value``, or ``why`` there is none and a sentence about it."""

    key: Any
    value: Any = None
    why: Why = ""
    error: str = ""
    trace: str = ""


class TooLong(BaseException):
    """A task was given up. No ``Exception``: a task that handles its own errors must not take this for one of them."""


class Executor(ABC):
    """Something that computes tasks; ``limit`` is the time in seconds after which a task is given up."""

    name: str
    workers: int
    limit: float | None = None

    @property
    @abstractmethod
    def room(self) -> int:
        """How many more tasks it is worth to submit now."""

    @abstractmethod
    def submit(self, key: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        """Take a task."""

    @abstractmethod
    def finished(self, timeout: float) -> list[Outcome]:
        """Outcomes that have come, after waiting for at most ``timeout`` seconds for the first."""

    @abstractmethod
    def close(self) -> None:
        """Stop everything; tasks that are under way are dropped."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def tried(key: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Outcome:
    """A task's outcome in this process."""
    try:
        return Outcome(key, function(*arguments))
    except TooLong as error:
        return Outcome(key, why="limit", error=str(error))
    except InputError as error:
        return Outcome(key, why="error", error=str(error), trace=traceback.format_exc())
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        return Outcome(key, why="error", error=f"{type(error).__name__}: {first}", trace=traceback.format_exc())


class InProcess(Executor):
    """One task after the other, in this process."""

    name, workers = "in-process", 1

    def __init__(self, limit: float | None = None) -> None:
        self.limit = limit
        self._task: tuple[Any, Callable[..., Any], tuple[Any, ...]] | None = None

    @property
    def room(self) -> int:
        return int(self._task is None)

    def submit(self, key: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._task = (key, function, arguments)

    def finished(self, timeout: float) -> list[Outcome]:
        if self._task is None:
            return []
        (key, function, arguments), self._task = self._task, None
        with _alarm(self.limit):
            return [tried(key, function, arguments)]

    def close(self) -> None:
        self._task = None


@contextmanager
def _alarm(limit: float | None) -> Iterator[None]:
    """Raise `TooLong` after a limit: in the main thread, where the system has timers, at the next step of Python."""
    if limit is None or not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: Any) -> None:
        raise TooLong(f"It was given up after {limit:g} s.")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
