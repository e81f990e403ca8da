"""Single linkage at a radius, exactly: the connected components of the graph of all pairs |p - q| <= radius.

One question, three sizes of answer; none ever holds an n x n array of a large n.

| method | for               | cost                                                    |
|--------|-------------------|---------------------------------------------------------|
| line   | d = 1             | a sort                                                  |
| dense  | n <= 256          | n^2 d, vectorised over the whole batch                  |
| tree   | larger n, d <= 8  | about n log n, also when all points sit in one spot     |
| sweep  | larger n, d > 8   | n^2 d / 2 in matrix products, blockwise; early exit     |
"""

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

from metastable.observables.arrays import MOST_ENTRIES, Bools, Floats, Ints, blocks

_DENSE = 256  # largest n for which all pairs are looked at
_TREE_DIMENSION = 8  # beyond it a KD-tree visits most of its leaves: 1 s at d = 8, 10 s at d = 16 for n = 30,000
_STARS = 64
_NEIGHBOURS = 9  # the point itself and eight more
_EPS = float(np.finfo(np.float64).eps)
_TINY = float(np.finfo(np.float64).tiny)


def components(points: Floats, radius: float) -> Ints:
    """Labels (b, n) of the components of each of the b clouds (b, n, d), numbered by their first point."""
    b, n, d = points.shape
    if n == 1 or radius == np.inf:
        return np.zeros((b, n), dtype=np.int64)
    if d == 1:
        return line(points[..., 0], radius)
    if n <= _DENSE:
        return _dense(points, radius)
    one = _tree if d <= _TREE_DIMENSION else _sweep
    return np.stack([first_seen(one(cloud, radius)) for cloud in points]) if b else np.zeros((0, n), np.int64)


def line(values: Floats, radius: float) -> Ints:
    """Labels (b, n) for points on a line: sort, and cut where the gap is larger than ``radius``."""
    order = np.argsort(values, axis=-1, kind="stable")  # (b, n)
    cut = np.diff(np.take_along_axis(values, order, axis=-1), axis=-1) > radius
    labels = np.zeros(values.shape, dtype=np.int64)
    np.put_along_axis(labels, order[..., 1:], np.cumsum(cut, axis=-1), axis=-1)
    return np.stack([first_seen(row) for row in labels]) if len(labels) else labels


def first_seen(labels: Ints) -> Ints:
    """The same partition (n,) with labels 0, 1, ... in the order in which they first occur.

    >>> first_seen(np.array([7, 2, 7, 5])).tolist()
    [0, 1, 0, 2]
    """
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse.ravel()]


def graph_components(i: Ints, j: Ints, size: int) -> Ints:
    """Component labels (size,) of the graph on ``size`` nodes with edges i-j."""
    edges = coo_array((np.ones(len(i), dtype=np.int8), (i, j)), shape=(size, size))
    return np.asarray(connected_components(edges, directed=False)[1], dtype=np.int64)


# --- small n: all pairs, many clouds at once ----------------------------------------------------------------


def _dense(points: Floats, radius: float) -> Ints:
    b, n, _ = points.shape
    labels = np.empty((b, n), dtype=np.int64)
    for clouds, _rows in blocks(b, n, n):  # n <= 256, so a block always holds whole clouds
        labels[clouds] = _joined(_close(points[clouds], radius))
    return labels


def _joined(close: Bools) -> Ints:
    """Component labels (b, n) of graphs (b, n, n), all clouds as one graph whose blocks are not connected."""
    b, n, _ = close.shape
    cloud, i, j = np.nonzero(close)
    labels = first_seen(graph_components(cloud * n + i, cloud * n + j, b * n)).reshape(b, n)
    return labels - labels[:, :1]


def _close(points: Floats, radius: float) -> Bools:
    """Which pairs are within the radius, (b, n, n)."""
    b, n, d = points.shape
    if d <= 4:
        squared = np.zeros((b, n, n))
        for k in range(d):
            squared += (points[:, :, None, k] - points[:, None, :, k]) ** 2
        return np.asarray(squared <= radius**2)
    centred = points - points.mean(axis=1, keepdims=True)
    squared, error = _squared_distances(centred, centred)
    close = squared <= radius**2
    cloud, i, j = np.nonzero(np.abs(squared - radius**2) <= error)
    close[cloud, i, j] = _exactly_close(points, (cloud, i), (cloud, j), radius)
    return np.asarray(close)


def _squared_distances(p: Floats, q: Floats) -> tuple[Floats, float]:
    """|p_i - q_j|^2 (..., r, c) by one matrix product, and a bound on its rounding error."""
    pp, qq = (p**2).sum(axis=-1, keepdims=True), (q**2).sum(axis=-1, keepdims=True)
    left = np.concatenate([p, pp, np.ones_like(pp)], axis=-1)
    right = np.concatenate([-2.0 * q, np.ones_like(qq), qq], axis=-1)
    largest = max(pp.max(initial=0.0), qq.max(initial=0.0))
    return left @ np.swapaxes(right, -1, -2), 8.0 * (p.shape[-1] + 8) * _EPS * largest


