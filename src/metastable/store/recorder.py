"""Runs that leave a record as they go, and take up an unfinished one where it stopped."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from metastable.errors import InputError
from metastable.solve import simulate as integrate
from metastable.solve.pieces import Piece, Plan
from metastable.solve.simulate import Until
from metastable.store import arrays_on_disk as store
from metastable.store.describe import Parts, take_apart
from metastable.store.files import LOCK, PART, locked, remove, spoken, write_json, write_whole
from metastable.store.folder import (
    DATA,
    DONE,
    FORMAT,
    PROVENANCE,
    STATE,
    Checkpoint,
    provenance_of,
    read_checkpoint,
    read_provenance,
    standing,
    write_checkpoint,
)
from metastable.store.layout import arrays_of_piece, lay_out, piece_of_arrays
from metastable.store.reading import load, read_arrays
from metastable.store.recipe import Recipe, differences, fingerprint, recipe_of, write_recipe
from metastable.trajectory import Trajectory

_PATIENCE = 0.2  # seconds of work that may be lost; a checkpoint per piece would cost quick runs more than they take


@dataclass(frozen=True)
class _Job:
    plan: Plan
    x: np.ndarray
    until: Until
    recipe: Recipe
    parts: Parts
    mark: str | None


def run(
    plan: Plan,
    x: np.ndarray,
    out: str | Path,
    until: Until = None,
    recipe: Recipe | None = None,
    progress: Callable[[float], None] | None = None,
) -> Trajectory:
    """Run a plan into a record folder, or take up the unfinished record there, or read the finished one.

    Parameters
    ----------
    plan, x
        As `metastable.solve.simulate.prepare` returns them.
    out : path
        A new or empty folder, or one that holds a record of this very run. An unfinished record is taken up after
        its last checkpoint and gives the same digits as a run left alone; a finished one is read and left as it is;
        a record of another run, or a folder with anything else in it, is refused and not touched.
    until, progress
        As for `metastable.simulate`.
    recipe : Recipe, optional
        The run as a TOML file tells it; made from the plan unless given.

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
    mark = fingerprint(plan, x, until, parts)
    job = _Job(plan, x, until, recipe or recipe_of(plan, x, until, parts), parts, mark)
    if _check(folder, job) == "finished":
        return load(folder, dynamics=plan.dynamics)
    new = not folder.exists()
    try:
        with spoken(folder):
            folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):
            how = _check(folder, job)  # again: it may have changed before we held it
            if how == "finished":
                return load(folder, dynamics=plan.dynamics)
            if how == "free" or not (folder / DATA).exists():
                _begin(folder, job)
            return _go_on(folder, job, progress)
    except InputError:
        if new:
            with suppress(OSError):
                folder.rmdir()  # goes only when nothing was left in it
        raise


def _check(folder: Path, job: _Job) -> str:
    """The standing of a folder, refused unless it is free or holds a record of this very run."""
    how = standing(folder)
    if how == "free":
        return how
    found = read_provenance(folder).get("fingerprint")
    if found is None or job.mark is None:
        raise InputError(
            f"{str(folder)!r} already holds {'a finished' if how == 'finished' else 'an unfinished'} record, and "
            "whether it is this run cannot be told (it was saved from Python, or has functions of its own for "
            "parts); choose another folder."
        )
    if found != job.mark:
        raise InputError(
            f"{str(folder)!r} holds a record of another run{differences(folder, job.recipe)}; choose another folder."
        )
    return how


def _begin(folder: Path, job: _Job) -> None:
    """Everything of a record but its tokens; what is written here is taken away again if the disk fails."""
    plan = job.plan
    try:
        with spoken(folder):
            write_json(folder / PROVENANCE, _unfinished(job, sittings=[]))
            write_recipe(folder, job.recipe)
            part = folder / (DATA + PART)
            remove(part)
            store.create(part, *lay_out(plan.times, job.x, plan.dtype, plan.charted, job.parts))
            part.rename(folder / DATA)
    except InputError:
        for entry in list(folder.iterdir()):
            if entry.name != LOCK:
                remove(entry)
        raise


def _go_on(folder: Path, job: _Job, progress: Callable[[float], None] | None) -> Trajectory:
    plan, x = job.plan, job.x
    before = read_checkpoint(folder, len(plan.times), x.shape)
    sittings = [*read_provenance(folder).get("sittings", []), _sitting(job, before)]
    with spoken(folder, kept=True):
        write_json(folder / PROVENANCE, _unfinished(job, sittings))
    done: list[Piece] = []
    if before is not None:
        done.append(piece_of_arrays(read_arrays(folder, before.saved)[1], before))
    if before is None or (before.status == "done" and before.saved < len(plan.times)):
        state = None if before is None else dict(before.state)
        pieces = integrate.run_pieces(plan, x, job.until, watched=True, state=state)
        for piece in _written(folder, pieces, 0.0 if before is None else before.seconds):
            done.append(piece)
            if progress is not None:
                progress(piece.reached)
    trajectory = integrate.collect(plan, done)
    _finish(folder, job, trajectory, sittings)
    return trajectory


def _written(folder: Path, pieces: Iterator[Piece], seconds: float) -> Iterator[Piece]:
    """The same pieces, written on the way: tokens first, then the checkpoint that acknowledges them."""
    waiting: list[Piece] = []
    last = time.monotonic()
    for piece in pieces:
        waiting.append(piece)
        seconds += piece.seconds
        yield piece
        if time.monotonic() - last >= _PATIENCE:
            _acknowledge(folder, waiting, seconds)
            waiting, last = [], time.monotonic()
    if waiting:
        _acknowledge(folder, waiting, seconds)


def _acknowledge(folder: Path, pieces: list[Piece], seconds: float) -> None:
    end = pieces[-1]
    saved = end.first + len(end.x)
    with spoken(folder, kept=True):
        store.write(folder / DATA, pieces[0].first, arrays_of_piece(pieces))
        write_checkpoint(folder, Checkpoint(saved, end.reached, end.status, end.message, seconds, end.state))


def _finish(folder: Path, job: _Job, trajectory: Trajectory, sittings: list[dict[str, Any]]) -> None:
    with spoken(folder, kept=True):
        store.shorten(folder / DATA, len(trajectory))
        write_json(folder / PROVENANCE, provenance_of(trajectory, job.mark, job.parts.custom, sittings))
        write_whole(folder / DONE, b"This record is complete.\n")
        remove(folder / STATE)


def _unfinished(job: _Job, sittings: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "record": FORMAT,
        "status": "unfinished",
        "message": "This run has not ended; run the same again to go on.",
        "fingerprint": job.mark,
        "custom": job.parts.custom,
        "run": integrate.provenance(job.plan, 0.0),
        "sittings": sittings,
    }


def _sitting(job: _Job, before: Checkpoint | None) -> dict[str, Any]:
    """When and with what a part of the run was made; digits are only the same with the same versions."""
    found = integrate.provenance(job.plan, 0.0)
    names = ("metastable", "jax", "numpy", "python", "machine")
    return {
        "began": found["finished"],
        "from": 0.0 if before is None else before.reached,
        **{name: found[name] for name in names if name in found},
    }
