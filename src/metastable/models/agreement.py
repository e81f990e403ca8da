"""Small statistics that compare groupings and distributions."""

import numpy as np
from numpy.typing import ArrayLike


def adjusted_rand(a: ArrayLike, b: ArrayLike) -> float:
    """Adjusted Rand index of two labelings: 1 when they agree, about 0 when one tells nothing about the other.

    >>> adjusted_rand([0, 0, 1, 1], [5, 5, 2, 2]), round(adjusted_rand([0, 0, 1, 1], [0, 1, 0, 1]), 2)
    (1.0, -0.5)
    """
    _, first = np.unique(a, return_inverse=True)
    _, second = np.unique(b, return_inverse=True)
    table = np.zeros((first.max() + 1, second.max() + 1))
    np.add.at(table, (first, second), 1.0)
    both, rows, columns = _pairs(table).sum(), _pairs(table.sum(axis=1)).sum(), _pairs(table.sum(axis=0)).sum()
    expected = rows * columns / max(_pairs(table.sum()), 1.0)
    most = (rows + columns) / 2.0
    return 1.0 if most == expected else float((both - expected) / (most - expected))


def _pairs(count: np.ndarray) -> np.ndarray:
    return count * (count - 1.0) / 2.0


def silhouette(distance: np.ndarray, labels: np.ndarray) -> float:
    """Mean silhouette of a grouping from distances (m, m): 1 for tight and far groups; alone in a group counts 0.

    >>> far = np.array([[0.0, 0.1, 1.0], [0.1, 0.0, 1.0], [1.0, 1.0, 0.0]])
    >>> round(silhouette(far, np.array([0, 0, 1])), 3)
    0.6
    """
    return float(silhouettes(distance, labels[None])[0])


def silhouettes(distance: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Mean silhouettes (k,) of groupings (k, m) of the same items, 0 for one with a single group."""
    groups, at = np.unique(labels, return_inverse=True)
    own = at.reshape(labels.shape)[..., None]  # (k, m, 1)
    member = own == np.arange(len(groups))  # (k, m, groups)
    sizes = member.sum(axis=1, keepdims=True)  # (k, 1, groups)
    total = distance @ member.astype(distance.dtype)  # (k, m, groups): distance of each item to each group
    size = np.take_along_axis(np.broadcast_to(sizes, total.shape), own, axis=2)[..., 0]  # (k, m)
    inside = np.take_along_axis(total, own, axis=2)[..., 0] / np.maximum(size - 1, 1)
    mean = np.where((sizes > 0) & ~member, total / np.maximum(sizes, 1), np.inf)
    outside = mean.min(axis=2)
    with np.errstate(invalid="ignore"):  # a single group has nothing outside
        score = (outside - inside) / np.maximum(np.maximum(outside, inside), 1e-300)
    counted = (size > 1) & np.isfinite(outside)
    return np.asarray(np.where(counted, score, 0.0).mean(axis=1))


def wasserstein(a: np.ndarray, b: np.ndarray) -> float:
    """Wasserstein-1 distance of two samples on the line, of any sizes.

    >>> wasserstein(np.array([0.0, 1.0]), np.array([0.5]))
    0.5
    """
    a, b = np.sort(np.ravel(a)), np.sort(np.ravel(b))
    if a.size == b.size:
        return float(np.abs(a - b).mean())
    points = np.sort(np.concatenate([a, b]))
    F = np.searchsorted(a, points[:-1], side="right") / a.size
    G = np.searchsorted(b, points[:-1], side="right") / b.size
    return float((np.abs(F - G) * np.diff(points)).sum())
