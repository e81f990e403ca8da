"""Reading records. A record is somebody else's data: nothing in it is executed, and damage is said in a sentence."""

from pathlib import Path
from typing import Any

import numpy as np

from metastable.equation.dynamics import Dynamics
from metastable.errors import InputError
from metastable.solve import pieces
from metastable.store import arrays_on_disk as store
from metastable.store.describe import put_together
from metastable.store.folder import DATA, DONE, PROVENANCE, damaged, read_checkpoint, read_provenance, reason
from metastable.store.layout import PART_OF_DYNAMICS
from metastable.trajectory import Trajectory

_STATUSES = ("done", "steady", "stopped", "stalled", "diverged")


def load(path: str | Path, partial: bool = False, dynamics: Dynamics | None = None) -> Trajectory:
    """Read a record folder.

    Parameters
    ----------
    path : path
        A folder written by ``Trajectory.save``, by ``simulate(out=...)`` or by the command line.
    partial : bool
        Read what an unfinished record has so far (its status is then "unfinished") instead of refusing it.
    dynamics : Dynamics, optional
        What moved the tokens. Needed only for runs with functions of one's own for parts, which no file can hold.

    Examples
    --------
    >>> import tempfile, metastable as ms
    >>> run = ms.simulate(ms.Dynamics(beta=4.0), ms.initial.sphere(5, 3), t=1.0, save=3)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     again = load(run.save(place + "/run"))
    >>> again.dynamics.beta, bool((again.x == run.x).all())
    (4.0, True)
    """
    folder = Path(path)
    if not folder.is_dir():
        raise InputError(f"There is no record {str(folder)!r}; give the folder that a run was written to.")
    if not (folder / PROVENANCE).is_file():
        raise InputError(f"{str(folder)!r} is no record: it has no {PROVENANCE}.")
    found = read_provenance(folder)
    finished = (folder / DONE).is_file()
    if not finished and not partial:
        raise InputError(
            f"The record in {str(folder)!r} is unfinished; run the same command again to finish it, "
            "or load it with partial=True to see what it has."
        )
    return _trajectory(folder, found, finished, dynamics)


def _trajectory(folder: Path, found: dict[str, Any], finished: bool, dynamics: Dynamics | None) -> Trajectory:
    saved, message = None, str(found.get("message"))
    if not finished:
        point = read_checkpoint(folder, 2**62)
        if point is None or point.saved == 0:
            raise InputError(f"The record in {str(folder)!r} is unfinished and has no saved tokens yet.")
        saved, message = point.saved, f"Unfinished: t = {point.reached:g} was reached."
    attributes, arrays = read_arrays(folder, saved)
    times, x = arrays["time"], arrays["x"]
    if finished and found.get("status") not in _STATUSES:
        raise damaged(folder, f"its status {found.get('status')!r} is none that a run can have")
    valid = pieces.valid_until(times, arrays.get("apart", np.zeros(len(times))), x.dtype.name)
    if finished:
        told = found.get("valid_until")
        valid = float(told) if isinstance(told, (int, float)) else np.inf
    return Trajectory(
        times,
        x,
        dynamics if dynamics is not None else _dynamics(folder, attributes, arrays),
        found["status"] if finished else "unfinished",
        message,
        valid,
        found["run"],
        (arrays["chart_y"], arrays["chart_refs"]) if "chart_y" in arrays else None,
        arrays.get("attention"),
    )


def read_arrays(folder: Path, saved: int | None) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Attributes and arrays of a record, which fit together; ``saved`` tells how many saves an unfinished one has."""
    try:
        attributes, arrays = store.read(folder / DATA, saved)
    except Exception as error:  # zarr has many ways to say that a store is broken; none may reach the user
        raise damaged(folder, reason(error)) from error
    shapes = {name: array.shape for name, array in arrays.items()}
    times, x = shapes.get("time", ()), shapes.get("x", ())
    wanted = {"chart_y": x, "chart_refs": x[:-1], "apart": times, "x0": x[1:]}
    fits = len(times) == 1 and len(x) >= 3 and x[:1] == times
    fits = fits and all(shapes[name] == shape for name, shape in wanted.items() if name in shapes)
    if not fits or ("chart_y" in shapes) != ("chart_refs" in shapes):
        raise damaged(folder, "its arrays do not fit each other")
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
