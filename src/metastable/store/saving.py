"""Saving a run that is in memory: the whole record appears at once or not at all."""

import warnings
from pathlib import Path

import numpy as np

from metastable.errors import InputError
from metastable.store import arrays_on_disk
from metastable.store.describe import Parts, take_apart
from metastable.store.folder import Purpose, at_once
from metastable.store.layout import fixed_arrays, trajectory_arrays
from metastable.store.reading import DATA
from metastable.store.recipe import SETTINGS, Recipe, recipe_of, write_recipe
from metastable.store.run_facts import ended_facts
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
    if run.status == "unfinished":
        raise InputError("This run was read from an unfinished record; finish it there, and copy its folder.")
    parts = None if run.dynamics is None else take_apart(run.dynamics)
    custom = list(run.missing) if parts is None else parts.custom
    recipe = _recipe(run, parts)
    # no fingerprint: which run this was cannot be known from its result alone
    purpose = Purpose("run", recipe.table, None, ended_facts(run, custom))
    with at_once(folder, purpose) as part:
        if parts is not None and parts.custom:
            warnings.warn(
                f"Functions cannot be saved ({', '.join(parts.custom)}): everything else is, and "
                "load(path, dynamics=...) takes the dynamics again.",
                UserWarning,
                stacklevel=4,
            )
        write_recipe(part, recipe)
        attributes, fixed = fixed_arrays(np.asarray(run.t, np.float64), np.asarray(run.x[0]), parts)
        arrays_on_disk.create(part / DATA, attributes | {"custom": custom}, fixed)
        arrays_on_disk.write(part / DATA, len(run), 0, trajectory_arrays(run))
        arrays_on_disk.shorten(part / DATA, len(run))
    return folder


def _recipe(run: Trajectory, parts: Parts | None) -> Recipe:
    """As much of how the run was made as its result shows."""
    made = run.provenance
    if run.dynamics is None or any(name not in made for name in SETTINGS):
        return Recipe({}, beyond=("dynamics",))
    settings = {name: made[name] for name in SETTINGS}
    start = np.asarray(run.x[0]) if run.t[0] == 0.0 else None
    found = recipe_of(settings, np.asarray(run.t), start, "steady" if run.status == "steady" else None, parts)
    ended = run.status in ("done", "steady")
    return found if ended else Recipe(found.table, found.inputs, (*found.beyond, "until"))
