"""Two runs side by side: how far their tokens are apart over time, matched by token."""

from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.errors import InputError, door
from metastable.trajectory import Trajectory

if TYPE_CHECKING:
    import xarray

_NAMED = ("beta", "normalise", "mask", "geometry", "score", "noise", "noise_kind")
_MADE = ("method", "dt", "rtol", "atol", "seed", "dtype", "engine")


@door
def compare(a: Trajectory, b: Trajectory, times: Any = None) -> "xarray.Dataset":
    """Distances between the tokens of two runs over time.

    Parameters
    ----------
    a, b : Trajectory
        Runs of the same tokens, or of as many; token k of one is compared with token k of the other.
    times : array, optional
        When to compare; by default the saved times of ``a`` that ``b`` reaches too. Where a run was not saved it is
        read by its method's own dense output (`Trajectory.at`).

    Returns
    -------
    xarray.Dataset
        ``distance`` (time, ..., token): angles in rad where both runs move on the sphere, distances otherwise;
        ``largest`` and ``mean`` over tokens. Its attribute ``differ`` says in what the runs differ.

    Examples
    --------
    How far the answer depends on the step:

    >>> import metastable as ms
    >>> x0 = ms.initial.sphere(8, 3)
    >>> coarse, fine = (ms.simulate(ms.Dynamics(), x0, t=2.0, dt=dt, save=5) for dt in (0.2, 0.1))
    >>> apart = compare(coarse, fine)
    >>> apart.attrs["differ"], bool(apart.largest.max() < 1e-4)
    ('dt: 0.2 and 0.1', True)
    """
    import xarray

    for name, run in (("a", a), ("b", b)):
        if not isinstance(run, Trajectory):
            raise InputError(f"{name} must be a Trajectory, not {type(run).__name__}.")
    if a.x.shape[1:] != b.x.shape[1:]:
        raise InputError(
            f"Runs are compared token by token, but the shapes of their tokens are {a.x.shape[1:]} and {b.x.shape[1:]}."
        )
    if times is None:
        slack = 1e-12 * max(1.0, float(b.t[-1]))
        times = a.t[(a.t >= b.t[0] - slack) & (a.t <= b.t[-1] + slack)]
        if not len(times):
            raise InputError("The runs have no time in common; give times that both reach.")
    one, other = a.at(times), b.at(times)
    angles = all(run.dynamics is not None and run.dynamics.geometry.angular for run in (a, b))
    apart = _angles(one.x, other.x) if angles else np.linalg.norm(one.x - other.x, axis=-1)
    dims = ["time", *(f"run{k}" for k in range(len(a.runs))), "token"]
    units, word = ("rad", "angle") if angles else ("1", "distance")
    distance = xarray.DataArray(
        apart, dims=dims, coords={"time": one.t}, attrs={"units": units, "long_name": f"{word} between tokens"}
    )
    measured = {"distance": distance, "largest": distance.max("token"), "mean": distance.mean("token")}
    for name in ("largest", "mean"):
        measured[name].attrs = {"units": units, "long_name": f"{name} {word} between tokens"}
    return xarray.Dataset(measured, attrs={"differ": differences(a, b)})


def _angles(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The angle between two directions, right also where it is tiny: 2 atan2(|x - y|, |x + y|) of unit vectors."""
    x, y = (z / np.linalg.norm(z, axis=-1, keepdims=True) for z in (x, y))
    return np.asarray(2.0 * np.arctan2(np.linalg.norm(x - y, axis=-1), np.linalg.norm(x + y, axis=-1)))


def differences(a: Trajectory, b: Trajectory) -> str:
    """In what two runs differ, in a line; "nothing that is recorded" where they were made alike."""
    found = []
    if a.dynamics is not None and b.dynamics is not None:
        for name in _NAMED:
            one, other = (str(getattr(run.dynamics, name)) for run in (a, b))
            found += [f"{name}: {one} and {other}"] if one != other else []
        for name in ("Q", "K", "V"):
            maps = [getattr(dyn.weights, name) for dyn in (a.dynamics, b.dynamics)]
            same = maps[0] is maps[1] or _equal(*maps)
            found += [] if same else [f"{name} differs"]
    for name in _MADE:
        made = a.provenance.get(name), b.provenance.get(name)
        found += [f"{name}: {made[0]} and {made[1]}"] if made[0] != made[1] else []
    if a.x.shape[1:] == b.x.shape[1:] and a.t[0] == b.t[0] and not np.array_equal(a.x[0], b.x[0]):
        found.append("first tokens differ")
    return "; ".join(found) or "nothing that is recorded"


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    return one is other
