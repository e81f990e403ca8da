"""Coalescence: tokens closer than a tolerance become one weighted token.

Under full attention tokens are exchangeable, and a tight group acts on the others as its total weight at its centre
of mass, up to a relative error of order beta^2 tolerance^2 in the attention. Inside the group every member feels the
same field up to first order, so the members' offsets from the centre are carried by d - 1 weightless *companions* that
start at the distance ``tolerance`` along the tangent directions and move like tokens:

    x_i = X + sum_a c_ia (companion_a - X),     c_ia fixed at the merger

Full-size trajectories thus keep their accuracy after a merger, where putting all members on the centre would be off by
the tolerance. Companions are dropped when they have come as close to their centre as rounding allows.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from metastable import __version__
from metastable.errors import InputError
from metastable.fast import weighted
from metastable.fast.lanes import kernel
from metastable.trajectory import Trajectory

_EVERY = 3  # steps between two looks for mergers
_PRIMES = [2.0, 3.0, 5.0, 7.0, 11.0, 13.0]
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
    points: np.ndarray  # (m + p (d - 1), d) weighted tokens, then the companions of the p groups that have an extent
    w: np.ndarray  # (m,)
    label: np.ndarray  # (n,) the weighted token of each token
    group: np.ndarray  # (m,) number of a token's companions, or -1
    coefficients: np.ndarray  # (n, d - 1)

    @property
    def X(self) -> np.ndarray:
        """The weighted tokens (m, d)."""
        return self.points[: len(self.w)]

    @property
    def companions(self) -> np.ndarray:
        """(p, d - 1, d)."""
        d = self.points.shape[1]
        return self.points[len(self.w) :].reshape((len(self.points) - len(self.w)) // max(d - 1, 1), d - 1, d)


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
    step = weighted.runge_kutta(dynamics, d, field)
    state = _State(weighted.unit(x), np.ones(n), np.arange(n), np.full(n, -1), np.zeros((n, d - 1)))
    kept: list[np.ndarray] = []
    labels: list[np.ndarray] = []
    k = 0
    for time in times:
        while (k + 1) * dt <= time + 1e-9 * dt:
            state = state._replace(points=step(state.points, state.w, dt))
            k += 1
            if k % _EVERY == 0 and delta > 0:
                state = _tidied(_merged(_merged(state, delta, shift=2 * k), delta, shift=2 * k + 1))
        kept.append(everyone(_between(field, step, state, dt, time / dt - k)))
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
    return _placed(state, np.arange(len(state.label)))


def _placed(state: _State, which: np.ndarray) -> np.ndarray:
    """Some of all tokens, from the weighted ones and their companions."""
    label = state.label[which]
    x = state.X[label]
    member = np.flatnonzero(state.group[label] >= 0)
    if member.size:
        centre = x[member]
        arms = state.companions[state.group[label[member]]] - centre[:, None, :]  # (members, d - 1, d)
        offset = np.einsum("ia,iad->id", state.coefficients[which[member]], arms)
        x[member] = weighted.unit(centre + offset)
    return x  # type: ignore[no-any-return]


def _between(field: weighted.Velocity, step: weighted.Step, state: _State, h: float, theta: float) -> _State:
    """The state a fraction theta of a step further on, by the cubic of `metastable.steps.hermite`."""
    if theta <= 1e-9:
        return state
    first, last = state.points, step(state.points, state.w, h)
    v0, v1 = field(first, state.w), field(last, state.w)
    s = theta - 1.0
    bump = s * ((1.0 - 2.0 * theta) * (last - first) + s * h * v0 + theta * h * v1)
    return state._replace(points=weighted.unit(first + theta * (last - first + bump)))


# --- mergers ------------------------------------------------------------------------------------------------------


@kernel
def _cells(X: Any, delta: float, start: Any, number: Any, first: Any) -> int:
    """Number the cells with sides delta in order of appearance, by a table of hashes.

    ``number`` (m,) is the cell of each token, ``first`` (m,) the first token of each cell; returns how many there are.
    """
    m, d = X.shape
    size = 16
    while size < 2 * m:
        size *= 2
    table, cell = np.full(size, -1), np.empty((m, d), np.int64)
    count = 0
    for i in range(m):
        mix = np.int64(0)
        for c in range(d):
            cell[i, c] = math.floor(X[i, c] / delta + start[c])
            mix = (mix ^ cell[i, c]) * 6364136223846793005  # wraps round
            mix ^= mix >> 29
        slot = mix & (size - 1)
        while table[slot] >= 0:
            same = True
            for c in range(d):
                same = same and cell[first[table[slot]], c] == cell[i, c]
            if same:
                break
            slot = (slot + 1) & (size - 1)
        if table[slot] < 0:
            table[slot], first[count] = count, i
            count += 1
        number[i] = table[slot]
    return count


def _merged(state: _State, delta: float, shift: int) -> _State:
    """Merge the weighted tokens that share a cell with sides delta; the grid moves from call to call."""
    m, d = state.X.shape
    start = np.modf(shift * np.sqrt(_PRIMES * d)[:d])[0]  # so that no border stays put
    cell, first = np.empty(m, np.int64), np.empty(m, np.int64)
    count = _cells(state.X, delta, start, cell, first)
    if count == m:
        return state
    first, members, w = first[:count], np.bincount(cell), np.bincount(cell, state.w)
    new = np.flatnonzero(members > 1)
    X = state.X[first]  # an untouched token keeps its place to the last digit
    X[new] = weighted.unit(np.stack([np.bincount(cell, state.w * c)[new] for c in state.X.T], axis=1))
    label = cell[state.label]
    old = np.flatnonzero((members == 1) & (state.group[first] >= 0))
    group = np.full(count, -1)
    group[old] = np.arange(len(old))
    group[new] = len(old) + np.arange(len(new)) if d > 1 else -1  # on S^0 no group has an extent
    frames = _frames(X[new])
    coefficients = state.coefficients.copy()
    joined = np.flatnonzero(members[label] > 1)
    offset = _placed(state, joined) - X[label[joined]]
    number = group[label[joined]] - len(old)
    coefficients[joined] = np.einsum("id,iad->ia", offset, frames[number]) / delta
    arms = weighted.unit((X[new][:, None, :] + delta * frames).reshape(-1, d))
    points = np.concatenate([X, state.companions[state.group[first[old]]].reshape(-1, d), arms])
    return _State(points, w, label, group, coefficients)


def _frames(X: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the tangent space at each token, (m, d - 1, d), by Householder's reflection."""
    d = X.shape[1]
    v = X.copy()
    v[:, 0] += np.where(X[:, 0] < 0, -1.0, 1.0)
    twice = 2.0 / np.einsum("id,id->i", v, v)
    return np.eye(d)[1:] - (twice[:, None] * v[:, 1:])[:, :, None] * v[:, None, :]  # type: ignore[no-any-return]


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
    companions = state.companions[far].reshape(-1, state.points.shape[1])
    return state._replace(points=np.concatenate([state.X, companions]), group=group)
