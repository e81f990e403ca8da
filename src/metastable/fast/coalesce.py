"""Coalescence: tokens closer than a tolerance become one weighted token.

Under full attention tokens are exchangeable, and a tight group acts on the others as its total weight at its centre
of mass, up to a relative error of order beta^2 tolerance^2 in the attention. Inside the group every member feels the
same field up to first order, so the members' offsets from the centre are carried by d - 1 weightless *companions* that
start at the distance ``tolerance`` along the tangent directions and move like tokens:

    x_i = X + sum_a c_ia (companion_a - X),     c_ia fixed at the merger

Full-size trajectories thus keep their accuracy after a merger, where putting all members on the centre would be off by
the tolerance. Companions are dropped when they have come as close to their centre as rounding allows.
"""

from typing import Any, NamedTuple

import numpy as np

from metastable import __version__
from metastable.errors import InputError
from metastable.fast import weighted
from metastable.trajectory import Trajectory

_EVERY = 3  # steps between two looks for mergers
_GONE = 1e-14  # companions nearer than this have done their work


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


class _State(NamedTuple):
    X: np.ndarray  # (m, d) weighted tokens
    w: np.ndarray  # (m,)
    label: np.ndarray  # (n,) the weighted token of each token
    companions: np.ndarray  # (p, d - 1, d) of the groups that still have an extent
    group: np.ndarray  # (m,) number of a token's companions, or -1
    coefficients: np.ndarray  # (n, d - 1)


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
    field = weighted.velocity(dynamics, x.shape[1], summation)
    n, d = x.shape
    state = _State(
        weighted.unit(x), np.ones(n), np.arange(n), np.zeros((0, d - 1, d)), np.full(n, -1), np.zeros((n, d - 1))
    )
    kept: list[np.ndarray] = []
    labels: list[np.ndarray] = []
    k = 0
    for time in times:
        while (k + 1) * dt <= time + 1e-9 * dt:
            state = _step(field, state, dt)
            k += 1
            if k % _EVERY == 0 and delta > 0:
                state = _merged(_merged(state, delta, shift=2 * k), delta, shift=2 * k + 1)
        kept.append(everyone(_between(field, state, dt, time / dt - k)))
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
    run = Trajectory(times, np.stack(kept), dynamics, "done", message, provenance=made)
    return Coalesced(run, np.stack(labels), counts, delta, state.X, state.w)


def everyone(state: _State) -> np.ndarray:
    """All tokens, (n, d), from the weighted ones and their companions."""
    x = state.X[state.label]
    member = np.flatnonzero(state.group[state.label] >= 0)
    if member.size:
        centre = x[member]
        arms = state.companions[state.group[state.label[member]]] - centre[:, None, :]  # (members, d - 1, d)
        x[member] = weighted.unit(centre + np.einsum("ia,iad->id", state.coefficients[member], arms))
    return x


def _moved(state: _State, rate: np.ndarray, h: float, retract: bool = False) -> _State:
    """The state after a time h at the given velocities of tokens and companions."""
    m = len(state.X)
    flat = state.companions.reshape(-1, state.X.shape[1])
    X, companions = state.X + h * rate[:m], flat + h * rate[m:]
    if retract:
        X, companions = weighted.unit(X), weighted.unit(companions)
    return state._replace(X=X, companions=companions.reshape(state.companions.shape))


def _rate(field: weighted.Velocity, state: _State) -> np.ndarray:
    flat = state.companions.reshape(-1, state.X.shape[1])
    return field(state.X, state.w, flat if len(flat) else None)


def _step(field: weighted.Velocity, state: _State, h: float) -> _State:
    """One classical Runge-Kutta step of tokens and companions, then back onto the sphere."""
    k1 = _rate(field, state)
    k2 = _rate(field, _moved(state, k1, h / 2))
    k3 = _rate(field, _moved(state, k2, h / 2))
    k4 = _rate(field, _moved(state, k3, h))
    return _moved(state, (k1 + 2 * k2 + 2 * k3 + k4) / 6, h, retract=True)


