"""Exact sums for any number of coordinates, tile by tile.

A tile holds the scores y_ij = <q_i, k_j> (in powers of two) of ROWS queries and COLUMNS keys. Softmax is taken online:
m_i is the largest score met so far, rounded up to a whole number, and what was summed before is rescaled by the exact
power 2^{m_old - m_new} when it grows. Nothing overflows, whatever the scores.
"""

from typing import Any

import numpy as np

from metastable.engines.exact.rows import span
from metastable.engines.simd.exponential import exp2
from metastable.engines.simd.loads import load, store
from metastable.engines.simd.products import HEIGHT, VECTORS, multiply, multiply_add
from metastable.engines.simd.vectors import fill, inlined, kernel, larger, magnitude, reaches, top, total, within

ROWS, COLUMNS = 64, 128


@inlined
def _scores(Q: Any, i0: int, K: Any, j0: int, columns: int, T: Any, low: Any, high: Any, last: int, width: int) -> None:
    """T = scores of queries i0 to i0 + ROWS and keys j0 to j0 + columns, -inf where a query does not see a key."""
    d, panel = Q.shape[1], VECTORS * width
    for c in range(0, columns, panel):
        for r in range(0, ROWS, HEIGHT):
            multiply(Q, i0 + r, d, K, (j0 + c) // panel * d, T, r, c)
    hide(T, i0, j0, columns, low, high, last, width)


@inlined
def hide(T: Any, i0: int, j0: int, columns: int, low: Any, high: Any, last: int, width: int) -> None:
    """-inf for the scores of keys that a query does not see."""
    for i in range(i0, last):
        if low[i] > j0 or high[i] < j0 + columns:
            for c in range(0, columns, width):
                store(T, i - i0, c, within(load(T, i - i0, c), j0 + c, low[i], high[i], -np.inf))


@inlined
def row_top(T: Any, r: int, columns: int, width: int) -> Any:
    most = fill(T, -np.inf)
    for c in range(0, columns, width):
        most = larger(most, load(T, r, c))
    return top(most)


@inlined
def exponentials(T: Any, r: int, columns: int, m: float, w: Any, j0: int, width: int) -> Any:
    """Row r of T becomes w_j 2^{T - m}; returns its sum."""
    z = fill(T, 0.0)
    for c in range(0, columns, width):
        e = exp2(load(T, r, c) - fill(T, m)) * load(w, 0, j0 + c)
        store(T, r, c, e)
        z = z + e
    return total(z)


@inlined
def _gather(T: Any, columns: int, V: Any, n: int, j0: int, i0: int, out: Any, width: int) -> None:
    """out += T V for the rows and columns of a tile."""
    panel = VECTORS * width
    for c in range(0, out.shape[1], panel):
        for r in range(0, ROWS, HEIGHT):
            multiply_add(T, r, columns, V, c // panel * n + j0, out, i0 + r, c)


@inlined
def raise_top(most: float, i: int, out: Any, z: Any, m: Any) -> None:
    """Make m_i at least ``most``, and rescale what was summed under the old m_i."""
    if most > m[i]:
        shrink = 2.0 ** (m[i] - most)
        for c in range(out.shape[1]):
            out[i, c] *= shrink
        z[i] *= shrink
        m[i] = most


@kernel
def tile_sums(
    Q: Any, K: Any, V: Any, w: Any, low: Any, high: Any, first: int, last: int, T: Any, out: Any, z: Any, m: Any,
    width: int,
) -> None:  # fmt: skip
    """Softmax sums of the queries first to last (first a multiple of ROWS).

    Q (m, d) and w (1, n) are padded with zeros, K (d, n) and V (n, v) come as panels (`pack`); T
    (ROWS, COLUMNS) is room to work in. Fills in
    z = sum_j w_j 2^{y_ij - m_i}, m and out (m, v) = sum_j w_j 2^{y_ij - m_i} v_j, which start at 0, -inf and 0.
    """
    n, panel = w.shape[1], VECTORS * width
    for i0 in range(first, last, ROWS):
        end = min(i0 + ROWS, last)
        begin, stop = span(low, high, i0, end)
        for j0 in range(begin // COLUMNS * COLUMNS, stop, COLUMNS):
            columns = min(COLUMNS, -(-(stop - j0) // panel) * panel)
            _scores(Q, i0, K, j0, columns, T, low, high, end, width)
            for i in range(i0, end):
                raise_top(np.ceil(row_top(T, i - i0, columns, width)), i, out, z, m)
                # a row without a visible key so far has only -inf here, which any finite shift turns into 0
                z[i] += exponentials(T, i - i0, columns, max(m[i], -1e30), w, j0, width)
            _gather(T, columns, V, n, j0, i0, out, width)


@kernel
def hard_sums(
    Q: Any, K: Any, V: Any, w: Any, low: Any, high: Any, first: int, last: int, T: Any, out: Any, z: Any, m: Any,
    width: int,
) -> None:  # fmt: skip
    """As `tile_sums`, with weight w_j on the highest scores and 0 elsewhere; m is left as each row's highest score.

    Scores within 16 roundings of the largest magnitude count as tied, as in `metastable.equation.normalise.hardmax`.
    """
    n, panel = w.shape[1], VECTORS * width
    size = np.zeros(ROWS)
    for i0 in range(first, last, ROWS):
        end = min(i0 + ROWS, last)
        begin, stop = span(low, high, i0, end)
        begin = begin // COLUMNS * COLUMNS
        for r in range(ROWS):
            size[r] = 0.0
        for j0 in range(begin, stop, COLUMNS):
            columns = min(COLUMNS, -(-(stop - j0) // panel) * panel)
            _scores(Q, i0, K, j0, columns, T, low, high, end, width)
            for i in range(i0, end):
                m[i] = max(m[i], row_top(T, i - i0, columns, width))
                for c in range(0, columns, width):
                    seen = within(load(T, i - i0, c), j0 + c, low[i], high[i], 0.0)
                    size[i - i0] = max(size[i - i0], top(magnitude(seen)))
        for j0 in range(begin, stop, COLUMNS):
            columns = min(COLUMNS, -(-(stop - j0) // panel) * panel)
            _scores(Q, i0, K, j0, columns, T, low, high, end, width)
            for i in range(i0, end):
                bar = fill(T, m[i] - 16.0 * np.finfo(Q.dtype).eps * size[i - i0])
                for c in range(0, columns, width):
                    won = reaches(load(T, i - i0, c), bar) * load(w, 0, j0 + c)
                    store(T, i - i0, c, won)
                    z[i] += total(won)
            _gather(T, columns, V, n, j0, i0, out, width)
