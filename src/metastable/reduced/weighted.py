"""The velocity of weighted tokens on the sphere, on the host: what coalescence and the leap integrate."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from metastable.engines.attend import attend
from metastable.engines.exact.rows import row_sums
from metastable.engines.simd import packing as pack
from metastable.engines.simd.exponential import LOG2E
from metastable.engines.simd.vectors import inlined, kernel
from metastable.equation.geometry import SPHERE
from metastable.errors import InputError
from metastable.solve.methods import RK4
from metastable.solve.stepping import explicit_step

# Weighted tokens that have formed clusters: pairs up to which one thread is quicker than `attend` with its checks, the
# same for more than three coordinates, where NumPy is that thread, and pairs up to which a step is best made by loops.
_FEW_PAIRS, _FEW_WIDE_PAIRS, _FEWEST_PAIRS = 150_000, 20_000, 3_000
_LARGEST = 450.0  # powers of two that scores may reach without leaving the range of floats

Velocity = Callable[[np.ndarray, np.ndarray], np.ndarray]
Steps = Callable[[np.ndarray, np.ndarray, float, int], np.ndarray]


def check(dyn: Any, x: np.ndarray, purpose: str) -> None:
    """Refuse, in one sentence, dynamics whose tokens may not be merged into weighted ones."""
    w = dyn.weights
    why = None
    if dyn.geometry != SPHERE:
        why = f"tokens on the sphere, not geometry {dyn.geometry.name!r}"
    elif dyn.mask.visible is not None:
        why = f"full attention, not mask {dyn.mask.name!r}: a masked token is not exchangeable with its neighbours"
    elif dyn.normalise.stream not in ("softmax", "unnormalised") or not dyn.score.is_dot:
        why = "softmax or unnormalised attention with the dot score"
    elif dyn.position is not None or dyn.block is not None or np.any(np.asarray(dyn.noise) != 0):
        why = "dynamics without positions, block or noise"
    elif w.time_dependent or w.biased or not w.bilinear:
        why = "weights without biases or norms of queries and keys that do not depend on time"
    elif np.ndim(dyn.beta) or np.ndim(x) != 2:
        why = "one run at a time, tokens (n, d) and one beta"
    if why:
        raise InputError(f"{purpose} needs {why}.")


def unit(x: np.ndarray) -> np.ndarray:
    """x / |x| per token."""
    return x / np.sqrt(np.einsum("id,id->i", x, x))[:, None]  # type: ignore[no-any-return]


def tangent(x: np.ndarray, u: np.ndarray) -> np.ndarray:
    """The part of u across x, for unit x."""
    return u - np.einsum("id,id->i", x, u)[:, None] * x  # type: ignore[no-any-return]


class Law(NamedTuple):
    """What a velocity needs of a Dynamics: Q_h^T K_h, V_h (both (h, d, d)), beta and the normalisation."""

    A: np.ndarray
    V: np.ndarray
    beta: float
    normalise: str


def law(dyn: Any, d: int) -> Law:
    """The law of tokens in dimension d."""
    A, V = np.broadcast_arrays(dyn.weights.score_map(0.0, d), dyn.weights.value_map(0.0, d))
    return Law(np.array(A, np.float64), np.array(V, np.float64), float(dyn.beta), dyn.normalise.stream)


def velocity(dyn: Any, d: int, summation: str = "auto", tol: float = 1e-12) -> Velocity:
    """f(x, w): velocities of the tokens x[:len(w)] with weights w, and of those behind them, which only look on.

    The value at x of the extension |x| f(x / |x|) off the sphere, as in `metastable.solve.stepping.field`.
    """
    A, V, beta, normalise = law(dyn, d)
    plain = np.array_equal(A, np.broadcast_to(np.eye(d), A.shape))
    straight = [_multiple_of_identity(matrix) for matrix in V]

    def pull(y: np.ndarray, w: np.ndarray) -> np.ndarray:
        if len(y) * len(w) <= (_FEW_PAIRS if d <= 3 else _FEW_WIDE_PAIRS):
            each = [_alone(beta * (y if plain else y @ A[h]), y, w, normalise) @ V[h].T for h in range(len(V))]
            return np.asarray(sum(each[1:], each[0]))
        out = np.zeros_like(y)
        everyone = np.concatenate([w, np.zeros(len(y) - len(w))])  # one sum for all queries
        for h, value_map in enumerate(V):
            q = y if plain else y @ A[h]
            got = attend(q, y, None, beta, normalise=normalise, weights=everyone, summation=summation, tol=tol,
                         radial=straight[h] is None or not plain).value  # fmt: skip
            out += got @ value_map.T if straight[h] is None else straight[h] * got
        return out

    def field(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        size = np.sqrt(np.einsum("id,id->i", x, x))[:, None]
        y = x / size
        return size * tangent(y, pull(y, w))  # type: ignore[no-any-return]

    return field


def runge_kutta(dyn: Any, d: int, field: Velocity) -> Steps:
    """f(x, w, h, count): tokens and zero-weight queries of `velocity` after some Runge-Kutta steps on the sphere."""
    A, V, beta, normalise = law(dyn, d)
    scheme = RK4.tableau.matrix()

    def steps(x: np.ndarray, w: np.ndarray, h: float, count: int) -> np.ndarray:
        if few(x, w):
            return _few_steps(x, w, A, V, beta, normalise == "softmax", h, count, scheme)  # type: ignore[no-any-return]
        for _ in range(count):
            x = unit(explicit_step(RK4.tableau, lambda _, y: field(y, w), 0.0, x, h))
        return x

    return steps


def few(x: np.ndarray, w: np.ndarray) -> bool:
    """Whether a step of the tokens x[:len(w)] and the zero-weight queries behind them costs next to nothing."""
    return len(x) * len(w) <= _FEWEST_PAIRS


@inlined
def _dot(a: Any, i: int, b: Any, j: int) -> float:
    """<a_i, b_j>."""
    made = 0.0
    for c in range(a.shape[1]):
        made += a[i, c] * b[j, c]
    return made


@inlined
def _pulled(y: Any, i: int, w: Any, A: Any, V: Any, beta: float, softmax: bool, room: Any, scores: Any) -> None:
    """Add what one head pulls at row i to room[0]; loops over numbers, because temporary arrays cost more than sums."""
    d = y.shape[1]
    for c in range(d):
        room[1, c], room[2, c] = 0.0, 0.0
        for e in range(d):
            room[1, c] += beta * y[i, e] * A[e, c]
    top, z = -np.inf if softmax else 0.0, 0.0
    for j in range(len(w)):
        scores[j] = _dot(room, 1, y, j)
        if softmax:
            top = max(top, scores[j])
    for j in range(len(w)):
        weight = w[j] * math.exp(scores[j] - top)
        z += weight if softmax else w[j]
        for c in range(d):
            room[2, c] += weight * y[j, c]
    for c in range(d):
        room[0, c] += _dot(V, c, room, 2) / z


@inlined
def _rates(y: Any, w: Any, A: Any, V: Any, beta: float, softmax: bool, rate: Any) -> None:
    """The velocities at y of the tokens w and of the zero-weight queries behind them, as `velocity` has them.

    y is left divided by the lengths of its rows.
    """
    n, d = y.shape
    size, room, scores = np.empty(n), np.empty((3, d)), np.empty(len(w))
    for i in range(n):
        size[i] = math.sqrt(_dot(y, i, y, i))
        for c in range(d):
            y[i, c] /= size[i]
    for i in range(n):
        for c in range(d):
            room[0, c] = 0.0
        for head in range(len(A)):
            _pulled(y, i, w, A[head], V[head], beta, softmax, room, scores)
        along = _dot(y, i, room, 0)
        for c in range(d):
            rate[i, c] = size[i] * (room[0, c] - along * y[i, c])


@kernel
def _few_steps(
    start: Any, w: Any, A: Any, V: Any, beta: float, softmax: bool, h: float, count: int, scheme: Any
) -> Any:
    """Runge-Kutta steps of a few tokens start[:len(w)] and zero-weight queries, back onto the sphere each time.

    ``scheme`` (stages + 1, stages) is the matrix of a `Tableau`.
    """
    x, y, stages = start.copy(), np.empty_like(start), scheme.shape[1]
    rates = np.zeros((stages, *start.shape))
    for _ in range(count):
        for stage in range(stages + 1):
            for i in range(x.shape[0]):
                for c in range(x.shape[1]):
                    y[i, c] = x[i, c]
            for k in range(min(stage, stages)):
                part = h * scheme[stage, k]
                if part != 0.0:
                    for i in range(x.shape[0]):
                        for c in range(x.shape[1]):
                            y[i, c] += part * rates[k, i, c]
            if stage < stages:
                _rates(y, w, A, V, beta, softmax, rates[stage])
        for i in range(x.shape[0]):
            size = math.sqrt(_dot(y, i, y, i))
            for c in range(x.shape[1]):
                x[i, c] = y[i, c] / size
    return x


def _alone(q: np.ndarray, y: np.ndarray, w: np.ndarray, normalise: str) -> np.ndarray:
    """sum_j A_ij y_j over the tokens y[:len(w)] of weights w, with scores <q_i, y_j>, in this thread."""
    y, d, n = y[: len(w)], q.shape[1], len(q)
    bound = np.ceil(LOG2E * np.sqrt(np.einsum("id,id->i", q, q)))  # of every score, in powers of two
    if d > 3 or not bound.max() < _LARGEST:
        return _plain(q @ y.T, y, w, normalise)
    Q, out = np.zeros((3, n)), np.zeros((4, n))
    Q[:d] = LOG2E * q.T
    K, S = pack.coordinates(y, 3, np.float64), pack.sources(y, w, 4, np.float64)
    row_sums(Q, K, S, np.zeros(n, np.int64), np.full(n, len(y)), bound, 0, n, out, 8)
    total = out[0] if normalise == "softmax" else w.sum() * np.exp2(-bound)
    return (out[1 : 1 + d] / total).T  # type: ignore[no-any-return]


def _plain(S: np.ndarray, y: np.ndarray, w: np.ndarray, normalise: str) -> np.ndarray:
    """The same from the scores S (m, n), by NumPy: any dimension, scores of any size."""
    if normalise == "unnormalised":
        return (np.exp(S) * w) @ y / w.sum()  # type: ignore[no-any-return]
    P = np.exp(S - S.max(axis=1, keepdims=True)) * w
    return P @ y / P.sum(axis=1, keepdims=True)  # type: ignore[no-any-return]


def _multiple_of_identity(matrix: np.ndarray) -> float | None:
    scale = float(matrix[0, 0])
    return scale if np.array_equal(matrix, scale * np.eye(len(matrix))) else None
