"""The driver of a sweep: plans it, hands out chunks, and puts each on disk when it comes back. It alone writes.

Killed at any moment, the same call finishes the rest: what has landed is never computed again.
"""

import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from metastable.engines.simd.threads import available
from metastable.errors import InputError
from metastable.progress import Progress, Report, counted, duration, silent
from metastable.store.files import disk_errors, remove
from metastable.store.folder import check, claim, finish, release, status
from metastable.sweeps.choose_executor import make_executor
from metastable.sweeps.chunks import Chunk, Part, all_chunks, compute, cut, numbered, points
from metastable.sweeps.designs import new_boxes
from metastable.sweeps.executors import Executor, Outcome
from metastable.sweeps.sweep_folder import (
    CHUNKS,
    FAILED,
    Planned,
    chunk_file,
    describe_points,
    failure_file,
    failures,
    land,
    merge,
    numbers_in,
    read_failure,
    read_plan,
    record_failure,
    sound,
    whole,
    write_plan,
)
from metastable.sweeps.sweep_settings import SweepJob

_TRIES = {"died": 5, "limit": 2, "error": 1}  # of a chunk, by what became of it
_LONG = 20.0  # estimated seconds from which on worker processes are worth their start
_LIMIT = 300.0  # seconds, at least, before a chunk is given up


@dataclass(frozen=True)
class SweepReport:
    """What a call of the driver did: runs in all, computed now, found on disk; chunks that failed."""

    folder: Path
    runs: int
    computed: int
    found: int
    failed: tuple[dict[str, object], ...]
    seconds: float
    engine: str

    @property
    def complete(self) -> bool:
        """Whether every run is there."""
        return self.computed + self.found == self.runs


@dataclass(frozen=True)
class Estimate:
    """What a sweep would take: runs and chunks in all and left, seconds on one core, bytes of a worker and on disk."""

    runs: int
    chunks: int
    left: int
    seconds: float
    worker_bytes: float
    table_bytes: float


def dry_run(job: SweepJob, folder: Path) -> Estimate:
    """What a sweep would take; nothing is computed but the first run's settings, and nothing is written."""
    check(folder, job.purpose)
    plan = _planned(job, folder)[0]
    landed = numbers_in(folder, CHUNKS)
    left = plan.chunks - len([k for k in landed if k < plan.chunks])
    seconds = sum(
        p.seconds * (1 - len([k for k in landed if 0 <= k - p.before < p.chunks]) / p.chunks) for p in plan.parts
    )
    times = job.spec.times if isinstance(job.spec.times, int) else len(job.spec.times)
    columns = 3 + len(plan.design.names) + len(job.spec.observe)
    most = max(part.bytes for part in plan.parts)
    return Estimate(plan.runs, plan.chunks, left, seconds, most, 8.0 * plan.runs * times * columns)


def run_sweep(
    job: SweepJob,
    folder: Path,
    retry_failed: bool = False,
    progress: Report = silent,
) -> SweepReport:
    """Bring the sweep in ``folder`` to its end from wherever earlier sessions left it."""
    check(folder, job.purpose)
    plan, fresh = _planned(job, folder)
    if not fresh and not retry_failed and status(folder, "sweep") == "finished" and whole(folder, plan):
        return SweepReport(folder, plan.runs, 0, plan.runs, (), 0.0, "none")
    began = time.monotonic()
    with claim(folder, job.purpose, packages=("pyarrow", "distributed"), extend=True) as before:
        plan, fresh = _planned(job, folder)  # again: it may have grown before we held the folder
        if fresh:
            write_plan(folder, plan)
        todo = _Todo(folder, plan, retry_failed)
        engine = "none"
        if todo.left:
            with _executor(job, plan, folder if before == "free" else None) as executor:
                engine = executor.name
                _drive(job, folder, todo, executor, progress)
        failed = tuple(failures(folder))
        landed = sorted(numbers_in(folder, CHUNKS))
        if landed:
            merge(folder, landed)
        if not failed:
            finish(folder, "sweep", {"runs": plan.runs, "chunks": plan.chunks})
    return SweepReport(folder, plan.runs, todo.computed, todo.found, failed, time.monotonic() - began, engine)


def _planned(job: SweepJob, folder: Path) -> tuple[Planned, bool]:
    """The plan of this sweep, and whether it is more than the folder's; the parts that are there stay as they are."""
    there = read_plan(folder) if folder.is_dir() else None
    boxes = new_boxes(job.design, None if there is None else there.design)
    parts: list[Part] = [] if there is None else list(there.parts)
    for box in boxes:
        offset = sum(part.box.runs for part in parts)
        parts.append(cut(job.spec, box, offset, sum(part.chunks for part in parts)))
    return Planned(job.design, tuple(parts)), bool(boxes)


