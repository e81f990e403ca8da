"""Clusters: single linkage at a tolerance, an angle on the sphere or a distance in R^d.

Two tokens are linked when they are at most ``tolerance`` apart, and a cluster is everything that a chain of
links connects. So six tokens in a chain are one cluster, which a count by the rank of a thresholded Gram
matrix gets wrong.
"""

import numpy as np
from numpy.typing import ArrayLike

from metastable.errors import InputError
from metastable.observables import arrays, linkage
from metastable.observables.arrays import Floats, Ints

TOLERANCE = 1e-2  # radians on the sphere, the tokens' own unit in R^d


def cluster_labels(x: ArrayLike, tolerance: float = TOLERANCE, geometry: str = "sphere") -> Ints:
    """The cluster of every token, numbered 0, 1, ... in the order of each cluster's first token.

    Parameters
    ----------
    x : array (..., n, d)
        Tokens; leading axes (times, runs) are treated one by one.
    tolerance : float
        Largest angle (radians) or distance of a link, ends included. The default, 0.01, is far below the
        spacing of metastable clusters (order 1 / sqrt(beta)) and far above the width of a cluster that has
        formed, which shrinks like e^{-t}.
    geometry : {"sphere", "euclidean", "rescaled"}
        "sphere" compares angles (tokens of any length but 0), the others distances.

    Returns
    -------
    integer array (..., n)

    Examples
    --------
    >>> angles = np.array([0.0, 3.0, 0.005, 0.012])
    >>> cluster_labels(np.stack([np.cos(angles), np.sin(angles)], axis=-1)).tolist()
    [0, 1, 0, 0]
    """
    x = arrays.tokens(x)
    points, radius = arrays.metric(x, tolerance, geometry)
    flat = linkage.components(points.reshape(-1, *x.shape[-2:]), radius)
    return flat.reshape(x.shape[:-1])


def cluster_count(x: ArrayLike, tolerance: float = TOLERANCE, geometry: str = "sphere") -> Ints:
    """The number of clusters, (...): see `cluster_labels`.

    >>> int(cluster_count([[0.0, 0.0], [0.9, 0.0], [1.8, 0.0]], tolerance=1.0, geometry="euclidean"))
    1
    """
    x = arrays.tokens(x)
    if geometry == "sphere" and x.shape[-1] == 2:
        return _count_on_circle(x, arrays.not_negative("tolerance", tolerance))
    return count_of(cluster_labels(x, tolerance, geometry))


def _count_on_circle(x: Floats, tolerance: float) -> Ints:
    """The number of gaps between neighbours on the circle, or 1: a sort instead of all pairs."""
    if not x.any(axis=-1).all():
        arrays.unit(x)  # says what is wrong with a token at 0
    angle = np.sort(np.arctan2(x[..., 1], x[..., 0]), axis=-1)
    gaps = np.diff(angle, axis=-1, append=angle[..., :1] + 2 * np.pi)
    count: Ints = np.maximum((gaps > tolerance).sum(axis=-1), 1)
    return count


def cluster_sizes(x: ArrayLike, tolerance: float = TOLERANCE, geometry: str = "sphere") -> Ints:
    """The size of cluster 0, 1, ..., filled up with zeros to (..., n): see `cluster_labels`.

    >>> cluster_sizes([[0.0], [1.0], [1.001]], geometry="euclidean").tolist()
    [1, 2, 0]
    """
    return sizes_of(cluster_labels(x, tolerance, geometry))


def count_of(labels: ArrayLike) -> Ints:
    """The number of clusters (...) behind canonical labels (..., n)."""
    return np.asarray(_labels(labels).max(axis=-1) + 1)


def sizes_of(labels: ArrayLike) -> Ints:
    """Cluster sizes (..., n), zero after the last cluster, behind canonical labels (..., n)."""
    labels = _labels(labels)
    n = labels.shape[-1]
    flat = labels.reshape(-1, n)
    offset = np.arange(len(flat))[:, None] * n
    return np.bincount((flat + offset).ravel(), minlength=flat.size).reshape(labels.shape)


def _labels(labels: ArrayLike) -> Ints:
    array = np.asarray(labels)
    if array.ndim < 1 or array.shape[-1] == 0 or not np.issubdtype(array.dtype, np.integer):
        raise InputError(f"Labels must be whole numbers (..., n) with n >= 1, not {array.dtype} {array.shape}.")
    if array.size and (array.min() < 0 or array.max() >= array.shape[-1]):
        raise InputError(f"Labels must lie between 0 and n - 1 = {array.shape[-1] - 1}.")
    return array.astype(np.int64)
