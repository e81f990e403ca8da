"""Reference sums in extended precision, and token clouds that are hard in different ways."""

import numpy as np
import pytest

from metastable.engines.exact.sums import visible_weight


def reach(mask, n):
    """(low, high) of a mask: row i sees the columns low[i] <= j < high[i]."""
    i = np.arange(n)
    if mask.startswith("window"):
        width = int(mask[len("window(") : -1].split(",")[0])
        return np.maximum(i - width, 0), i + 1 if "causal" in mask else np.minimum(i + width + 1, n)
    return np.zeros(n, int), i + 1 if mask == "causal" else np.full(n, n)


def dense(q, k, v, beta, normalise="softmax", mask="full", weights=None):
    """(value, log_z) from the whole matrix, in long doubles."""
    q, k, v = (np.asarray(a, np.longdouble) for a in (q, k, v))
    w = np.ones(len(k)) if weights is None else weights
    low, high = (np.zeros(len(q), int), np.full(len(q), len(k))) if mask == "full" else reach(mask, len(k))
    seen = (np.arange(len(k)) >= low[:, None]) & (np.arange(len(k)) < high[:, None])
    s = np.where(seen, np.longdouble(beta) * (q @ k.T), -np.inf)
    top = s.max(axis=1, keepdims=True)
    if normalise == "hardmax":
        largest = np.abs(np.where(seen, s, 0)).max(axis=1, keepdims=True)
        e = (s >= top - 16 * np.finfo(float).eps * largest) * w
        return e @ v / e.sum(axis=1, keepdims=True), np.log(e.sum(axis=1))
    e = np.exp(s - top) * w
    z = e.sum(axis=1)
    log_z = np.log(z) + top[:, 0]
    if normalise == "softmax":
        return e @ v / z[:, None], log_z
    return e @ v * np.exp(top) / visible_weight(w, low, high)[:, None], log_z


def cloud(kind, n, d, seed=0):
    """Unit tokens: "spread" evenly, "clustered" in four tight groups, or all together but for one "lone" opposite."""
    rng = np.random.default_rng(seed)
    if kind == "spread":
        x = rng.normal(size=(n, d))
    elif kind == "clustered":
        centres = rng.normal(size=(4, d))
        x = centres[rng.integers(0, 4, n)] / np.linalg.norm(centres, axis=1).min() + 1e-3 * rng.normal(size=(n, d))
    else:
        x = np.eye(d)[-1] + 1e-2 * rng.normal(size=(n, d))
        x[n // 3] = -np.eye(d)[-1]
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.fixture
def rng():
    return np.random.default_rng(7)
