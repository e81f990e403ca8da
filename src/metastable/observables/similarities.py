"""Pairwise similarities of tokens, each pair i < j once and never a token with itself."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from metastable.errors import InputError
from metastable.observables import arrays
from metastable.observables.arrays import Floats, Ints, blocks

KINDS = ("cosine", "inner")
_WORTH_A_KERNEL = 1e8  # products of coordinates from which loading a kernel pays: about a second of NumPy


def similarity_histogram(x: ArrayLike, bins: int = 100, kind: str = "cosine") -> tuple[Ints, Floats]:
    """Histogram of the n(n-1)/2 pairwise similarities.

    Parameters
    ----------
    x : array (..., n, d), n >= 2
    bins : int
        Number of equal bins: of [-1, 1] for cosines, of [-m, m] for inner products, m = the largest |x_i|^2
        of all. A bin holds its left edge, the last one both; cosines that rounding puts past 1 count as 1.
    kind : {"cosine", "inner"}

    Returns
    -------
    counts : integer array (..., bins)
    edges : array (bins + 1,)

    Examples
    --------
    >>> counts, edges = similarity_histogram([[1.0, 0.0], [1.0, 0.0], [-2.0, 0.0]], bins=2)
    >>> counts.tolist(), edges.tolist()
    ([2, 1], [-1.0, 0.0, 1.0])
    """
    x = _pairs_exist(x, kind)
    if isinstance(bins, bool) or int(bins) != bins or bins < 1:
        raise InputError(f"bins must be a whole number >= 1, not {bins!r}.")
    bins = int(bins)
    flat = x.reshape(-1, *x.shape[-2:])
    limit = 1.0 if kind == "cosine" else float((x**2).sum(axis=-1).max(initial=0.0)) or 1.0
    edges = np.linspace(-limit, limit, bins + 1)
    counts = np.zeros((len(flat), bins), dtype=np.int64)
    for some, s in _blocks(flat):
        place = _bin(s.clip(-limit, limit), edges)
        place += bins * np.arange(len(s))[:, None]  # each cloud has bins of its own
        counts[some] += np.bincount(place.ravel(), minlength=len(s) * bins).reshape(-1, bins)
    return counts.reshape(*x.shape[:-2], bins), edges


def similarity_share(x: ArrayLike, above: ArrayLike = 0.99, kind: str = "cosine") -> Floats:
    """The share of pairs i < j whose similarity is larger than ``above``, (...) plus the axes of ``above``.

    >>> similarity_share([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]], above=[0.5, 0.999]).round(3).tolist()
    [0.333, 0.0]
    """
    x = _pairs_exist(x, kind)
    limits = np.asarray(above, dtype=np.float64)
    if np.isnan(limits).any():
        raise InputError("A threshold of the similarity share is nan.")
    flat, n = x.reshape(-1, *x.shape[-2:]), x.shape[-2]
    if flat.size * n > _WORTH_A_KERNEL:
        from metastable.engines.exact.pairs import count_above

        found = np.stack([count_above(flat, float(limit)) for limit in limits.ravel()], axis=-1)
        return np.asarray(2 * found / (n * (n - 1))).reshape(x.shape[:-2] + limits.shape)
    found = np.zeros((len(flat), limits.size))
    for some, rows in blocks(len(flat), n, n):
        s = flat[some, rows] @ np.swapaxes(flat[some], -1, -2)  # (b, m, n): every pair twice, and the diagonal once
        own = s[:, np.arange(s.shape[1]), np.arange(rows.start, rows.stop)]
        for k, limit in enumerate(limits.ravel()):
            found[some, k] += np.count_nonzero(s > limit, axis=(1, 2)) - np.count_nonzero(own > limit, axis=1)
    return np.asarray((found / (n * (n - 1))).reshape(x.shape[:-2] + limits.shape))


def similarity_mean(x: ArrayLike, kind: str = "cosine") -> Floats:
    """The mean over pairs i != j, (...), in O(n d): (|sum x|^2 - sum |x|^2) / (n(n-1)).

    >>> float(similarity_mean([[1.0, 0.0], [0.0, 1.0]]))
    0.0
    """
    x = _pairs_exist(x, kind)
    n = x.shape[-2]
    together = (x.sum(axis=-2) ** 2).sum(axis=-1)
    return np.asarray((together - (x**2).sum(axis=(-1, -2))) / (n * (n - 1)))


def _pairs_exist(x: ArrayLike, kind: str) -> Floats:
    x = arrays.tokens(x)
    if x.shape[-2] < 2:
        raise InputError("Pairwise similarities need at least two tokens; there is one.")
    if kind not in KINDS:
        raise InputError(f"kind must be 'cosine' or 'inner', not {kind!r}.")
    if kind == "inner" and arrays.safe_scale(x) != 1.0:
        raise InputError("The tokens are so large that their inner products overflow; use kind='cosine' instead.")
    return arrays.unit(x) if kind == "cosine" else x


def _blocks(flat: Floats) -> Iterator[tuple[slice, Floats]]:
    """Inner products of the pairs i < j of clouds (b, n, d), some clouds and some pairs at a time, (b, pairs)."""
    b, n, _ = flat.shape
    for some, rows in blocks(b, n, n):
        query = flat[some, rows]
        i, j = np.triu_indices(query.shape[1], k=1)
        yield some, (query @ np.swapaxes(query, -1, -2))[:, i, j]
        if rows.stop < n:
            yield some, (query @ np.swapaxes(flat[some, rows.stop :], -1, -2)).reshape(len(query), -1)


def _bin(s: Floats, edges: Floats) -> Ints:
    """The bin of every value within the edges: a division, then a look at the edges themselves."""
    bins = len(edges) - 1
    place = ((s - edges[0]) * (bins / (edges[-1] - edges[0]))).astype(np.int64).clip(0, bins - 1)
    place -= s < edges[place]
    place += (s >= edges[place + 1]) & (place < bins - 1)
    return np.asarray(place)
