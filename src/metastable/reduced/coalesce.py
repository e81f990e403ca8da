"""Coalescence: tokens closer than a tolerance become one weighted token.

Full-size trajectories stay at hand and keep their accuracy after a merger (`mergers`).
"""

import math
import warnings
from typing import Any, NamedTuple

import numpy as np

from metastable import __version__
from metastable.errors import InputError
from metastable.reduced import weighted
from metastable.reduced.mergers import State, begun, everyone, looked
from metastable.trajectory import Trajectory

_EVERY, _SELDOM = 4, 32  # steps between two looks for mergers, and when few tokens are left


class Coalesced(NamedTuple):
    """A coalesced run.

    ``run`` the Trajectory of all tokens, to observe, draw and save like any other, ``labels`` (T, n) which weighted
    token stands for each, ``counts`` (T,) how many there were, ``tolerance`` the distance at which tokens merged,
    ``centres`` (m, d) and ``weights`` (m,) the weighted tokens at the end.
    """

    run: Trajectory
    labels: np.ndarray
    counts: np.ndarray
    tolerance: float
    centres: np.ndarray
    weights: np.ndarray

    @property
    def t(self) -> np.ndarray:
        """The saved times (T,)."""
        return self.run.t

    @property
    def x(self) -> np.ndarray:
        """All tokens at these times (T, n, d)."""
        return self.run.x


def tolerance_for(accuracy: float, beta: float) -> float:
    """The distance at which tokens may merge when the run is to be right to ``accuracy``.

    Two halves of a group at the distance delta change the attention P paid to it by at most
    P (1 - P) (beta delta)^2 / 8 <= (beta delta)^2 / 32, and its place by delta^2 because the sphere is bent; both fade
    as the group contracts. A group's diameter is up to sqrt(d) tolerances, hence the 16.

    >>> tolerance_for(1e-10, beta=9.0) < 1e-5
    True
    """
    return float(min(1e-2, np.sqrt(accuracy / (1.0 + beta * beta / 16.0))))


def coalesce(
    dynamics: Any,
    x0: np.ndarray,
    t: float = 15.0,
    dt: float = 0.1,
    save: Any = 151,
    accuracy: float = 1e-10,
    tolerance: float | None = None,
    summation: str = "auto",
) -> Coalesced:
    """Run full attention on the sphere with RK4, merging tokens that have come together.

    Parameters
    ----------
    dynamics : Dynamics
        Full attention on the sphere, softmax or unnormalised; any Q, K, V and number of heads.
    x0 : array (n, d)
    t, dt : float
        Horizon and step of the classical Runge-Kutta method.
    save : int or array
        A number of evenly spaced times, or the times themselves.
    accuracy : float
        Error allowed against the run that merges nothing.
    tolerance : float, optional
        The distance at which tokens merge, 0 for never; follows from ``accuracy`` unless given.
    summation : {"auto", "exact", "spectral"}

    Examples
    --------
    >>> import metastable as ms
    >>> run = coalesce(ms.Dynamics(beta=4.0), ms.initial.sphere(40, 3, seed=0), t=30.0, save=4)
    >>> run.x.shape, bool(run.counts[0] > run.counts[-1])
    ((4, 40, 3), True)
    """
    x = np.array(x0, np.float64)
    weighted.check(dynamics, x, "Coalescence")
    if not (dt > 0 and t >= 0 and accuracy > 0 and (tolerance is None or tolerance >= 0)):
        raise InputError("dt and accuracy must be > 0, t and tolerance >= 0.")
    times = np.linspace(0.0, t, save) if np.ndim(save) == 0 else np.asarray(save, np.float64)
    delta = tolerance_for(accuracy, float(dynamics.beta)) if tolerance is None else float(tolerance)
    n, d = x.shape
    field = weighted.velocity(dynamics, d, summation)
    steps = weighted.runge_kutta(dynamics, d, field)
    state = begun(weighted.unit(x))
    kept: list[np.ndarray] = []
    labels: list[np.ndarray] = []
    k = 0
    for time in times:
        while (left := math.floor(time / dt + 1e-9) - k) > 0:
            often = _SELDOM if weighted.few(state.points, state.w) else _EVERY
            count = min(left, often - k % often)
            state = state._replace(points=steps(state.points, state.w, dt, count))
            k += count
            if delta > 0:
                state = looked(state, delta, k, thrifty=k * dt < times[-1] - dt)
        kept.append(everyone(_between(field, steps, state, dt, time / dt - k)))
        labels.append(state.label)
    counts = np.array([label.max() + 1 for label in labels])
    made = {
        "method": "rk4",
        "dt": dt,
        "t": t,
        "summation": summation,
        "merged within": delta,
        "metastable": __version__,
    }
    message = f"Reached t = {times[-1]:g} with {counts[-1]} of {n} tokens left."
    if state.freed:
        message += f" {state.freed} groups came apart again: where tokens repel, the accuracy asked for may be missed."
        warnings.warn(message, RuntimeWarning, stacklevel=2)
    run = Trajectory(times, np.stack(kept), dynamics, "done", message, provenance=made)
    return Coalesced(run, np.stack(labels), counts, delta, state.X, state.w)


def _between(field: weighted.Velocity, steps: weighted.Steps, state: State, h: float, theta: float) -> State:
    """The state a fraction theta of a step further on, by the cubic of `metastable.solve.stepping.hermite`."""
    if theta <= 1e-9:
        return state
    first, last = state.points, steps(state.points, state.w, h, 1)
    v0, v1 = field(first, state.w), field(last, state.w)
    s = theta - 1.0
    bump = s * ((1.0 - 2.0 * theta) * (last - first) + s * h * v0 + theta * h * v1)
    return state._replace(points=weighted.unit(first + theta * (last - first + bump)))
