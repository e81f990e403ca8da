"""How far a run and its copy are apart, in one pass over their numbers."""

from typing import Any

import numpy as np

from metastable.engines.simd.threads import share
from metastable.engines.simd.vectors import kernel


@kernel
def _gaps(run: Any, copy: Any, along: bool, out: Any) -> None:
    """out[k] = the largest |run - copy| at stop k, relative to the largest number, or to that of each direction."""
    m, n, d = run.shape
    size, gap = np.empty(d), np.empty(d)
    for k in range(m):
        for c in range(d):
            size[c], gap[c] = 0.0, 0.0
        for i in range(n):
            for c in range(d):
                one = run[k, i, c]
                apart = abs(one - copy[k, i, c])
                size[c] = max(size[c], abs(one))
                gap[c] = max(gap[c], apart) if apart < np.inf else np.inf
        largest = 0.0
        for c in range(d):
            largest = max(largest, size[c])
        out[k] = 0.0
        for c in range(d):
            scale = size[c] if along else largest
            apart = gap[c] / scale if scale > 0.0 else gap[c]
            out[k] = max(out[k], apart) if apart < np.inf else np.inf


def largest_gaps(run: np.ndarray, copy: np.ndarray, along: bool) -> np.ndarray:
    """The largest relative difference of tokens (m, B, n, d) at every stop, (m, B); inf where one is not finite.

    Relative to the largest number of a run at that stop, or with ``along`` to the largest in the same direction.

    >>> largest_gaps(np.ones((1, 1, 2, 3)), np.full((1, 1, 2, 3), 1.5), along=True).tolist()
    [[0.5]]
    """
    m, runs = run.shape[:2]
    out = np.empty((runs, m))

    def one(b: int) -> None:
        pair = (np.ascontiguousarray(a[:, b], np.float64) for a in (run, copy))
        _gaps(*pair, along, out[b])

    share(one, runs)
    return out.T
