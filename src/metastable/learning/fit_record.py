"""A fit in its folder, under the protocol of `metastable.store.folder`.

    state.npz   the checkpoint of an unfinished fit: numbers, the optimiser's memory, the curve so far
    fit.npz     what a finished fit found: numbers, tokens, curve, arrays of its dynamics

provenance.json holds the settings, the names and parts of the dynamics, and how it ended.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from metastable.backend import jax, jnp
from metastable.errors import InputError
from metastable.learning.descent import State
from metastable.learning.fit_result import Fit
from metastable.store.describe import put_together, take_apart
from metastable.store.files import disk_errors, read_arrays, reason, write_arrays
from metastable.store.folder import STATE, damaged, read_provenance, status

RESULT = "fit.npz"
Arrays = dict[str, np.ndarray]
Curve = Mapping[str, np.ndarray]


def write_checkpoint(folder: Path, state: State, curve: Curve, held_out: Curve) -> None:
    """Leave what a later session needs to go on with the same digits."""
    leaves = jax.tree_util.tree_leaves(state)
    arrays = {f"state/{k}": np.asarray(leaf) for k, leaf in enumerate(leaves)}
    with disk_errors(folder, resumable=True):
        write_arrays(folder / STATE, arrays | _named("curve", curve) | _named("held_out", held_out))


def read_checkpoint(folder: Path, like: State) -> tuple[State, Arrays, Arrays] | None:
    """The state of an earlier session in the form of ``like``, with its curves; None where there is none."""
    if not (folder / STATE).exists():
        return None
    try:
        stored = read_arrays(folder / STATE)
        leaves, form = jax.tree_util.tree_flatten(like)
        found = [stored[f"state/{k}"] for k in range(len(leaves))]
        if any(np.shape(a) != np.shape(b) for a, b in zip(found, leaves)):
            raise ValueError("its arrays have other shapes")
    except (ValueError, KeyError) as error:
        raise damaged(folder, f"{STATE}: {reason(error)}") from error
    state = jax.tree_util.tree_unflatten(form, [jnp.asarray(a) for a in found])
    return state, _part(stored, "curve"), _part(stored, "held_out")


def write_result(folder: Path, found: Fit) -> dict[str, Any]:
    """Write fit.npz; gives the facts for provenance.json."""
    assert found.dynamics is not None
    parts = take_apart(found.dynamics)
    with disk_errors(folder, resumable=True):
        write_arrays(
            folder / RESULT,
            {
                "x0": found.x0,
                **_named("numbers", found.numbers),
                **_named("curve", found.curve),
                **_named("held_out", found.held_out),
                **_named("dynamics", parts.arrays),
            },
        )
    tree = None if parts.custom else parts.tree
    return {"dynamics": tree, "status": found.status, "idle": list(found.idle), "error": found.error}


def read_fit(folder: str | Path) -> Fit:
    """The fit in a folder.

    Parameters
    ----------
    folder : path
        What `metastable.fit` was given as ``out``; the fit must be finished.
    """
    place = Path(folder)
    there = status(place, "fit")
    if there != "finished":
        why = "is not finished; run the same fit again to go on" if there == "unfinished" else "is not there"
        raise InputError(f"The fit in {str(place)!r} {why}.")
    facts = read_provenance(place, "fit")
    try:
        stored = read_arrays(place / RESULT)
        tree = facts["dynamics"]
        return Fit(
            None if tree is None else put_together(tree, _part(stored, "dynamics")),
            stored["x0"],
            _part(stored, "numbers"),
            _part(stored, "curve"),
            _part(stored, "held_out"),
            str(facts["status"]),
            tuple(facts["idle"]),
            dict(facts["settings"]),
            place,
        )
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise damaged(place, f"{RESULT}: {reason(error)}") from error


def _named(prefix: str, arrays: Mapping[str, Any]) -> Arrays:
    return {f"{prefix}/{name}": np.asarray(value) for name, value in arrays.items()}


def _part(stored: Arrays, prefix: str) -> Arrays:
    return {name.removeprefix(f"{prefix}/"): a for name, a in stored.items() if name.startswith(f"{prefix}/")}
