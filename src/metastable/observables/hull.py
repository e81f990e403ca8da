"""Convex hulls in up to eight dimensions (Qhull), also of clouds that are flat, collapsed or too small.

A cloud is first reduced to its affine span at a tolerance and scaled to unit spread in each direction; the
hull does not care, Qhull does.
"""

from dataclasses import dataclass
from math import lgamma

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import ConvexHull, QhullError

from metastable.errors import InputError
from metastable.observables import arrays
from metastable.observables.arrays import Bools, Floats, Ints
from metastable.observables.linkage import components

MOST_DIMENSIONS = 8
SPAN = 1e-10  # a direction thinner than this, relative to the widest, counts as flat


@dataclass(frozen=True, eq=False)
class Hull:
    """The hull of one cloud.

    ``vertices`` are token indices in order; ``dimension`` is that of the affine span, in which ``volume`` is
    measured (length, area, ...; 0 for a point). A token y is inside when ``normals @ y <= offsets`` and y
    lies in the span, which contains ``center`` and runs along the rows of ``axes``.
    """

    vertices: Ints
    dimension: int
    volume: float
    center: Floats
    axes: Floats
    normals: Floats
    offsets: Floats

    def outside(self, y: ArrayLike) -> Floats:
        """How far tokens (..., n, d) lie outside, (..., n): 0 inside.

        The larger of the distance from the span and the distance past the farthest facet plane: never more
        than the distance to the hull, and 0 only inside.
        """
        gap = arrays.tokens(y) - self.center
        flat = self.dimension < gap.shape[-1]  # else nothing lies off the span, and rounding should not say so
        off = np.linalg.norm(gap - (gap @ self.axes.T) @ self.axes, axis=-1) if flat else np.zeros(gap.shape[:-1])
        if len(self.normals):
            past = np.full(off.shape, -np.inf)
            step = max(1, arrays.MOST_ENTRIES // max(1, off.size))
            for s in range(0, len(self.normals), step):  # thousands of facets in high dimension
                cut = slice(s, s + step)
                past = np.maximum(past, (gap @ self.normals[cut].T - self.offsets[cut]).max(axis=-1))
            off = np.maximum(off, past)
        return np.asarray(off.clip(min=0.0))


def convex_hull(x: ArrayLike, span: float = SPAN) -> Hull:
    """The convex hull of one cloud of tokens.

    Parameters
    ----------
    x : array (n, d)
        Tokens whose affine span has at most 8 dimensions, or any d when they form a simplex.
    span : float
        Directions in which the cloud is thinner than ``span`` times its widest are taken as flat.

    Examples
    --------
    >>> square = convex_hull([[0.0, 0.0], [1.0, 0.0], [0.4, 0.3], [1.0, 1.0], [0.0, 1.0]])
    >>> square.vertices.tolist(), square.dimension, round(square.volume, 12)
    ([0, 1, 3, 4], 2, 1.0)
    >>> square.outside([[0.5, 0.5], [3.0, 0.5]]).round(12).tolist()
    [0.0, 2.0]
    """
    x = arrays.tokens(x)
    if x.ndim != 2:
        raise InputError(
            f"convex_hull takes one cloud (n, d), not {x.shape}; hull_vertices and its kin take leading axes."
        )
    center = x.mean(axis=0)
    local, widths, axes = _span(x - center, np.abs(x).max(), arrays.not_negative("span", span))
    m = len(widths)
    vertices, facets, offsets, log_volume = _hull_in_span(local)
    # a facet a.y <= b of the scaled cloud, back in the tokens' own coordinates and with a normal of length 1
    normals = (facets / widths) @ axes  # (f, d)
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    with np.errstate(over="ignore", divide="ignore"):  # beyond the range of floats: inf or 0
        volume = np.exp(log_volume + np.log(widths).sum())
    return Hull(vertices, m, float(volume), center, axes, normals / lengths, offsets / lengths[:, 0])


def hull_vertices(x: ArrayLike) -> Bools:
    """Which tokens are vertices of the hull of their cloud, (..., n); of identical tokens at a vertex, one.

    >>> hull_vertices([[0.0], [2.0], [1.0]]).tolist()
    [True, True, False]
    """
    x = arrays.tokens(x)
    mask = np.zeros(x.shape[:-1], dtype=np.bool_)
    for index in np.ndindex(x.shape[:-2]):
        mask[(*index, convex_hull(x[index]).vertices)] = True
    return mask


def hull_count(x: ArrayLike, tolerance: float = 0.0) -> Ints:
    """The number of vertices, (...), where vertices linked by distances up to ``tolerance`` count as one.

    With tolerance 0 it is Qhull's own count, which is noise once tokens have gathered at a vertex.

    >>> int(hull_count([[0.0, 0.0], [1.0, 0.0], [1.0, 1e-6], [0.0, 1.0]], tolerance=1e-3))
    3
    """
    x = arrays.tokens(x)
    count = np.zeros(x.shape[:-2], dtype=np.int64)
    for index in np.ndindex(count.shape):
        corners = x[index][convex_hull(x[index]).vertices]
        points, radius = arrays.metric(corners[None], tolerance, "euclidean")
        count[index] = components(points, radius).max() + 1 if tolerance else len(corners)
    return count


def hull_volume(x: ArrayLike) -> Floats:
    """The d-dimensional volume of the hull, (...): 0 for a flat cloud.

    >>> float(hull_volume([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]).round(12))
    0.5
    """
    x = arrays.tokens(x)
    volume = np.zeros(x.shape[:-2])
    for index in np.ndindex(volume.shape):
        found = convex_hull(x[index])
        volume[index] = found.volume if found.dimension == x.shape[-1] else 0.0
    return volume


def hull_growth(x: ArrayLike) -> Floats:
    """How far any later token gets outside each time's hull, (T, ...) for x (T, ..., n, d); the last is 0.

    The hull of rescaled tokens with V = I never grows, so there this is rounding and the integrator's error.

    >>> hull_growth([[[-1.0], [1.0]], [[0.0], [0.5]], [[0.0], [0.75]]]).tolist()
    [0.0, 0.25, 0.0]
    """
    x = arrays.tokens(x)
    if x.ndim < 3:
        raise InputError(f"hull_growth needs a time axis first, (T, ..., n, d), not {x.shape}.")
    growth = np.zeros(x.shape[:-2])
    for index in np.ndindex(x.shape[1:-2]):
        path = x[(slice(None), *index)]  # (T, n, d)
        for k in range(len(path) - 1):
            growth[(k, *index)] = convex_hull(path[k]).outside(path[k + 1 :]).max()
    return growth


def _span(gap: Floats, size: float, span: float) -> tuple[Floats, Floats, Floats]:
    """Centred tokens in the axes (m, d) of their span, divided by their widths (m,): (n, m)."""
    _, s, axes = np.linalg.svd(gap, full_matrices=False)
    rounding = 8.0 * np.finfo(np.float64).eps * np.sqrt(gap.shape[0]) * size  # what centring may leave of a point
    m = int((s > max(span * s[0], rounding)).sum())
    widths = s[:m]
    return (gap @ axes[:m].T) / widths, widths, axes[:m]


def _hull_in_span(local: Floats) -> tuple[Ints, Floats, Floats, float]:
    """Vertices, facet normals (f, m) and offsets (f,), log volume of a cloud (n, m) of full dimension."""
    n, m = local.shape
    if m == 0:
        return np.zeros(1, dtype=np.int64), np.zeros((0, 0)), np.zeros(0), -np.inf
    if m == 1:
        ends = np.unique([local[:, 0].argmin(), local[:, 0].argmax()])
        low, high = local[:, 0].min(), local[:, 0].max()
        return ends, np.array([[1.0], [-1.0]]), np.array([high, -low]), float(np.log(high - low))
    if n == m + 1:
        return _simplex(local)
    if m > MOST_DIMENSIONS:
        raise InputError(f"The tokens span {m} dimensions; convex hulls are offered up to {MOST_DIMENSIONS}.")
    return _qhull(local)


def _simplex(local: Floats) -> tuple[Ints, Floats, Floats, float]:
    """m + 1 points in general position: facet k is where the k-th barycentric coordinate is 0."""
    n, m = local.shape
    barycentric = np.linalg.inv(np.hstack([local, np.ones((n, 1))]))  # (m + 1, n): [y, 1] @ it = coordinates of y
    normals, offsets = -barycentric[:m].T, barycentric[m]
    log_volume = float(np.linalg.slogdet(local[1:] - local[0])[1]) - lgamma(m + 1.0)
    return np.arange(n), normals, offsets, log_volume


def _qhull(local: Floats) -> tuple[Ints, Floats, Floats, float]:
    try:
        found = ConvexHull(local)
    except QhullError:
        found = ConvexHull(
            local, qhull_options="QJ Pp"
        )  # joggled by rounding: for clouds Qhull cannot merge its way out of
    vertices = np.sort(found.vertices).astype(np.int64)
    return vertices, found.equations[:, :-1], -found.equations[:, -1], float(np.log(found.volume))
