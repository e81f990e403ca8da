"""Reading records. A record may come from anywhere: nothing in it is executed, and damage is one sentence."""

from pathlib import Path
from typing import Any

import numpy as np

from metastable.equation.dynamics import Dynamics
from metastable.errors import InputError
from metastable.store import arrays_on_disk
from metastable.store.checkpoint import read_checkpoint
from metastable.store.describe import put_together
from metastable.store.files import reason
from metastable.store.folder import DONE, PROVENANCE, damaged
from metastable.store.layout import PART_OF_DYNAMICS, check_fit
from metastable.store.run_facts import read_facts
from metastable.trajectory import Trajectory

DATA = "data.zarr"


def load(path: str | Path, partial: bool = False, dynamics: Dynamics | None = None) -> Trajectory:
    """Read a record folder.

    Parameters
    ----------
    path : path
        A folder written by ``Trajectory.save``, by ``simulate(out=...)`` or by the command line.
    partial : bool
        Read what an unfinished record has so far (its status is then "unfinished") instead of refusing it.
    dynamics : Dynamics, optional
        What moved the tokens. Needed only for runs with functions of one's own for parts, which no file can hold;
        without it the trajectory's ``missing`` names these parts.

    Examples
    --------
    >>> import tempfile, metastable as ms
    >>> run = ms.simulate(ms.Dynamics(beta=4.0), ms.initial.sphere(5, 3), t=1.0, save=3)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     again = load(run.save(place + "/run"))
    >>> again.dynamics.beta, bool((again.x == run.x).all())
    (4.0, True)
    """
    if not isinstance(path, (str, Path)):
        raise InputError(f"A record is the path of a folder, not {type(path).__name__}.")
    if dynamics is not None and not isinstance(dynamics, Dynamics):
        raise InputError(f"dynamics must be a Dynamics object, not {type(dynamics).__name__}.")
    folder = Path(path)
    if not folder.is_dir():
        raise InputError(f"There is no record {str(folder)!r}; give the folder that a run was written to.")
    if not (folder / PROVENANCE).is_file():
        raise InputError(f"{str(folder)!r} is no record: it has no {PROVENANCE}.")
    finished = (folder / DONE).is_file()
    facts = read_facts(folder, finished)
    if not finished and not partial:
        raise InputError(
            f"The record in {str(folder)!r} is unfinished; run the same command again to finish it, "
            "or load it with partial=True to see what it has."
        )
    return _trajectory(folder, facts, finished, dynamics)


def _trajectory(folder: Path, facts: dict[str, Any], finished: bool, dynamics: Dynamics | None) -> Trajectory:
    saved, message = None, str(facts.get("message"))
    if not finished:
        point = read_checkpoint(folder)
        if point is None or point.saved == 0:
            raise InputError(f"The record in {str(folder)!r} is unfinished and has no saved tokens yet.")
        saved, message = point.saved, f"Unfinished: t = {point.reached:g} was reached."
    attributes, arrays = read_data(folder, saved)
    size = None if dynamics is None else dynamics.weights.dimension
    if size is not None and size != arrays["x"].shape[-1]:
        raise InputError(
            f"The record holds tokens of dimension {arrays['x'].shape[-1]}, but the dynamics given acts on {size}."
        )
    missing = tuple(map(str, attributes.get("custom") or ())) if dynamics is None else ()
    return Trajectory(
        arrays["time"],
        arrays["x"],
        dynamics if dynamics is not None else _dynamics(folder, attributes, arrays),
        facts["status"] if finished else "unfinished",
        message,
        facts["valid_until"] if finished else None,
        facts["run"],
        (arrays["chart_y"], arrays["chart_refs"]) if "chart_y" in arrays else None,
        arrays.get("attention"),
        missing,
    )


def read_data(folder: Path, saved: int | None) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Attributes and arrays of a record, which fit together; ``saved`` is how many saves an unfinished one has."""
    try:
        attributes, arrays = arrays_on_disk.read(folder / DATA, saved)
    except OSError as error:
        raise damaged(folder, reason(error)) from error
    try:
        check_fit(arrays)
    except InputError as error:
        raise damaged(folder, reason(error)) from error
    return attributes, arrays


def _dynamics(folder: Path, attributes: dict[str, Any], arrays: dict[str, np.ndarray]) -> Dynamics | None:
    if attributes.get("dynamics") is None or attributes.get("custom"):
        return None
    parts = {
        name.removeprefix(PART_OF_DYNAMICS): array
        for name, array in arrays.items()
        if name.startswith(PART_OF_DYNAMICS)
    }
    try:
        return put_together(attributes["dynamics"], parts)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise damaged(folder, reason(error)) from error