def _between(field: weighted.Velocity, state: _State, h: float, theta: float) -> _State:
    """The state a fraction theta of a step further on, by the cubic of `metastable.steps.hermite`."""
    if theta <= 1e-9:
        return state
    later = _step(field, state, h)
    v0, v1 = _rate(field, state), _rate(field, later)
    flat, last = (np.concatenate([s.X, s.companions.reshape(-1, s.X.shape[1])]) for s in (state, later))
    s = theta - 1.0
    bump = s * ((1.0 - 2.0 * theta) * (last - flat) + s * h * v0 + theta * h * v1)
    return _moved(state, last - flat + bump, theta, retract=True)


# --- mergers ------------------------------------------------------------------------------------------------------


def _merged(state: _State, delta: float, shift: int) -> _State:
    """Merge the weighted tokens that share a cell with sides delta; the grid moves from call to call."""
    d = state.X.shape[1]
    start = np.modf(shift * np.sqrt([2.0, 3.0, 5.0, 7.0, 11.0, 13.0] * d)[:d])[0]  # so that no border stays put
    cell = _numbered(np.floor(state.X / delta + start).astype(np.int64))
    if cell.max() + 1 == len(state.X):
        return _tidied(state)
    x = everyone(state)
    members = np.bincount(cell)
    w = np.bincount(cell, state.w)
    X = np.stack([np.bincount(cell, state.w * c) for c in state.X.T], axis=1)
    first = np.zeros(len(w), np.int64)
    first[cell[::-1]] = np.arange(len(cell))[::-1]  # an untouched token keeps its place to the last digit
    X = np.where((members > 1)[:, None], weighted.unit(X), state.X[first])
    label = cell[state.label]
    new = np.flatnonzero(members > 1)
    old = np.flatnonzero((members == 1) & (state.group[first] >= 0))
    group = np.full(len(w), -1)
    group[old] = np.arange(len(old))
    group[new] = len(old) + np.arange(len(new))
    frames = _frames(X[new])
    coefficients = state.coefficients.copy()
    joined = np.flatnonzero(members[label] > 1)
    offset = x[joined] - X[label[joined]]
    number = group[label[joined]] - len(old)
    coefficients[joined] = np.einsum("id,iad->ia", offset, frames[number]) / delta
    arms = weighted.unit((X[new][:, None, :] + delta * frames).reshape(-1, d)).reshape(len(new), d - 1, d)
    companions = np.concatenate([state.companions[state.group[first[old]]], arms])
    return _tidied(_State(X, w, label, companions, group, coefficients))


def _numbered(cells: np.ndarray) -> np.ndarray:
    """The number of each row among the different rows of whole numbers; rows are told apart by a 64-bit mix."""
    mix = np.zeros(len(cells), np.uint64)
    for column in cells.T:
        mix = (mix ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mix ^= mix >> np.uint64(29)
    _, first, number = np.unique(mix, return_index=True, return_inverse=True)
    if np.array_equal(cells[first][number], cells):
        return number
    return np.unique(cells, axis=0, return_inverse=True)[1].ravel()  # two cells with one mix


def _frames(X: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the tangent space at each token, (m, d - 1, d)."""
    m, d = X.shape
    column = np.concatenate([X[:, :, None], np.broadcast_to(np.eye(d), (m, d, d))], axis=2)
    basis = np.linalg.qr(column)[0]  # (m, d, d), the first vector along X
    return np.swapaxes(basis[:, :, 1:], 1, 2)


def _tidied(state: _State) -> _State:
    """Without the companions that have reached their centre."""
    if not len(state.companions):
        return state
    owner = np.flatnonzero(state.group >= 0)
    owner = owner[np.argsort(state.group[owner])]
    far = np.abs(state.companions - state.X[owner][:, None, :]).max(axis=(1, 2)) > _GONE
    if far.all():
        return state
    group = state.group.copy()
    group[owner[~far]] = -1
    group[owner[far]] = np.arange(int(far.sum()))
    return state._replace(companions=state.companions[far], group=group)
