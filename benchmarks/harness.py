"""How a workload is measured: one process per engine, answers compared first, rounds interleaved, best of several.

numba, JAX, OpenBLAS and torch each keep a pool of threads, and pools in one process hurt each other; so every engine
lives in a process of its own for as long as its workload lasts. Answers that disagree stop the workload.
"""

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

OURS = "metastable"
_ROUND = 0.15  # seconds that an engine repeats itself for in a round
_PAUSE = 0.02  # seconds for the threads of the engine before to fall asleep
_MOST = 60.0  # seconds of timing per engine and case; slow engines have fewer rounds


class Absent(Exception):
    """Raised by an engine that cannot run here, with the reason."""


class Case(NamedTuple):
    """One size of a workload: its key in tables and goals, and its numbers (smaller with --quick)."""

    key: str
    numbers: dict[str, Any]

    def __getitem__(self, name: Any) -> Any:
        return self.numbers[name]

    def __str__(self) -> str:
        return ", ".join(f"{name} = {_short(value)}" for name, value in self.numbers.items())


class Outcome(NamedTuple):
    """What one call of an engine did, when it is more than an answer.

    ``share``: the part of the work that was done (the time is scaled up); ``seconds``: a time of its own, for example
    CPU time, or nan for an answer that is there to be compared with and not to be timed.
    """

    answer: np.ndarray
    share: float = 1.0
    seconds: float | None = None


Run = Callable[[], "np.ndarray | Outcome"]


@dataclass(frozen=True)
class Engine:
    """A way to do a workload: ``build(case)`` prepares everything and returns the function that is timed."""

    build: Callable[[Case], Run]
    note: str = ""
    tolerance: float | None = None  # another one than the workload's, for another method
    reference: str | None = None  # another engine to agree with than the workload's
    only: tuple[str, ...] | None = None  # keys of the cases it takes part in; None: all
    once: bool = False  # timed by its first call alone

    def takes(self, case: Case) -> bool:
        return self.only is None or case.key in self.only


@dataclass(frozen=True)
class Goal:
    """A ratio to reach: ``measure(table)`` against ``bound``, at least it or at most it."""

    text: str
    measure: "Callable[[Table], float]"
    bound: float
    at_least: bool = True
    unit: str = "x"


@dataclass(frozen=True)
class Workload:
    """Cases, engines and goals. The first engine is the reference that others must agree with."""

    title: str
    cases: Callable[[bool], list[Case]]  # quick -> cases, smallest first
    engines: dict[str, Engine]
    tolerance: float
    goals: tuple[Goal, ...] = ()
    note: str = ""
    grid: bool = False  # one table of times for all cases, and slopes, instead of a table for each case


@dataclass
class Row:
    """One engine in one case."""

    engine: str
    note: str
    seconds: float = float("nan")
    share: float = 1.0
    error: float = float("nan")
    tolerance: float = float("nan")
    megabytes: float = float("nan")
    absent: str = ""


@dataclass
class Table:
    """What was measured of a workload: rows by case, and the machine's limits."""

    name: str
    workload: Workload
    limits: dict[str, float]
    cases: dict[str, Case] = field(default_factory=dict)
    rows: dict[str, list[Row]] = field(default_factory=dict)
    failure: str = ""

    def row(self, case: str, engine: str) -> Row:
        """A measured row; KeyError if there is none."""
        return {row.engine: row for row in self.rows[case] if not row.absent}[engine]

    def seconds(self, case: str, *engines: str) -> float:
        """The time of an engine, or of the fastest of several that are there; KeyError if none is."""
        times = [row.seconds for row in self.rows[case] if row.engine in engines and not row.absent]
        if not times:
            raise KeyError(engines)
        return min(times)

    def faster(self, case: str, *peers: str, ours: str = OURS) -> float:
        """How many times ours is faster than the fastest of the peers."""
        return self.seconds(case, *peers) / self.seconds(case, ours)


class Failure(Exception):
    """Two engines gave different answers, or one gave none for no good reason."""


def measure(name: str, workload: Workload, quick: bool, limits: dict[str, float], say: Callable[[str], None]) -> Table:
    """Compare, then time, every engine of a workload in every case."""
    table = Table(name, workload, limits)
    workers = {engine: _Worker(name, engine) for engine in workload.engines}
    try:
        for case in workload.cases(quick):
            table.cases[case.key] = case
            table.rows[case.key] = _measure_case(workload, case, workers, 2 if quick else 5, say)
    except Failure as problem:
        table.failure = str(problem)
        say(f"{name}: FAILED: {problem}")
    finally:
        for worker in workers.values():
            worker.stop()
    return table


