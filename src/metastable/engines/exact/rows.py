"""Exact sums for at most three coordinates, with everything in registers.

With y_ij = <q_i, k_j> - shift in powers of two (beta * log2(e) is in the queries) a kernel returns, per query i,

    out[0, i] = sum_j 2^{y_ij} w_j,     out[c, i] = sum_j 2^{y_ij} w_j v_jc   (c = 1, 2, 3)

Coordinates are rows: Q (3, m), K (3, n), sources S (4, n) = (w, w v), zero beyond the last token. Columns are taken in
blocks that stay in the first cache; their partial sums are added up at the end, which also keeps rounding small.
"""

from typing import Any

import numpy as np

from metastable.engines.simd.exponential import exp2
from metastable.engines.simd.loads import every, load, skew, store
from metastable.engines.simd.vectors import fill, fma, inlined, kernel, total, within

BLOCK = 1024  # columns at a time: 7 rows of 8 kB
TILE = 384  # side of a tile of the symmetric sum: 11 rows of 3 kB


@inlined
def span(low: Any, high: Any, first: int, last: int) -> tuple[int, int]:
    """The least low and the highest high of the rows first to last."""
    begin, end = low[first], high[first]
    for i in range(first + 1, last):
        begin, end = min(begin, low[i]), max(end, high[i])
    return begin, end


@inlined
def _weight(Q: Any, i: int, shift: float, K: Any, j: int) -> Any:
    """2^{<q_i, k_j> - shift} for the lanes j."""
    y = fma(every(Q, 2, i), load(K, 2, j), fill(K, -shift))
    y = fma(every(Q, 1, i), load(K, 1, j), y)
    return exp2(fma(every(Q, 0, i), load(K, 0, j), y))


@kernel
def row_sums(
    Q: Any, K: Any, S: Any, low: Any, high: Any, shift: Any, first: int, last: int, out: Any, width: int
) -> None:
    """Queries first to last over the columns low[i] <= j < high[i]; ``out`` (4, m) starts at 0."""
    begin, end = span(low, high, first, last)
    for block in range(begin // width * width, end, BLOCK):
        for i in range(first, last):
            left, right = max(low[i], block), min(high[i], block + BLOCK)
            z = fill(K, 0.0)
            a, b, c = z, z, z
            for j in range(left // width * width, right, width):
                e = _weight(Q, i, shift[i], K, j)
                if j < left or j + width > right:
                    e = within(e, j, left, right, 0.0)
                z = fma(e, load(S, 0, j), z)
                a = fma(e, load(S, 1, j), a)
                b = fma(e, load(S, 2, j), b)
                c = fma(e, load(S, 3, j), c)
            out[0, i] += total(z)
            out[1, i] += total(a)
            out[2, i] += total(b)
            out[3, i] += total(c)


@inlined
def _tile_pair(
    Q: Any, K: Any, S: Any, shift: float, i0: int, j0: int, size: int, local: Any, out: Any, width: int
) -> None:
    """A tile above the diagonal: each weight serves row i (registers) and, by symmetry, row j (``local``)."""
    at = skew(local)
    for s in range(4):
        for r in range(0, size, width):
            store(local, s, at + r, fill(K, 0.0))
    for i in range(i0, i0 + TILE, 2):
        z = fill(K, 0.0)
        a, b, c = z, z, z
        z2, a2, b2, c2 = z, z, z, z
        for r in range(0, size, width):
            j = j0 + r
            e, f = _weight(Q, i, shift, K, j), _weight(Q, i + 1, shift, K, j)
            w, x, y, t = load(S, 0, j), load(S, 1, j), load(S, 2, j), load(S, 3, j)
            z, a, b, c = fma(e, w, z), fma(e, x, a), fma(e, y, b), fma(e, t, c)
            z2, a2, b2, c2 = fma(f, w, z2), fma(f, x, a2), fma(f, y, b2), fma(f, t, c2)
            for s in range(4):
                back = fma(f, every(S, s, i + 1), fma(e, every(S, s, i), load(local, s, at + r)))
                store(local, s, at + r, back)
        out[0, i] += total(z)
        out[1, i] += total(a)
        out[2, i] += total(b)
        out[3, i] += total(c)
        out[0, i + 1] += total(z2)
        out[1, i + 1] += total(a2)
        out[2, i + 1] += total(b2)
        out[3, i + 1] += total(c2)
    for s in range(4):
        for r in range(0, size, width):
            store(out, s, j0 + r, load(out, s, j0 + r) + load(local, s, at + r))


@kernel
def symmetric_sums(Q: Any, K: Any, S: Any, shift: float, part: int, parts: int, out: Any, width: int) -> None:
    """All pairs when <q_i, k_j> = <q_j, k_i>, each weight computed once.

    Rows of tiles are dealt out so that all parts have the same work; each part adds into its own ``out`` (4, n), and
    the caller adds the parts in order, so the result does not depend on the number of threads.
    """
    n = K.shape[1]
    tiles = -(-n // TILE)
    local = np.zeros((4, TILE + 8))
    for row in range(tiles):
        if min(row, tiles - 1 - row) % parts != part:
            continue
        i0 = row * TILE
        for j0 in range(i0 + TILE, n, TILE):
            _tile_pair(Q, K, S, shift, i0, j0, min(TILE, n - j0), local, out, width)
        for i in range(i0, min(i0 + TILE, n)):
            z = fill(K, 0.0)
            a, b, c = z, z, z
            for j in range(i0, min(i0 + TILE, n), width):
                e = _weight(Q, i, shift, K, j)
                z, a = fma(e, load(S, 0, j), z), fma(e, load(S, 1, j), a)
                b, c = fma(e, load(S, 2, j), b), fma(e, load(S, 3, j), c)
            out[0, i] += total(z)
            out[1, i] += total(a)
            out[2, i] += total(b)
            out[3, i] += total(c)
