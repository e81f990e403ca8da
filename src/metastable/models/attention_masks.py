"""The mask behind attention maps that come without one."""

import numpy as np


def mask_of(seen: np.ndarray) -> str:
    """The mask behind which tokens j are seen by which tokens i, (n, n) boolean, as far as n tokens show it.

    Examples
    --------
    >>> mask_of(np.tri(5, dtype=bool)), mask_of(np.tri(5, k=1, dtype=bool) & np.tri(5, k=1, dtype=bool).T)
    ('causal', 'window(1)')
    """
    n = len(seen)
    i, j = np.nonzero(seen)
    back, ahead = int((i - j).max(initial=0)), int((j - i).max(initial=0))
    if ahead == 0 and n > 1:
        return "causal" if back == n - 1 else f"window({back}, causal)"
    return f"window({back})" if back == ahead < n - 1 else "full"