def _measure_case(
    workload: Workload, case: Case, workers: "dict[str, _Worker]", rounds: int, say: Callable[[str], None]
) -> list[Row]:
    rows: dict[str, Row] = {}
    answers: dict[str, np.ndarray] = {}
    for name, engine in workload.engines.items():
        if not engine.takes(case):
            continue
        row = rows[name] = Row(name, engine.note)
        reply = workers[name].ask("prepare", case)
        if isinstance(reply, str):
            row.absent = reply
            say(f"  {name}: left out: {reply}")
            continue
        answers[name], row.share, row.seconds = reply
        reference = answers[engine.reference or next(iter(answers))]
        row.tolerance = workload.tolerance if engine.tolerance is None else engine.tolerance
        row.error = difference(answers[name], reference)
        say(f"  {name}: ready, differs by {row.error:.1e} (allowed {row.tolerance:.0e})")
        if not row.error <= row.tolerance:
            raise Failure(f"{name} is off by {row.error:.3g} where {row.tolerance:g} is allowed ({case}).")
    _time(workload, rows, workers, rounds, say)
    for name, row in rows.items():
        if not row.absent:
            row.megabytes = workers[name].ask("memory")
    return list(rows.values())


def _time(
    workload: Workload, rows: dict[str, Row], workers: "dict[str, _Worker]", rounds: int, say: Callable[[str], None]
) -> None:
    # an absent row has no time yet, and one that is not to be timed never will
    running = {name: row for name, row in rows.items() if row.seconds >= 0 and not workload.engines[name].once}
    spent = dict.fromkeys(running, 0.0)
    for row in running.values():
        row.seconds = float("inf")  # the first call, which warmed things up, does not count
    for number in range(rounds):
        for name, row in running.items():
            if number and spent[name] * (number + 1) / number > _MOST:
                continue
            time.sleep(_PAUSE)
            started = time.perf_counter()
            row.seconds = min(row.seconds, workers[name].ask("time", _ROUND))
            spent[name] += time.perf_counter() - started
        say(f"  round {number + 1} of {rounds}")


def difference(answer: np.ndarray, reference: np.ndarray) -> float:
    """The largest difference, relative to the largest number above 1; of unlike lengths the common part counts."""
    if answer.size == 0:
        return 0.0
    if answer.shape[1:] != reference.shape[1:]:
        raise Failure(f"answers have shapes {answer.shape} and {reference.shape}")
    common = min(len(answer), len(reference))
    part = reference[:common]
    scale = max(1.0, float(np.abs(part).max()))
    return float(np.abs(np.asarray(answer[:common], np.float64) - part).max()) / scale


# --- processes ----------------------------------------------------------------------------------------------------


class _Worker:
    """The process of one engine."""

    def __init__(self, workload: str, engine: str) -> None:
        self.engine = engine
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, workload, engine), daemon=True)
        self.process.start()
        theirs.close()

    def ask(self, *request: Any) -> Any:
        try:
            self.pipe.send(request)
            reply = self.pipe.recv()
        except (EOFError, BrokenPipeError):
            self.process.join(1)
            reply = Failure(f"the process of {self.engine} ended with code {self.process.exitcode}")
        if isinstance(reply, Failure):
            raise reply
        return reply

    def stop(self) -> None:
        try:
            self.pipe.send(("stop",))
        except (BrokenPipeError, OSError):
            return
        self.process.join(10)
        if self.process.is_alive():
            self.process.terminate()


def serve(pipe: Connection, workload: str, engine: str) -> None:
    """The other end: prepare a case, time it, tell the memory."""
    from benchmarks.workloads import load

    chosen = load(workload).engines[engine]
    run: Run | None = None
    while (request := pipe.recv())[0] != "stop":
        try:
            if request[0] == "prepare":
                run = None  # lets go of the case before
                run = chosen.build(request[1])
                pipe.send(_first(run))
            elif request[0] == "time":
                assert run is not None
                pipe.send(_best(run, request[1]))
            else:
                pipe.send(_peak_megabytes())
        except (Absent, ImportError) as reason:
            pipe.send(str(reason))
        except Exception as error:
            pipe.send(Failure(f"{engine}: {type(error).__name__}: {error}"))


def _first(run: Run) -> tuple[np.ndarray, float, float]:
    """Answer, share of the work, and seconds of the first call."""
    seconds, outcome = _timed(run)
    return np.asarray(outcome.answer), outcome.share, seconds


def _best(run: Run, enough: float) -> float:
    """The shortest of as many calls as fit into ``enough`` seconds, one at least."""
    times: list[float] = []
    started = time.perf_counter()
    while not times or time.perf_counter() - started < enough:
        times.append(_timed(run)[0])
    return min(times)


def _timed(run: Run) -> tuple[float, Outcome]:
    started = time.perf_counter()
    result = run()
    took = time.perf_counter() - started
    outcome = result if isinstance(result, Outcome) else Outcome(result)
    return (took if outcome.seconds is None else outcome.seconds) / outcome.share, outcome


def _peak_megabytes() -> float:
    import resource

    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return max(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, children) / 1024


def _short(value: Any) -> str:
    if isinstance(value, int) and value >= 10_000:
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)
