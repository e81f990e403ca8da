"""Runs that write a record as they go, and resume an unfinished one where it stopped."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from metastable.errors import InputError
from metastable.solve import simulate as integrate
from metastable.solve.pieces import Piece as Segment
from metastable.solve.pieces import Plan
from metastable.solve.simulate import Until
from metastable.store import arrays_on_disk
from metastable.store.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from metastable.store.describe import Parts, take_apart
from metastable.store.files import PART, disk_errors, reason, remove
from metastable.store.folder import STATE, Purpose, check, claim, damaged, finish, release
from metastable.store.layout import check_state, fixed_arrays, restored_segment, segment_arrays
from metastable.store.reading import DATA, load, read_data
from metastable.store.recipe import Recipe, fingerprint, recipe_of, write_recipe
from metastable.store.run_facts import ended_facts, unfinished_facts
from metastable.trajectory import Trajectory

_INTERVAL = 0.2  # seconds of work that may be lost; a checkpoint per segment would cost quick runs more than they take


@dataclass(frozen=True)
class _Job:
    plan: Plan
    x: np.ndarray
    until: Until
    recipe: Recipe
    parts: Parts

    def purpose(self) -> Purpose:
        mark = fingerprint(self.plan, self.x, self.until, self.parts)
        facts = unfinished_facts(self.parts.custom, integrate.provenance(self.plan, 0.0))
        return Purpose("run", self.recipe.table, mark, facts)


def run(
    plan: Plan,
    x: np.ndarray,
    out: str | Path,
    until: Until = None,
    recipe: Recipe | None = None,
    progress: Callable[[float], None] | None = None,
) -> Trajectory:
    """Run a plan into a record folder, or resume the unfinished record there, or read the finished one.

    Parameters
    ----------
    plan, x
        As `metastable.solve.simulate.prepare` returns them.
    out : path
        A new or empty folder, or one that holds a record of this very run. An unfinished record is resumed after its
        last checkpoint and gives the same digits as a run left alone; a finished one is read and left as it is; a
        record of another run, or a folder with anything else in it, is refused and not touched.
    until, progress
        As for `metastable.simulate`.
    recipe : Recipe, optional
        The run as a TOML file describes it; made from the plan unless given.

    Examples
    --------
    >>> import tempfile, metastable as ms
    >>> plan, x = integrate.prepare(ms.Dynamics(), ms.initial.sphere(4, 3), t=1.0, save=3)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     first, again = run(plan, x, place + "/run"), run(plan, x, place + "/run")
    >>> bool((first.x == again.x).all())
    True
    """
    folder = Path(out)
    integrate.stop_rule(plan.dynamics, until)  # before anything is written
    parts = take_apart(plan.dynamics)
    job = _Job(plan, x, until, recipe or recipe_of(plan, x, until, parts), parts)
    purpose = job.purpose()
    if check(folder, purpose) == "finished":  # needs no lock, so it can be read where nothing can be written
        return load(folder, dynamics=plan.dynamics)
    with claim(folder, purpose, lambda: _session(folder, job)) as status:
        if status == "finished":
            return load(folder, dynamics=plan.dynamics)
        if not (folder / DATA).exists():
            _begin(folder, job)
        return _resume(folder, job, progress)


def _session(folder: Path, job: _Job) -> Mapping[str, Any]:
    """Where a session takes over; digits are only the same with the same versions."""
    before = _checkpoint(folder, job)
    return {"from": 0.0 if before is None else before.reached}


def _checkpoint(folder: Path, job: _Job) -> Checkpoint | None:
    found = read_checkpoint(folder, len(job.plan.times))
    if found is not None:
        try:
            check_state(found.state, job.x.shape, len(job.plan.times))
        except (ValueError, KeyError) as error:
            raise damaged(folder, f"{STATE}: {reason(error)}") from error
    return found


def _begin(folder: Path, job: _Job) -> None:
    """Write everything but the tokens; if the disk fails, the folder is free again."""
    try:
        with disk_errors(folder):
            write_recipe(folder, job.recipe)
            part = folder / (DATA + PART)
            remove(part)
            arrays_on_disk.create(part, *fixed_arrays(job.plan.times, job.x, job.parts))
            part.rename(folder / DATA)
    except InputError:
        release(folder)
        raise


def _resume(folder: Path, job: _Job, progress: Callable[[float], None] | None) -> Trajectory:
    plan, before = job.plan, _checkpoint(folder, job)
    segments: list[Segment] = []
    if before is not None:
        segments.append(restored_segment(read_data(folder, before.saved)[1], before))
    if before is None or (before.status == "done" and before.saved < len(plan.times)):
        state = None if before is None else dict(before.state)
        coming = integrate.run_pieces(plan, job.x, job.until, watched=True, state=state)
        for segment in _written(folder, coming, len(plan.times), 0.0 if before is None else before.seconds):
            segments.append(segment)
            if progress is not None:
                progress(segment.reached)
    trajectory = integrate.collect(plan, segments)
    with disk_errors(folder, resumable=True):
        arrays_on_disk.shorten(folder / DATA, len(trajectory))
    finish(folder, "run", ended_facts(trajectory, job.parts.custom))
    return trajectory


def _written(folder: Path, segments: Iterator[Segment], count: int, seconds: float) -> Iterator[Segment]:
    """The same segments, written on the way: tokens first, then the checkpoint that acknowledges them."""
    waiting: list[Segment] = []
    last = time.monotonic()
    for segment in segments:
        waiting.append(segment)
        seconds += segment.seconds
        yield segment
        if time.monotonic() - last >= _INTERVAL:
            _acknowledge(folder, waiting, count, seconds)
            waiting, last = [], time.monotonic()
    if waiting:
        _acknowledge(folder, waiting, count, seconds)


def _acknowledge(folder: Path, segments: list[Segment], count: int, seconds: float) -> None:
    end = segments[-1]
    saved = end.first + len(end.x)
    with disk_errors(folder, resumable=True):
        arrays_on_disk.write(folder / DATA, count, segments[0].first, segment_arrays(segments))
        write_checkpoint(folder, Checkpoint(saved, end.reached, end.status, end.message, seconds, end.state))
