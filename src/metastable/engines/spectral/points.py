"""Tokens on their way into the linear-time kernels and out of them."""

import math
from typing import Any, NamedTuple

import numpy as np

from metastable.engines.exact.rows import row_sums
from metastable.engines.exact.task import Sums
from metastable.engines.simd import packing as pack
from metastable.engines.simd import threads
from metastable.engines.simd.exponential import LOG2E
from metastable.engines.simd.vectors import kernel

GROUP = 32  # points are padded to whole groups of four vectors
_PIECE = 16_384  # tokens in a piece, at most about: its rows of 8 bytes a number stay in a second cache
_PARTS = 8  # pieces of the sums over tokens, whatever the number of threads: sums come out the same
# Below these sizes a piece takes less than the 20 microseconds of waking a thread: so many tokens (or pairs, in
# `exact_rows`) for so many pieces. They are the same on every machine, because where sums are cut decides their bits.
_ALONE, _FOUR, _LIGHT, _PAIRS = 1000, 10_000, 20_000, 200_000


class Points(NamedTuple):
    """Unit queries and keys in coordinate rows: the kernel is e^{kappa <Q_i, K_j>}."""

    dimension: int
    n: int
    kappa: float  # |beta| |q| |k|
    length: float  # |k|
    slack: float  # how far lengths differ, as an error of the value
    Q: np.ndarray
    K: np.ndarray
    S: np.ndarray  # (w, w k)


@kernel
def _normalise(points: Any, sign: float, first: int, last: int, out: Any, squares: Any) -> None:
    """Coordinates of points / |point| into the rows of ``out``; least and largest |point|^2 into ``squares``."""
    least, most = np.inf, 0.0
    for i in range(first, last):
        square = 0.0
        for c in range(points.shape[1]):
            square += points[i, c] * points[i, c]
        least, most = min(least, square), max(most, square)
        scale = sign / math.sqrt(square)
        for c in range(points.shape[1]):
            out[c, i] = points[i, c] * scale
    squares[0], squares[1] = least, most


@kernel
def _settle(out: Any, Q: Any, length: float, first: int, last: int, floors: Any, radial: bool, value: Any) -> Any:
    """value_i = length * summed vector / Z_i; how many Z_i miss their floor, and the least Z_i / floor of the others.

    ``floors`` holds one number for all rows, or one for each.
    """
    missed, least, each = 0, np.inf, min(len(floors) - 1, 1)
    for i in range(first, last):
        scale, floor, along = length / out[0, i], floors[i * each], 0.0
        if not radial:
            for c in range(value.shape[1]):
                along += out[c + 1, i] * Q[c, i]
        for c in range(value.shape[1]):
            value[i, c] = (out[c + 1, i] - along * Q[c, i]) * scale
        if out[0, i] >= floor > 0.0:
            least = min(least, out[0, i] / floor)
        else:
            missed += 1
    return missed, least


def cuts(n: int, step: int) -> list[tuple[int, int]]:
    """The pieces into which n tokens are cut; what is summed for one of them stays in the second cache."""
    return threads.pieces(n, max(_PARTS, n // _PIECE) if n > _FOUR else 4 if n > _ALONE else 1, step)


def _light_cuts(n: int) -> list[tuple[int, int]]:
    """Pieces for work of a few cycles per token, where threads pay late."""
    return threads.pieces(n, max(_PARTS, n // _PIECE) if n > _LIGHT else 1, GROUP)


def unit_rows(points: np.ndarray, sign: float, out: np.ndarray) -> tuple[float, float]:
    """Coordinates of sign * points / |point| into the rows of ``out``; the least and the largest length."""
    points = np.ascontiguousarray(points, np.float64)
    parts = _light_cuts(len(points))
    squares = np.empty((len(parts), 2))
    threads.share(lambda p: _normalise(points, sign, *parts[p], out, squares[p]), len(parts))
    return math.sqrt(squares[:, 0].min()), math.sqrt(squares[:, 1].max())


def _coordinates(name: str, n: int, d: int, width: int) -> np.ndarray:
    """Three rows of coordinates, 0 where there is no token."""
    out = pack.room(name, (3, width))
    out[:, n:], out[d:] = 0.0, 0.0
    return out


def points(q: np.ndarray, k: np.ndarray, beta: float, weights: np.ndarray | None) -> Points:
    """Unit queries, turned round for negative beta, and unit keys."""
    n, d = k.shape
    width = -(-n // GROUP) * GROUP
    S = pack.room("sources", (4, width))
    S[:, n:], S[1 + d :] = 0.0, 0.0
    S[0, :n] = 1.0 if weights is None else weights
    K = S[1:] if weights is None else _coordinates("keys", n, d, width)
    shortest, longest = unit_rows(k, 1.0, K)
    if weights is not None:
        np.multiply(S[0], K, out=S[1:])
    if q is k and beta >= 0:
        Q, low, high = K, shortest, longest
    else:
        Q = _coordinates("queries", n, d, width)
        low, high = unit_rows(q, 1.0 if beta >= 0 else -1.0, Q)
    kappa = abs(beta) * high * longest
    uneven = high / low * (longest / shortest) - 1.0 if low * shortest > 0 else math.inf
    return Points(q.shape[1], n, kappa, longest, kappa * uneven, Q, K, S)


def exact_rows(given: Points, rows: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Z e^{-kappa} and the summed vector of some rows over the columns below ``high``, pair by pair, (4, rows)."""
    Q = np.ascontiguousarray(given.Q[:, rows]) * (given.kappa * LOG2E)
    low, shift = np.zeros(len(rows), np.int64), np.full(len(rows), given.kappa * LOG2E)
    out = np.zeros((4, len(rows)))
    # four rows at least share what is read of the columns, which for many tokens comes from far away
    parts = threads.pieces(len(rows), 8 * threads.cores() if len(rows) * given.n > _PAIRS else 1, step=4)
    threads.share(lambda p: row_sums(Q, given.K, given.S, low, high, shift, *parts[p], out, 8), len(parts))
    return out


def settle(
    given: Points, out: np.ndarray, first: int, last: int, floors: np.ndarray, radial: bool, made: Sums
) -> tuple[int, float]:
    """The sums of some rows into ``made``; how many Z miss their floor, and the least Z / floor of the others."""
    last = min(last, given.n)
    log_z = made.log_z[first:last]
    with np.errstate(divide="ignore", invalid="ignore"):  # of rows that will be rescued
        np.log(out[0, first:last], out=log_z)
    log_z += given.kappa
    return _settle(out, given.Q, given.length, first, last, floors, radial, made.value)  # type: ignore[no-any-return]
