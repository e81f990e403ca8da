"""Linear-time sums on the circle: Fourier modes.

    e^{beta cos(a - b)} = I_0(beta) + 2 sum_k I_k(beta) cos(k a) cos(k b) + sin(k a) sin(k b)

With moments C_k = sum_j w_j cos(k b_j), S_k likewise, the partition sum at the query x = (cos a, sin a) is

    Z(a) = sum_k s_k (C_k cos(k a) + S_k sin(k a)),    s_0 = I_0,  s_k = 2 I_k,

and sum_j w_j e^{beta <x, k_j>} k_j = (Z'(a) / beta) (-sin a, cos a) + (dZ / dbeta) x: no vector moments are needed.
cos(k a) + i sin(k a) are powers of x_1 + i x_2.
"""

from typing import Any

import numpy as np

from metastable.engines.exact.rows import row_sums
from metastable.engines.simd.loads import every, load, store
from metastable.engines.simd.vectors import fill, fma, inlined, kernel, total


@inlined
def _turn(c: Any, s: Any, x: Any, y: Any) -> Any:
    """(c + i s)(x + i y)."""
    return fma(c, x, fill(c, 0.0) - s * y), fma(c, y, s * x)


@kernel
def moments(K: Any, w: Any, first: int, last: int, rank: int, out: Any) -> None:
    """Add the points first to last, weighted by w[0], to the moments ``out`` (rank + 1, 2): cosine and sine."""
    M = np.zeros((2 * (rank + 1), 8))
    for j in range(first, last, 16):
        x, y, x2, y2 = load(K, 0, j), load(K, 1, j), load(K, 0, j + 8), load(K, 1, j + 8)
        c, c2 = load(w, 0, j), load(w, 0, j + 8)
        s = fill(K, 0.0)
        s2 = s
        for k in range(rank + 1):
            store(M, 2 * k, 0, load(M, 2 * k, 0) + (c + c2))
            store(M, 2 * k + 1, 0, load(M, 2 * k + 1, 0) + (s + s2))
            c, s = _turn(c, s, x, y)
            c2, s2 = _turn(c2, s2, x2, y2)
    for k in range(rank + 1):
        out[k, 0] += total(load(M, 2 * k, 0))
        out[k, 1] += total(load(M, 2 * k + 1, 0))


@kernel
def coefficients(M: Any, scale: Any, rank: int, out: Any) -> None:
    """The four coefficients of cos(k a) and sin(k a) in Z and in dZ/dbeta, from ``scale`` (2, rank + 1)."""
    for k in range(rank + 1):
        out[k, 0], out[k, 1] = M[k, 0] * scale[0, k], M[k, 1] * scale[0, k]
        out[k, 2], out[k, 3] = M[k, 0] * scale[1, k], M[k, 1] * scale[1, k]


@kernel
def evaluate(Q: Any, first: int, last: int, rank: int, table: Any, beta: float, radial: bool, out: Any) -> None:
    """Z and the summed vector at the queries first to last, into the rows of out (4, n)."""
    for i in range(first, last, 8):
        x, y = load(Q, 0, i), load(Q, 1, i)
        c, s = fill(Q, 1.0), fill(Q, 0.0)
        z, slope, along = s, s, s
        for k in range(rank + 1):
            a, b = every(table, k, 0), every(table, k, 1)
            z = fma(a, c, fma(b, s, z))
            slope = fma(fill(Q, float(k)), b * c - a * s, slope)
            along = fma(every(table, k, 2), c, fma(every(table, k, 3), s, along))
            c, s = _turn(c, s, x, y)
        slope = slope * fill(Q, 1.0 / beta)
        if not radial:
            along = fill(Q, 0.0)
        store(out, 0, i, z)
        store(out, 1, i, along * x - slope * y)
        store(out, 2, i, fma(slope, x, along * y))


@kernel
def causal(
    Q: Any, K: Any, W: Any, scaled: Any, low: Any, high: Any, shift: Any, first: int, last: int, block: int,
    rank: int, scale: Any, beta: float, radial: bool, M: Any, out: Any,
) -> None:  # fmt: skip
    """Queries first to last, each over its predecessors; M holds the moments of all points before.

    Far predecessors come from the moments, the ones in the query's own block from the exact sum. ``scaled`` are the
    queries times beta log2(e), W = (w, w k) the sources.
    """
    table = np.zeros((rank + 1, 4))
    for begin in range(first, last, block):
        end = min(begin + block, last)
        coefficients(M, scale, rank, table)
        evaluate(Q, begin, end, rank, table, beta, radial, out)
        row_sums(scaled, K, W, low, high, shift, begin, min(end, len(low)), out, 8)
        moments(K, W, begin, end, rank, M)
