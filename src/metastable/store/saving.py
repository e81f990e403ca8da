"""Saving a run that is in memory: the whole record appears at once or not at all."""

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from metastable.errors import InputError
from metastable.solve.pieces import Plan
from metastable.store import arrays_on_disk as store
from metastable.store.describe import Parts, take_apart
from metastable.store.files import PART, remove, spoken, sync, write_json, write_whole
from metastable.store.folder import DATA, DONE, PROVENANCE, provenance_of, standing
from metastable.store.layout import lay_out
from metastable.store.recipe import SETTINGS, Recipe, recipe_of, write_recipe
from metastable.trajectory import Trajectory


def save(run: Trajectory, path: str | Path) -> Path:
    """Write a run as a record folder; one that exists is never overwritten.

    Functions of one's own among the parts of the dynamics (a mask, a normalisation, weights that are a function of
    time) cannot be written: a warning says so, everything else is saved, and ``load(path, dynamics=...)`` takes the
    dynamics again.

    Examples
    --------
    >>> import tempfile, metastable as ms
    >>> run = ms.simulate(ms.Dynamics(), ms.initial.sphere(4, 3), t=1.0, save=3)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     sorted(entry.name for entry in save(run, place + "/run").iterdir())
    ['config.toml', 'data.zarr', 'done', 'inputs', 'provenance.json']
    """
    folder = Path(path)
    if standing(folder) != "free":
        raise InputError(f"{str(folder)!r} already holds a record; choose another folder, or remove it first.")
    if run.status == "unfinished":
        raise InputError("This run was read from an unfinished record; finish it there, and copy its folder.")
    parts = None if run.dynamics is None else take_apart(run.dynamics)
    if parts is not None and parts.custom:
        warnings.warn(
            f"Functions cannot be saved ({', '.join(parts.custom)}): everything else is, and "
            "load(path, dynamics=...) takes the dynamics again.",
            UserWarning,
            stacklevel=3,
        )
    place = folder.absolute()  # "." has no name
    part = place.with_name(f".{place.name}-{os.getpid()}{PART}")
    with spoken(folder):
        part.mkdir(parents=True)
        try:
            _write(part, run, parts)
            if folder.exists():
                remove(folder)  # it is empty: `standing` said so
            part.rename(folder)
        finally:
            remove(part)
        sync(folder.parent)
    return folder


def _write(folder: Path, run: Trajectory, parts: Parts | None) -> None:
    # no fingerprint: which run this was cannot be told from its result alone
    write_json(folder / PROVENANCE, provenance_of(run, None, [] if parts is None else parts.custom, []))
    write_recipe(folder, _recipe(run, parts))
    x = np.asarray(run.x)
    attributes, timed, fixed = lay_out(np.asarray(run.t, np.float64), x[0], x.dtype.name, run.chart is not None, parts)
    arrays: dict[str, np.ndarray] = {"x": x}
    if run.chart is not None:
        timed.pop("apart")  # summed up in valid_until
        arrays |= {"chart_y": np.asarray(run.chart[0]), "chart_refs": np.asarray(run.chart[1])}
    if run.kept_attention is not None:
        kept = np.asarray(run.kept_attention)
        dims = ("time", *(f"run{k}" for k in range(kept.ndim - 4)), "head", "query", "key")
        timed["attention"] = (dims, kept.shape, kept.dtype.name)
        arrays["attention"] = kept
    store.create(folder / DATA, attributes, timed, fixed)
    store.write(folder / DATA, 0, arrays)
    store.shorten(folder / DATA, len(run))
    write_whole(folder / DONE, b"This record is complete.\n")


def _recipe(run: Trajectory, parts: Parts | None) -> Recipe:
    """As much of the run's making as its result tells."""
    told: Any = run.provenance
    if run.dynamics is None or any(name not in told for name in SETTINGS):
        return Recipe({}, beyond=("dynamics",))
    plan = Plan(run.dynamics, np.asarray(run.t), **{name: told[name] for name in SETTINGS})
    start = np.asarray(run.x[0]) if run.t[0] == 0.0 else None
    found = recipe_of(plan, start, "steady" if run.status == "steady" else None, parts)
    ended = run.status in ("done", "steady")
    return found if ended else Recipe(found.table, found.inputs, (*found.beyond, "until"))
