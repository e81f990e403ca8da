"""One compiled pass over all pairs of tokens, and one over all entries of an attention map.

They hold no copy of what they read. Sums are accumulated in float64; numpy's BLAS is not used, because its threads and
those of torch, which runs the network in the same process, slow each other down (measured: the network took four times
as long between two matrix products of numpy's).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from metastable.engines.simd.vectors import kept

# sums may be taken in any order, which lets them run in vectors; nan and inf stay what they are
_FAST = {"reassoc", "contract", "nsz"}


def _compiled(function: Callable[..., Any]) -> Any:
    return kept(nogil=True, error_model="numpy", fastmath=_FAST)(function)


class Pairs(NamedTuple):
    """Counts over the pairs i < j of one text; of clusters, tokens linked by chains of cosines above a threshold.

    ``above``, ``same`` (pairs above that are one token met twice) and the four about clusters are per threshold:
    how many there are, how many hold two different tokens, the tokens in those, and the tokens of the largest.
    """

    histogram: np.ndarray  # (bins,)
    total: float
    same_pairs: int
    above: np.ndarray
    same: np.ndarray
    clusters: np.ndarray
    mixed: np.ndarray
    in_mixed: np.ndarray
    largest: np.ndarray


def count_pairs(cosine: np.ndarray, ids: np.ndarray, thresholds: tuple[float, ...], bins: int) -> Pairs:
    """All of `Pairs` from the cosines (m, m), of which the part below the diagonal is read, and token ids (m,).

    >>> close = np.array([[1.0, 0.0, 0.0], [0.95, 1.0, 0.0], [0.1, 0.95, 1.0]])
    >>> found = count_pairs(close, np.array([7, 7, 8]), (0.9, 0.99), 4)
    >>> found.histogram.tolist(), found.clusters.tolist(), found.mixed.tolist(), found.largest.tolist()
    ([0, 0, 1, 2], [1, 3], [1, 0], [3, 1])
    """
    cuts = len(thresholds)
    histogram = np.zeros(bins, dtype=np.int64)
    table = np.zeros((6, cuts), dtype=np.int64)
    total, same = _count(cosine, ids, np.asarray(thresholds, dtype=np.float64), histogram, table)
    return Pairs(histogram, float(total), int(same), *table)


@_compiled
def _count(cosine, ids, thresholds, histogram, table):  # type: ignore[no-untyped-def]
    m, bins, cuts = len(ids), len(histogram), len(thresholds)
    half, lowest = 0.5 * bins, thresholds.min()
    parent = np.empty((cuts, m), dtype=np.int64)
    for c in range(cuts):
        parent[c] = np.arange(m)
    total, same_pairs = 0.0, 0
    for i in range(m):
        for j in range(i):
            value = np.float64(min(max(cosine[i, j], -1.0), 1.0))
            total += value
            histogram[min(int((value + 1.0) * half), bins - 1)] += 1
            same = ids[i] == ids[j]
            same_pairs += same
            if value > lowest:
                for c in range(cuts):
                    if value > thresholds[c]:
                        table[0, c] += 1
                        table[1, c] += same
                        _join(parent[c], i, j)
    for c in range(cuts):
        _describe(parent[c], ids, table[2:, c])
    return total, same_pairs


@_compiled
def _root(parent, i):  # type: ignore[no-untyped-def]
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@_compiled
def _join(parent, i, j):  # type: ignore[no-untyped-def]
    a, b = _root(parent, i), _root(parent, j)
    parent[max(a, b)] = min(a, b)


@_compiled
def _describe(parent, ids, out):  # type: ignore[no-untyped-def]
    """Clusters, clusters of two different tokens, tokens in those, and tokens of the largest cluster."""
    m = len(ids)
    size, mixed = np.zeros(m, dtype=np.int64), np.zeros(m, dtype=np.bool_)
    for i in range(m):
        root = _root(parent, i)
        size[root] += 1
        mixed[root] |= ids[i] != ids[root]
    for i in range(m):
        out[0] += size[i] > 0
        out[1] += mixed[i]
        out[2] += size[i] if mixed[i] else 0
        out[3] = max(out[3], size[i])


class Moments(NamedTuple):
    """Co-moments of heads over the entries of one map, and what they would be if every row were shuffled.

    ``moment`` (h, h) is sum_ij (A_a,ij - mean_a)(A_b,ij - mean_b) over visible entries. Shuffled rows, each head's on
    its own, leave of it, in the mean, what the rows' means contribute, ``between``; its variance is ``noise``.
    """

    entries: int
    mean: np.ndarray  # (h,)
    moment: np.ndarray
    between: np.ndarray
    noise: np.ndarray


def map_moments(A: np.ndarray, seen: np.ndarray) -> Moments:
    """The moments of the maps A (h, n, n) over the entries that are ``seen`` (n, n).

    With m_i visible entries in row i and W the entries minus their row's mean, moment = sum_i W_i W_i^T + between. A
    random permutation of a row has mean product 0 and variance |W_a,i|^2 |W_b,i|^2 / (m_i - 1).

    >>> A = np.array([[[0.9, 0.1], [0.3, 0.7]], [[0.6, 0.4], [0.4, 0.6]]])
    >>> found = map_moments(A, np.ones((2, 2), dtype=bool))
    >>> np.allclose(found.moment, 4 * np.cov(A.reshape(2, -1), bias=True)), found.entries
    (True, 4)
    """
    heads = len(A)
    mean, tables = np.zeros(heads), np.zeros((3, heads, heads))
    entries = _moments(np.ascontiguousarray(A), seen, mean, tables[0], tables[1], tables[2])
    lower, between, noise = tables
    within = np.tril(lower) + np.tril(lower, -1).T
    return Moments(int(entries), mean, within + between, between, noise)


@_compiled
def _moments(A, seen, mean, within, between, noise):  # type: ignore[no-untyped-def]
    heads, n = A.shape[0], A.shape[1]
    row, columns = np.empty((heads, n), dtype=A.dtype), np.empty(n, dtype=np.int64)
    gap, square = np.empty(heads), np.empty(heads)
    entries = 0
    for i in range(n):
        m = 0
        for j in range(n):
            if seen[i, j]:
                columns[m] = j
                m += 1
        if m == 0:
            continue
        first = columns[0]
        in_one = columns[m - 1] - first == m - 1  # without a gap, as under every mask that has a name
        for a in range(heads):
            if in_one:
                centre = _centred(A[a, i, first : first + m], row[a])
            else:
                centre = _centred_at(A[a, i], columns[:m], row[a])
            square[a] = _dot(row[a], row[a], m)
            gap[a] = centre - mean[a]
            mean[a] += gap[a] * m / (entries + m)
        share = entries * m / (entries + m)
        for a in range(heads):
            within[a, a] += square[a]
            for b in range(a):
                within[a, b] += _dot(row[a], row[b], m)
            for b in range(heads):
                between[a, b] += gap[a] * gap[b] * share
                if m > 1:
                    noise[a, b] += square[a] * square[b] / (m - 1)
        entries += m
    return entries


@_compiled
def _centred(values, out):  # type: ignore[no-untyped-def]
    """Copy entries minus their mean, which is returned."""
    m = len(values)
    total = 0.0
    for k in range(m):
        total += values[k]
    centre = total / m
    for k in range(m):
        out[k] = values[k] - centre
    return centre


@_compiled
def _centred_at(values, columns, out):  # type: ignore[no-untyped-def]
    """Copy the entries at some columns minus their mean, which is returned."""
    m = len(columns)
    total = 0.0
    for k in range(m):
        out[k] = values[columns[k]]
        total += out[k]
    centre = total / m
    for k in range(m):
        out[k] -= centre
    return centre


@_compiled
def _dot(a, b, m):  # type: ignore[no-untyped-def]
    total = a.dtype.type(0.0)
    for k in range(m):
        total += a[k] * b[k]
    return np.float64(total)


def received(A: np.ndarray) -> np.ndarray:
    """The attention that each token receives from all, (h, n): sum_i A_h,ij.

    >>> received(np.array([[[1.0, 0.0], [0.25, 0.75]]])).tolist()
    [[1.25, 0.75]]
    """
    out = np.zeros((A.shape[0], A.shape[2]))
    _received(np.ascontiguousarray(A), out)
    return out


@_compiled
def _received(A, out):  # type: ignore[no-untyped-def]
    for h in range(A.shape[0]):
        for i in range(A.shape[1]):
            for j in range(A.shape[2]):
                out[h, j] += A[h, i, j]


@_compiled
def after_merges(merges):  # type: ignore[no-untyped-def]
    """Labels (m, m) of m items after 0, 1, ..., m - 1 merges (m - 1, 2); merge k makes the group m + k.

    >>> after_merges(np.array([[0, 2], [1, 3]])).tolist()
    [[0, 1, 2], [3, 1, 3], [4, 4, 4]]
    """
    m = len(merges) + 1
    labels = np.empty((m, m), dtype=np.int64)
    labels[0] = np.arange(m)
    for k in range(m - 1):
        for i in range(m):
            now = labels[k, i]
            labels[k + 1, i] = m + k if now == merges[k, 0] or now == merges[k, 1] else now
    return labels
