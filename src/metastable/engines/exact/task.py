"""What an exact sum is given and returns, and the checks that its arrays fit."""

from typing import NamedTuple

import numpy as np

from metastable.errors import InputError


class Sums(NamedTuple):
    """What attention gathers: ``value`` (n, v) and ``log_z`` (n,), the logarithm of each row's sum of weights."""

    value: np.ndarray
    log_z: np.ndarray


class Task(NamedTuple):
    """One exact sum, with beta * log2(e) in the queries and the visible columns low[i] <= j < high[i]."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    weights: np.ndarray | None
    low: np.ndarray
    high: np.ndarray
    dtype: np.dtype


def visible(low: np.ndarray | None, high: np.ndarray | None, queries: int, keys: int) -> tuple[np.ndarray, np.ndarray]:
    """Intervals of columns as int64 arrays, or a sentence."""
    low = np.zeros(queries, np.int64) if low is None else np.ascontiguousarray(low, np.int64)
    high = np.full(queries, keys, np.int64) if high is None else np.ascontiguousarray(high, np.int64)
    if low.shape != (queries,) or high.shape != (queries,):
        raise InputError(f"low and high must be {queries} whole numbers, one per query, not {low.shape}, {high.shape}.")
    if not ((low >= 0) & (low < high) & (high <= keys)).all():
        raise InputError(f"Every query must see at least one of the keys: 0 <= low < high <= {keys}.")
    return low, high


def visible_weight(weights: np.ndarray | None, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The weight (the number of tokens) that each row sees."""
    if weights is None:
        return np.asarray((high - low).astype(np.float64))
    before = np.concatenate([[0.0], np.cumsum(weights, dtype=np.float64)])
    return np.asarray(before[high] - before[low])


def checked(
    q: np.ndarray, k: np.ndarray, v: np.ndarray | None, weights: np.ndarray | None, square: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """The arrays as floats of shapes that fit, or a sentence."""
    same = k is q
    q = _floats(q)
    k = q if same else _floats(k)
    v = k if v is None else _floats(v)
    flat = q.ndim == k.ndim == v.ndim == 2 and 0 not in (*q.shape, *k.shape, *v.shape)
    if not flat or q.shape[1] != k.shape[1] or len(v) != len(k) or (square and len(q) != len(k)):
        raise InputError(
            f"Queries and keys must be (m, d) and (n, d), values (n, v), not {q.shape}, {k.shape} and {v.shape}."
        )
    if weights is not None:
        weights = np.asarray(weights, np.float64)
        if weights.shape != (len(k),) or not (weights >= 0).all() or not weights.any():
            raise InputError(f"Weights must be {len(k)} numbers >= 0, not all of them 0.")
    return q, k, v, weights


def _floats(a: np.ndarray) -> np.ndarray:
    a = np.asarray(a)
    return a if a.dtype == np.float32 else a.astype(np.float64, copy=False)
