"""Leaders: tokens that hold the attention of others, and tokens whose place makes them centres.

Read from the attention: token i follows j when it gives j more than half of its attention; a leader has a
follower. Read from the positions: Renyi centres, which the theory of causal attention proves to be near
metastable clusters.
"""

import numpy as np
from numpy.typing import ArrayLike

from metastable.errors import InputError
from metastable.observables import arrays
from metastable.observables.arrays import MOST_ENTRIES, Bools, Floats, Ints


def received(P: ArrayLike) -> Floats:
    """Attention that token j receives from the others, sum over i != j of P_ij, (..., n).

    >>> received([[1.0, 0.0], [0.25, 0.75]]).tolist()
    [0.25, 0.0]
    """
    P = arrays.attention(P)
    return np.asarray(P.sum(axis=-2) - np.diagonal(P, axis1=-2, axis2=-1))


def followers(P: ArrayLike, threshold: float = 0.5) -> Ints:
    """The number of other tokens that give token j more than ``threshold`` of their attention, (..., n).

    Attention is compared after dividing rows by their sums. From 1/2 on, a token follows at most one other,
    so ties cannot happen.

    >>> followers([[1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.4, 0.4, 0.2]]).tolist()
    [1, 0, 0]
    """
    P = arrays.attention(P)
    if not 0.0 <= threshold < 1.0:
        raise InputError(f"The threshold must be a share of attention, 0 <= threshold < 1, not {threshold!r}.")
    held = threshold * P.sum(axis=-1, keepdims=True) < P  # (..., n, n)
    return np.asarray(held.sum(axis=-2) - np.diagonal(held, axis1=-2, axis2=-1))


def is_leader(P: ArrayLike, threshold: float = 0.5) -> Bools:
    """Which tokens have at least one follower, (..., n): see `followers`.

    >>> is_leader([[1.0, 0.0], [0.9, 0.1]]).tolist()
    [True, False]
    """
    return np.asarray(followers(P, threshold) > 0)


def renyi_centers(x: ArrayLike, delta: float, geometry: str = "sphere") -> Bools:
    """Which tokens are farther than ``delta`` from every earlier centre, (..., n): greedy, in token order.

    Parameters
    ----------
    x : array (..., n, d)
    delta : float
        Angle on the sphere, distance in R^d. The theory's scale is c / sqrt(beta).
    geometry : {"sphere", "euclidean", "rescaled"}

    Examples
    --------
    >>> renyi_centers([[0.0], [0.9], [1.8]], delta=1.0, geometry="euclidean").tolist()
    [True, False, True]
    """
    return _centers(x, delta, geometry)[0]


def strong_renyi_centers(x: ArrayLike, delta: float, geometry: str = "sphere") -> Bools:
    """Which tokens are farther than ``delta`` from every earlier token, (..., n): also Renyi centres.

    >>> strong_renyi_centers([[0.0], [0.9], [1.8]], delta=1.0, geometry="euclidean").tolist()
    [True, False, False]
    """
    return _centers(x, delta, geometry)[1]


def _centers(x: ArrayLike, delta: float, geometry: str) -> tuple[Bools, Bools]:
    x = arrays.tokens(x)
    points, radius = arrays.metric(x, delta, geometry)
    flat = points.reshape(-1, *x.shape[-2:])
    centers = np.zeros(flat.shape[:2], dtype=np.bool_)
    strong = np.zeros_like(centers)
    step = max(1, MOST_ENTRIES // max(1, flat[:1].size))
    for start in range(0, len(flat), step):
        cut = slice(start, start + step)
        centers[cut], strong[cut] = _park(flat[cut], radius)
    return centers.reshape(x.shape[:-1]), strong.reshape(x.shape[:-1])


def _park(points: Floats, radius: float) -> tuple[Bools, Bools]:
    """Centres, and those that are strong, of clouds (b, n, d): one step per centre, all clouds together."""
    b, n, _ = points.shape
    centers = np.zeros((b, n), dtype=np.bool_)
    strong = np.zeros((b, n), dtype=np.bool_)
    free = np.ones((b, n), dtype=np.bool_)
    clouds = np.arange(b)
    while len(clouds):
        first = free[clouds].argmax(axis=1)  # the first free token is the next centre
        gap = points[clouds] - points[clouds, first][:, None, :]  # (b, n, d)
        near = (gap**2).sum(axis=-1) <= radius**2
        centers[clouds, first] = True
        strong[clouds, first] = ~(near & (np.arange(n) < first[:, None])).any(axis=1)
        free[clouds] &= ~near
        clouds = clouds[free[clouds].any(axis=1)]
    return centers, strong
