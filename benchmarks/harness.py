"""How a workload is measured: one process per engine, answers compared first, then interleaved rounds (`rounds`).

numba, JAX, OpenBLAS and torch each keep a pool of threads, and pools in one process hurt each other; so every engine
lives in a process of its own for as long as its workload lasts. Answers that disagree stop the workload.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.rounds import Spread, Times, interleaved, ratio

if TYPE_CHECKING:
    from benchmarks.processes import Worker

OURS, BEFORE = "metastable", "before"


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
    has_before: bool = True  # whether an earlier version can be set beside it: not where it measured something else


@dataclass
class Row:
    """One engine in one case."""

    engine: str
    note: str
    seconds: float = float("nan")  # the shortest
    share: float = 1.0
    error: float = float("nan")
    tolerance: float = float("nan")
    megabytes: float = float("nan")
    absent: str = ""
    times: Times = field(default_factory=dict)

    def over(self, other: "Row") -> Spread:
        """This time over another, in the same rounds; of engines timed once, the ratio of their times."""
        one = self.seconds / other.seconds
        return ratio(self.times, other.times) or Spread(one, one, one, 1)


@dataclass
class Table:
    """What was measured of a workload: rows by case, and the machine's limits."""

    name: str
    workload: Workload
    limits: dict[str, float]
    cases: dict[str, Case] = field(default_factory=dict)
    rows: dict[str, list[Row]] = field(default_factory=dict)
    failure: str = ""
    facts: dict[str, str] = field(default_factory=dict)  # of the machine, the date, the commit

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
        """How many times ours is faster than the fastest of the peers: the median over the rounds."""
        found = [row for row in self.rows[case] if row.engine in peers and not row.absent]
        if not found:
            raise KeyError(peers)
        return min(row.over(self.row(case, ours)).median for row in found)

    def against_before(self) -> dict[tuple[str, str], Spread]:
        """(case, engine) -> its time over that of the version before, for every engine of ours."""
        found = {}
        for case, rows in self.rows.items():
            there = {row.engine: row for row in rows if not row.absent and row.seconds >= 0}
            for name, row in there.items():
                old = there.get(name.replace(OURS, BEFORE, 1)) if name.startswith(OURS) else None
                if old is not None:
                    found[case, name] = row.over(old)
        return found


class Failure(Exception):
    """Two engines gave different answers, or one gave none for no good reason."""


def measure(
    name: str,
    workload: Workload,
    quick: bool,
    limits: dict[str, float],
    say: Callable[[str], None],
    before: str | None = None,
) -> Table:
    """Compare, then time, every engine of a workload in every case; ``before`` is the Python of an earlier version."""
    from benchmarks.processes import Worker

    table = Table(name, workload, limits)
    engines = with_before(workload.engines) if before and workload.has_before else workload.engines
    workers = {
        engine: Worker(name, engine.replace(BEFORE, OURS, 1), before) if is_before(engine) else Worker(name, engine)
        for engine in engines
    }
    try:
        for case in workload.cases(quick):
            table.cases[case.key] = case
            table.rows[case.key] = _measure_case(workload.tolerance, engines, case, workers, quick, say)
    except Failure as problem:
        table.failure = str(problem)
        say(f"{name}: FAILED: {problem}")
    finally:
        for worker in workers.values():
            worker.stop()
    return table


def with_before(engines: dict[str, Engine]) -> dict[str, Engine]:
    """Every engine of ours followed by the same of the version before."""
    found = {}
    for name, engine in engines.items():
        found[name] = engine
        if name == OURS or name.startswith(f"{OURS},"):
            found[name.replace(OURS, BEFORE, 1)] = replace(engine, note="the version before")
    return found


def is_before(engine: str) -> bool:
    return engine == BEFORE or engine.startswith(f"{BEFORE},")


def _measure_case(
    tolerance: float,
    engines: dict[str, Engine],
    case: Case,
    workers: "dict[str, Worker]",
    quick: bool,
    say: Callable[[str], None],
) -> list[Row]:
    rows: dict[str, Row] = {}
    answers: dict[str, np.ndarray] = {}
    for name, engine in engines.items():
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
        row.tolerance = tolerance if engine.tolerance is None else engine.tolerance
        row.error = difference(answers[name], reference)
        say(f"  {name}: ready, differs by {row.error:.1e} (allowed {row.tolerance:.0e})")
        if not row.error <= row.tolerance:
            raise Failure(f"{name} is off by {row.error:.3g} where {row.tolerance:g} is allowed ({case}).")
    # an absent row has no time yet, and one that is not to be timed never will
    timed = [name for name, row in rows.items() if row.seconds >= 0 and not engines[name].once]
    ask = {name: partial(workers[name].ask, "time") for name in timed}
    for name, times in interleaved(ask, OURS, quick, say).items():
        rows[name].times, rows[name].seconds = times, min(times.values())  # without the first call, which compiles
    for name, row in rows.items():
        if not row.absent:
            row.megabytes = workers[name].ask("memory")
    return list(rows.values())


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


def _short(value: Any) -> str:
    if isinstance(value, int) and value >= 10_000:
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)
