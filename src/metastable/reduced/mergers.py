"""Weighted tokens in the place of tokens that have come together.

Under full attention tokens are exchangeable, and a tight group acts on the others as its total weight at its centre
of mass, up to a relative error of order beta^2 tolerance^2 in the attention. Inside the group every member feels the
same field up to first order, so the members' offsets from the centre are carried by d - 1 weightless *companions* that
start at the distance ``tolerance`` along the tangent directions and move like tokens:

    x_i = X + sum_a c_ia (companion_a - X),     c_ia fixed at the merger

Full-size trajectories thus keep their accuracy after a merger, where putting all members on the centre would be off by
the tolerance. Companions are dropped when they have come as close to their centre as rounding allows. A group is thus d
points to follow, so that among many tokens no more than d points wait for others to come, or for the end of the run.

What is left out is of second order, and fades only while a group contracts. So tokens merge only when they have come
closer to each other since the last look, and a group is let go as soon as one of its companions moves away from it.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from metastable.engines.simd.vectors import kernel
from metastable.reduced import weighted

_PRIMES = [2.0, 3.0, 5.0, 7.0, 11.0, 13.0]
_GONE = 1e-14  # companions nearer than this have done their work


class State(NamedTuple):
    """All that a coalescing run knows of its tokens at one time."""

    points: np.ndarray  # (m + p (d - 1), d) weighted tokens, then the companions of the p groups that have an extent
    w: np.ndarray  # (m,)
    label: np.ndarray  # (n,) the weighted token of each token
    group: np.ndarray  # (m,) number of a token's companions, or -1
    coefficients: np.ndarray  # (n, d - 1)
    before: np.ndarray  # the points as they were at the last look
    freed: int = 0  # groups that had to be let go

    @property
    def X(self) -> np.ndarray:
        """The weighted tokens (m, d)."""
        return self.points[: len(self.w)]

    @property
    def companions(self) -> np.ndarray:
        """(p, d - 1, d)."""
        d = self.points.shape[1]
        return self.points[len(self.w) :].reshape((len(self.points) - len(self.w)) // max(d - 1, 1), d - 1, d)


def everyone(state: State) -> np.ndarray:
    """All tokens, (n, d), from the weighted ones and their companions."""
    return _placed(state, np.arange(len(state.label)))


def _placed(state: State, which: np.ndarray) -> np.ndarray:
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


def begun(x: np.ndarray) -> State:
    """Every token for itself."""
    n, d = x.shape
    return State(x, np.ones(n), np.arange(n), np.full(n, -1), np.zeros((n, d - 1)), x)


def looked(state: State, delta: float, k: int, thrifty: bool) -> State:
    """After a look for mergers, at step k. A thrifty one leaves those that save nothing, unless tokens are few."""
    found = _freed(state)
    if found is state:
        thrifty = thrifty and not weighted.few(state.points, state.w)
        found = _merged(state, delta, 2 * k, thrifty)
        if found is not state:  # others may sit on two sides of a border
            found = _merged(found, delta, 2 * k + 1, thrifty)
        found = _tidied(found)
    return found._replace(before=found.points)


def _owners(state: State) -> np.ndarray:
    """The weighted tokens that have companions, in the order of these."""
    owner = np.flatnonzero(state.group >= 0)
    return owner[np.argsort(state.group[owner])]


def _freed(state: State) -> State:
    """Without the groups of which a companion has moved away: their members are tokens of their own again."""
    if not len(state.companions):
        return state
    owner = _owners(state)
    arms = np.linalg.norm(state.companions - state.X[owner][:, None, :], axis=2)  # (p, d - 1)
    past = state._replace(points=state.before)
    arms_past = np.linalg.norm(past.companions - past.X[owner][:, None, :], axis=2)
    loose = ((arms > arms_past) & (arms > _GONE)).any(axis=1)
    if not loose.any():
        return state
    gone = np.zeros(len(state.w), bool)
    gone[owner[loose]] = True
    members = np.flatnonzero(gone[state.label])
    stay = np.flatnonzero(~gone)
    number = np.cumsum(~gone) - 1
    label = number[state.label]
    label[members] = len(stay) + np.arange(len(members))
    group = np.full(len(stay) + len(members), -1)
    group[number[owner[~loose]]] = np.arange(int((~loose).sum()))
    companions = state.companions[~loose].reshape(-1, state.points.shape[1])
    points = np.concatenate([state.X[stay], _placed(state, members), companions])
    w = np.concatenate([state.w[stay], np.ones(len(members))])
    return State(points, w, label, group, state.coefficients, points, state.freed + int(loose.sum()))


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


@kernel
def _left_apart(number: Any, first: Any, count: int, apart: Any) -> int:
    """Give every token of the cells ``apart`` a cell of its own; returns how many cells there are then."""
    again = np.full(count, -1)
    count = 0
    for i in range(len(number)):
        cell = number[i]
        if apart[cell] or again[cell] < 0:
            again[cell], first[count] = count, i
            count += 1
        number[i] = again[cell]
    return count


def _inertia(cell: np.ndarray, X: np.ndarray, w: np.ndarray) -> np.ndarray:
    """How far the tokens of each cell are spread: the weighted sum of their squared distances from its centre."""
    weight = np.bincount(cell, w)
    centre = np.stack([np.bincount(cell, w * c) / weight for c in X.T], axis=1)
    return np.bincount(cell, w * ((X - centre[cell]) ** 2).sum(axis=1))


def _merged(state: State, delta: float, shift: int, thrifty: bool) -> State:
    """Merge the weighted tokens that share a cell with sides delta; the grid moves from call to call."""
    m, d = state.X.shape
    start = np.modf(shift * np.sqrt(_PRIMES * d)[:d])[0]  # so that no border stays put
    cell, first = np.empty(m, np.int64), np.empty(m, np.int64)
    count = _cells(state.X, delta, start, cell, first)
    if count == m:
        return state
    spread, earlier = (_inertia(cell, points[:m], state.w) for points in (state.points, state.before))
    apart = (spread > earlier) & (spread > np.bincount(cell, state.w) * _GONE**2)
    if thrifty:  # tokens and companions that are no more points than a group's, d
        apart |= np.bincount(cell, np.where(state.group >= 0, d, 1)) <= d
    count = _left_apart(cell, first, count, apart)
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
    kept = state.group[first[old]]
    points = np.concatenate([X, state.companions[kept].reshape(-1, d), arms])
    past = state._replace(points=state.before)
    before = np.concatenate([past.X[first], past.companions[kept].reshape(-1, d), arms])
    before[new] = np.stack([np.bincount(cell, state.w * c)[new] for c in past.X.T], axis=1) / w[new, None]
    return State(points, w, label, group, coefficients, before, state.freed)


def _frames(X: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the tangent space at each token, (m, d - 1, d), by Householder's reflection."""
    d = X.shape[1]
    v = X.copy()
    v[:, 0] += np.where(X[:, 0] < 0, -1.0, 1.0)
    twice = 2.0 / np.einsum("id,id->i", v, v)
    return np.eye(d)[1:] - (twice[:, None] * v[:, 1:])[:, :, None] * v[:, None, :]  # type: ignore[no-any-return]


def _tidied(state: State) -> State:
    """Without the companions that have reached their centre."""
    if not len(state.companions):
        return state
    owner = _owners(state)
    far = np.abs(state.companions - state.X[owner][:, None, :]).max(axis=(1, 2)) > _GONE
    if far.all():
        return state
    group = state.group.copy()
    group[owner[~far]] = -1
    group[owner[far]] = np.arange(int(far.sum()))
    companions = state.companions[far].reshape(-1, state.points.shape[1])
    return state._replace(points=np.concatenate([state.X, companions]), group=group)
