"""Counting pairs of many small clouds, without their Gram matrices."""

from typing import Any

import numpy as np

from metastable.engines.simd.loads import every, load
from metastable.engines.simd.threads import pieces, share
from metastable.engines.simd.vectors import fill, fma, kernel, reaches, total, within

_WIDTH = 8


def count_above(x: np.ndarray, limit: float) -> np.ndarray:
    """The number of pairs i < j of each cloud x (b, n, d) with <x_i, x_j> > limit, (b,).

    >>> count_above(np.array([[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]]), 0.5).tolist()
    [1]
    """
    b, n, d = x.shape
    upright = np.zeros((b, d, -(-n // _WIDTH) * _WIDTH))  # neighbours in memory are tokens
    upright[:, :, :n] = np.swapaxes(x, -1, -2)
    rows = upright.reshape(b * d, -1)
    found = np.zeros(b)
    parts = pieces(b, 64)
    share(lambda k: _count(rows, d, n, float(limit), *parts[k], found), len(parts))
    return found.astype(np.int64)


@kernel
def _count(x: Any, d: int, n: int, limit: float, first: int, last: int, found: Any) -> None:
    """Counts of the clouds first to last; coordinate c of cloud b is row b d + c."""
    bound = fill(x, limit)
    for b in range(first, last):
        within_limit = fill(x, 0.0)
        for i in range(n - 1):
            for j in range((i + 1) // 8 * 8, n, 8):
                s = fill(x, 0.0)
                for c in range(d):
                    s = fma(every(x, b * d + c, i), load(x, b * d + c, j), s)
                within_limit = within_limit + within(reaches(bound, s), j, i + 1, n, 0.0)
        found[b] = n * (n - 1) // 2 - total(within_limit)