def _executor(job: SweepJob, plan: Planned, fresh: Path | None) -> Executor:
    """The executor meant; where there is none, a folder that was free before is free again."""
    limit = job.settings.limit if job.settings.limit is not None else _limit(plan)
    try:
        return make_executor(_jobs(job, plan), job.settings.cluster, limit)
    except InputError:
        if fresh is not None:
            release(fresh)
        raise


def _jobs(job: SweepJob, plan: Planned) -> int:
    if job.settings.jobs is not None:
        return job.settings.jobs
    if job.settings.cluster is not None:
        return 0  # as many as there are
    long = sum(part.seconds for part in plan.parts) > _LONG
    return available() if long else 0


def _limit(plan: Planned) -> float:
    return max(_LIMIT, 30.0 * max(part.seconds / part.chunks for part in plan.parts))


class _Todo:
    """Chunks that are left, handed out one at a time; those to be tried again come first."""

    def __init__(self, folder: Path, plan: Planned, retry_failed: bool) -> None:
        chunks = {k: numbered(plan.parts, k) for k in sorted(numbers_in(folder, CHUNKS))}
        there = {k: chunk for k, chunk in chunks.items() if self._kept(folder, k, chunk)}
        landed = set(there)
        failed = self._still_failed(folder, plan, landed)
        failed = set() if retry_failed else failed
        self.chunks, self.landed = plan.chunks, len(landed)
        self.left = plan.chunks - len(landed | failed)
        self.runs, self.computed = plan.runs, 0
        self.found = sum(chunk.runs for chunk in there.values() if chunk is not None)
        self.failed = 0
        self.again: deque[Chunk] = deque()
        self.tries: Counter[tuple[int, str]] = Counter()
        skipped = landed | failed
        self._coming: Iterator[Chunk] = (c for c in all_chunks(list(plan.parts)) if c.number not in skipped)

    @staticmethod
    def _kept(folder: Path, number: int, chunk: Chunk | None) -> bool:
        if chunk is not None and sound(folder, chunk):
            return True
        with disk_errors(folder, resumable=True):
            remove(chunk_file(folder, number))
        return False

    @staticmethod
    def _still_failed(folder: Path, plan: Planned, landed: set[int]) -> set[int]:
        """The chunks with a failure; one that a disk has damaged, or that was mended before a kill, is forgotten."""
        found = set()
        for number in numbers_in(folder, FAILED):
            with suppress(InputError):
                read_failure(folder, number)
                found |= {number} if number < plan.chunks and number not in landed else set()
            if number not in found:
                with disk_errors(folder, resumable=True):
                    remove(failure_file(folder, number))
        return found

    def next(self) -> Chunk | None:
        """The next chunk to compute, None when all are handed out."""
        return self.again.popleft() if self.again else next(self._coming, None)


def _drive(job: SweepJob, folder: Path, todo: _Todo, executor: Executor, progress: Report) -> None:
    """Keep the executor busy and land what comes back until nothing is left."""
    under_way: dict[int, Chunk] = {}
    began = time.monotonic()
    progress(Progress("sweep", todo.found / todo.runs, f"{counted(todo.left, 'chunk')} on {executor.name}"))
    while True:
        while executor.room > 0 and (chunk := todo.next()) is not None:
            under_way[chunk.number] = chunk
            executor.submit(chunk.number, compute, (job.spec, chunk))
        if not under_way:
            return
        for outcome in executor.finished(1.0):
            chunk = under_way.pop(outcome.key)
            if outcome.why == "":
                land(folder, chunk.number, outcome.value)
                todo.computed += chunk.runs
            elif _once_more(todo, chunk, outcome):
                todo.again.append(chunk)
            else:
                _failed(job, folder, todo, chunk, outcome)
        progress(Progress("sweep", (todo.found + todo.computed) / todo.runs, _text(todo, began, executor)))


def _once_more(todo: _Todo, chunk: Chunk, outcome: Outcome) -> bool:
    """Whether a chunk is tried again: a worker's death before it began is none of its doing."""
    if outcome.why == "died" and not outcome.error:
        return True
    todo.tries[chunk.number, outcome.why] += 1
    return todo.tries[chunk.number, outcome.why] < _TRIES[outcome.why]


def _failed(job: SweepJob, folder: Path, todo: _Todo, chunk: Chunk, outcome: Outcome) -> None:
    todo.failed += 1
    where = describe_points(points(job.spec, chunk.box, np.arange(chunk.first, chunk.last)))
    facts = {"why": outcome.why, "error": outcome.error, "parameters": where, "traceback": outcome.trace}
    record_failure(folder, chunk, facts)


def _text(todo: _Todo, began: float, executor: Executor) -> str:
    spent = time.monotonic() - began
    done = todo.found + todo.computed
    text = f"{done:,} of {todo.runs:,} runs"
    if todo.computed:
        left = spent * (todo.runs - done) / todo.computed
        text += f", about {duration(left)} left"
    if todo.failed:
        text += f", {counted(todo.failed, 'chunk')} failed"
    return f"{text} ({executor.name}, {executor.workers})"
