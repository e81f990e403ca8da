"""Exact sums under masks by name."""

import numpy as np

from metastable.engines.exact.sums import exact as summed


def reach(mask, n):
    """(low, high) of a mask: row i sees the columns low[i] <= j < high[i]."""
    i = np.arange(n)
    if mask.startswith("window"):
        width = int(mask[len("window(") : -1].split(",")[0])
        return np.maximum(i - width, 0), i + 1 if "causal" in mask else np.minimum(i + width + 1, n)
    return np.zeros(n, int), i + 1 if mask == "causal" else np.full(n, n)


def exact(*arrays, mask="full", normalise="softmax", **options):
    """The sum under a named mask."""
    low, high = (None, None) if mask == "full" else reach(mask, len(arrays[0]))
    return summed(*arrays, kind=normalise, low=low, high=high, **options)
