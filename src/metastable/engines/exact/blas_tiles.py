"""The sums of `tiles` with both products of a tile made by BLAS and only the exponentials by our own vectors.

Which is quicker depends on the processor, on how BLAS was built for it and on d; `calibrate` measures both. A tile is
small enough for OpenBLAS to keep it on the calling thread, which is one of ours.
"""

from typing import Any

import numpy as np

from metastable.engines.exact.rows import span
from metastable.engines.exact.tiles import exponentials, hide, raise_top, row_top
from metastable.engines.simd import packing as pack
from metastable.engines.simd.vectors import WIDTH, kernel

ROWS, COLUMNS = 64, 128
_ONE_THREAD = 2**18  # multiplications up to which OpenBLAS does not share a product between its threads


def rows_of(depth: int) -> int:
    """Rows of a tile whose products, ``depth`` deep or wide, BLAS keeps on one thread."""
    return max(8, min(ROWS, _ONE_THREAD // (COLUMNS * depth) // 8 * 8))


def padded(points: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Keys or values (n, d) with n rounded up to whole vectors."""
    return pack.upright(points, WIDTH[dtype], dtype)


@kernel
def blas_tile_sums(
    Q: Any, K: Any, V: Any, w: Any, low: Any, high: Any, first: int, last: int, tall: int, T: Any, out: Any, z: Any,
    m: Any, width: int,
) -> None:  # fmt: skip
    """As `tiles.tile_sums`, with keys K (n, d) and values V (n, v) as they are, n padded to whole vectors.

    ``tall`` is the number of rows of a tile and T (tall COLUMNS + tall v) room for its scores and sums.
    """
    v = V.shape[1]
    for i0 in range(first, last, tall):
        end = min(i0 + tall, last)
        rows = end - i0
        made = T[tall * COLUMNS : tall * COLUMNS + rows * v].reshape(rows, v)
        begin, stop = span(low, high, i0, end)
        for j0 in range(begin // COLUMNS * COLUMNS, stop, COLUMNS):
            columns = min(COLUMNS, -(-(stop - j0) // width) * width)
            S = T[: rows * columns].reshape(rows, columns)
            np.dot(Q[i0:end], K[j0 : j0 + columns].T, S)
            hide(S, i0, j0, columns, low, high, end, width)
            for i in range(i0, end):
                raise_top(np.ceil(row_top(S, i - i0, columns, width)), i, out, z, m)
                z[i] += exponentials(S, i - i0, columns, max(m[i], -1e30), w, j0, width)
            np.dot(S, V[j0 : j0 + columns], made)
            for i in range(i0, end):
                for c in range(v):
                    out[i, c] += made[i - i0, c]
