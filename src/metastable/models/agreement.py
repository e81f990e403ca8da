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
    groups = np.unique(labels)
    if len(groups) < 2:
        return 0.0
    member = labels[None, :] == groups[:, None]  # (groups, m)
    sizes = member.sum(axis=1)
    total = distance @ member.T  # (m, groups): distance of each item to each group
    own = np.searchsorted(groups, labels)
    items = np.arange(len(labels))
    inside = total[items, own] / np.maximum(sizes[own] - 1, 1)
    mean = total / sizes
    mean[items, own] = np.inf
    outside = mean.min(axis=1)
    score = (outside - inside) / np.maximum(np.maximum(outside, inside), 1e-300)
    return float(np.where(sizes[own] > 1, score, 0.0).mean())


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