def _exactly_close(points: Floats, i: tuple[Ints, ...], j: tuple[Ints, ...], radius: float) -> Bools:
    """The test for the pairs that the matrix product cannot decide: by differences, which do not cancel."""
    total, d = len(i[0]), points.shape[-1]
    close = np.empty(total, dtype=np.bool_)
    step = max(1, MOST_ENTRIES // d)
    for s in range(0, total, step):
        cut = slice(s, s + step)
        gap = points[tuple(k[cut] for k in i)] - points[tuple(k[cut] for k in j)]
        close[cut] = (gap**2).sum(axis=-1) <= radius**2
    return close


# --- large n, small d: a KD-tree that is only ever queried for nearest neighbours -----------------------------


def _tree(cloud: Floats, radius: float) -> Ints:
    """Join every point to its eight nearest; then every component to its nearest others, until nothing joins.

    A tree's list of all pairs within the radius would hold n^2 of them when the tokens have collapsed.
    """
    points, inverse = np.unique(cloud, axis=0, return_inverse=True)
    size = len(points)
    k = min(_NEIGHBOURS, size)
    nearest, linked = _nearest(points, points, k, radius)  # (size, k)
    labels = graph_components(np.nonzero(linked)[0], nearest[linked], size)
    # a point with fewer than eight neighbours in reach has all its links already, so every pair with it is done
    open_points = np.flatnonzero(linked[:, -1]) if k < size else np.zeros(0, dtype=np.int64)
    while True:
        names, component = np.unique(labels[open_points], return_inverse=True)
        i, j = _links_between(points[open_points], component, len(names), radius)
        if len(i) == 0:
            return labels[inverse.ravel()]
        merged = graph_components(component[i], component[j], len(names))
        rename = np.arange(labels.max() + 1)
        rename[names] = names[np.unique(merged, return_index=True)[1][merged]]
        labels = rename[labels]
        touched = np.zeros(len(names), dtype=np.bool_)
        touched[component[i]] = touched[component[j]] = True
        open_points = open_points[touched[component]]  # a component that reached no other is final


def _links_between(points: Floats, component: Ints, count: int, radius: float) -> tuple[Ints, Ints]:
    """For every component that has a link to another, at least one such link.

    Two different components differ in some bit of their number: split the points by each bit in turn, and look up
    each half for its nearest points in the other. 2 log2(count) bulk queries find what is needed (Boruvka's
    step).
    """
    rows, columns = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for bit in range((count - 1).bit_length() if count > 1 else 0):
        high = (component >> bit) & 1 == 1
        for side in (high, ~high):
            mine, others = np.flatnonzero(side), np.flatnonzero(~side)
            nearest, linked = _nearest(points[mine], points[others], 1, radius)
            rows.append(mine[linked[:, 0]])
            columns.append(others[nearest[linked]])
    return np.concatenate(rows), np.concatenate(columns)


def _nearest(points: Floats, others: Floats, k: int, radius: float) -> tuple[Ints, Bools]:
    """The k nearest of ``others`` for every point, (r, k), and which of them are within the radius."""
    bound = radius * (1.0 + 4.0 * _EPS) or _TINY  # the tree's bound is strict, ours is not
    distance, nearest = KDTree(others).query(points, k=np.arange(1, k + 1), distance_upper_bound=bound)
    return np.asarray(nearest), np.asarray(distance) <= radius


# --- large n, large d: matrix products by blocks ------------------------------------------------------------


def _sweep(cloud: Floats, radius: float) -> Ints:
    labels, settled = _stars(cloud, radius)
    if settled:
        return labels
    n = len(cloud)
    centred = cloud - cloud.mean(axis=0)
    block = max(1, MOST_ENTRIES // n)
    for start in range(0, n, block):
        rows = np.arange(start, min(start + block, n))
        squared, error = _squared_distances(centred[rows], centred[start:])  # (r, n - start)
        near = squared <= radius**2 + error
        near &= labels[rows, None] != labels[None, start:]
        for r in np.flatnonzero(near.any(axis=1)):
            i, j = start + int(r), start + np.flatnonzero(near[r])
            j = j[labels[j] != labels[i]]  # the labels may have changed since the block began
            sure = squared[r, j - start] <= radius**2 - error
            sure[~sure] = ((cloud[j[~sure]] - cloud[i]) ** 2).sum(axis=-1) <= radius**2
            if sure.any():
                labels[np.isin(labels, labels[j[sure]])] = labels[i]
        if (labels == labels[0]).all():
            break
    return labels


def _stars(cloud: Floats, radius: float) -> tuple[Ints, bool]:
    """Labels of stars (everything linked to a centre, centre by centre), and whether they are the answer already.

    They are when a few stars hold all points and every two are so far apart that no pair between them can be
    linked: the usual state of a run whose clusters have formed, settled here in O(n d) per cluster.
    """
    labels = np.full(len(cloud), -1, dtype=np.int64)
    centers, widths = [], []
    for star in range(_STARS):
        free = np.flatnonzero(labels < 0)
        if len(free) == 0:
            break
        distance = np.sqrt(((cloud[free] - cloud[free[0]]) ** 2).sum(axis=-1))
        labels[free[distance <= radius]] = star
        centers.append(cloud[free[0]])
        widths.append(distance[distance <= radius].max())
    free = np.flatnonzero(labels < 0)
    labels[free] = len(centers) + np.arange(len(free))
    gaps = np.sqrt(((np.stack(centers)[:, None] - np.stack(centers)) ** 2).sum(axis=-1))
    reach = radius + np.add.outer(widths, widths)
    apart = (gaps > reach * (1.0 + 1e-9)) | np.eye(len(centers), dtype=np.bool_)
    return labels, len(free) == 0 and bool(apart.all())
