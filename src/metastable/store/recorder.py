"""Runs that write a record as they go, and resume an unfinished one where it stopped."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from metastable.errors import InputError
from metastable.solve.driver import drive, engine_of
from metastable.solve.memory import check_plan
from metastable.solve.plan import Plan
from metastable.solve.segments import Segment
from metastable.solve.simulate import collect, provenance, together
from metastable.solve.stopping import Until, stop_rule
from metastable.store import arrays_on_disk
from metastable.store.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from metastable.store.describe import Parts, take_apart
from metastable.store.files import PART, disk_errors, reason, remove
from metastable.store.folder import STATE, Purpose, check, claim, damaged, finish, read_provenance, release, tidy
from metastable.store.layout import check_state, fixed_arrays, restored_segment, segment_arrays
from metastable.store.reading import DATA, load, read_data
from metastable.store.recipe import Recipe, check_recipe, drawn_from, fingerprint, recipe_of, settings_of, write_recipe
from metastable.store.run_facts import ended_facts, read_facts, unfinished_facts
from metastable.trajectory import Trajectory

_INTERVAL = 0.2  # seconds of work that may be lost; a checkpoint per segment would cost quick runs more than they take


@dataclass(frozen=True)
class _Job:
    plan: Plan
    x: np.ndarray
    until: Until
    recipe: Recipe
    parts: Parts
    mark: str | None

    def purpose(self) -> Purpose:
        made = provenance(replace(self.plan, engine=engine_of(self.plan)), 0.0) | drawn_from(self.recipe)
        facts = unfinished_facts(self.parts.custom, made)
        return Purpose("run", self.recipe.table, self.mark, facts)


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
        As `metastable.solve.plan.make_plan` returns them, of one Dynamics.
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
    >>> from metastable.solve.plan import make_plan
    >>> plan, x = make_plan(ms.Dynamics(), ms.initial.sphere(4, 3), t=1.0, save=3)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     first, again = run(plan, x, place + "/run"), run(plan, x, place + "/run")
    >>> bool((first.x == again.x).all())
    True
    """
    folder = Path(out)
    stop_rule(plan, until)  # before anything is written
    check_plan(plan)
    dynamics = together(plan)
    parts = take_apart(dynamics)
    tokens = x.reshape(*plan.shape, plan.n, plan.d)
    own = recipe or recipe_of(settings_of(plan), plan.times, tokens, until, parts)
    job = _Job(plan, x, until, own, parts, fingerprint(plan, x, until, parts))
    purpose = job.purpose()
    if check(folder, purpose) == "finished":  # needs no lock, so it can be read where nothing can be written
        tidy(folder)
        return load(folder, dynamics=dynamics)
    with claim(folder, purpose, lambda: _session(folder, job)) as status:
        if status == "finished":
            return load(folder, dynamics=dynamics)
        if not (folder / DATA).exists():
            _begin(folder, job)
        elif status == "unfinished":
            _verify(folder, job)
        return _resume(folder, job, progress)


def _session(folder: Path, job: _Job) -> Mapping[str, Any]:
    """Where a session takes over; digits are only the same with the same versions."""
    before = _checkpoint(folder, job)
    return {"from": 0.0 if before is None else before.reached}


def _checkpoint(folder: Path, job: _Job) -> Checkpoint | None:
    found = read_checkpoint(folder, len(job.plan.times))
    if found is not None:
        try:
            check_state(found.state, job.plan)
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
            arrays_on_disk.create(
                part, *fixed_arrays(job.plan.times, job.x.reshape(*job.plan.shape, *job.x.shape[1:]), job.parts)
            )
            part.rename(folder / DATA)
    except InputError:
        release(folder)
        raise


def _verify(folder: Path, job: _Job) -> None:
    """Refuse an unfinished record whose settings are no longer those of this run: someone changed them by hand."""
    attributes, fixed = fixed_arrays(job.plan.times, job.x.reshape(*job.plan.shape, *job.x.shape[1:]), job.parts)
    there, arrays = arrays_on_disk.read(folder / DATA, only=fixed)
    if {name: there.get(name) for name in attributes} != json.loads(json.dumps(attributes)):
        raise damaged(folder, "the dynamics written in it are not those of this run")
    before = _checkpoint(folder, job)
    ended = len(job.plan.times) if before is None or before.status == "done" else before.saved
    for name, (_, values) in fixed.items():
        held = arrays.get(name)
        early = name == "time" and held is not None and len(held) == ended  # a run that ended early is cut at its end
        if held is None or not np.array_equal(held, values[:ended] if early else values):
            raise damaged(folder, f"its array {name!r} is not that of this run")
    check_recipe(folder, read_provenance(folder, "run")["settings"])


def _resume(folder: Path, job: _Job, progress: Callable[[float], None] | None) -> Trajectory:
    before = _checkpoint(folder, job)
    plan = job.plan if before is None else replace(job.plan, engine=_engine_used(folder, job.plan))
    segments: list[Segment] = []
    if before is not None:
        try:
            segments.append(restored_segment(plan, read_data(folder, before.saved)[1], before))
        except (ValueError, KeyError) as error:
            raise error if isinstance(error, InputError) else damaged(folder, reason(error)) from error
    if before is None or (before.status == "done" and before.saved < len(plan.times)):
        state = None if before is None else dict(before.state)
        coming = drive(plan, job.x, job.until, checkpoint=state)
        for segment in _written(folder, plan, coming, 0.0 if before is None else before.seconds):
            segments.append(replace(segment, state={}))
            if progress is not None:
                progress(segment.reached)
    trajectory: Trajectory = collect(plan, segments, stacklevel=3)
    trajectory = replace(trajectory, provenance={**trajectory.provenance, **drawn_from(job.recipe)})
    with disk_errors(folder, resumable=True):
        arrays_on_disk.shorten(folder / DATA, len(trajectory))
    finish(folder, "run", ended_facts(trajectory, job.parts.custom))
    return trajectory


def _written(folder: Path, plan: Plan, segments: Iterator[Segment], seconds: float) -> Iterator[Segment]:
    """The same segments, written on the way: tokens first, then the checkpoint that acknowledges them."""
    waiting: list[Segment] = []
    last = time.monotonic()
    for segment in segments:
        waiting.append(segment)
        seconds += segment.seconds
        yield segment
        if time.monotonic() - last >= _INTERVAL:
            _acknowledge(folder, plan, waiting, seconds)
            waiting, last = [], time.monotonic()
    if waiting:
        _acknowledge(folder, plan, waiting, seconds)


def _acknowledge(folder: Path, plan: Plan, segments: list[Segment], seconds: float) -> None:
    end = segments[-1]
    saved = end.first + len(end.x)
    fate = next(iter(end.fates.values()), None)
    status, message = ("done", "") if fate is None else (fate.status, fate.message)
    with disk_errors(folder, resumable=True):
        arrays = segment_arrays(plan, segments)
        arrays_on_disk.write(folder / DATA, len(plan.times), segments[0].first, arrays)
        write_checkpoint(folder, Checkpoint(saved, end.reached, status, message, seconds, end.state))


def _engine_used(folder: Path, plan: Plan) -> str:
    """The engine with which an unfinished run began: its state belongs to it."""
    found = read_facts(folder, finished=False)["run"].get("engine", plan.engine)
    return str(found)
