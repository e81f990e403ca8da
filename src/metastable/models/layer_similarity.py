"""How alike the tokens of a text become, layer by layer: the statistics behind Fig. 1 of the first paper.

Every pair i < j of different tokens is counted once. Cosines are taken twice: raw, and with the mean direction of the
text's tokens (the direction of the sum of the unit tokens) projected out. In large language models most of the raw
cosine is one direction that all tokens share, which says nothing about clusters.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from metastable.models.stream import Text

if TYPE_CHECKING:
    import xarray

KINDS = ("raw", "centred")
THRESHOLDS = (0.9, 0.99)
CAUTION = (
    "Raw cosines contain the direction that all tokens of a model share (anisotropy), which is no sign of clusters; "
    "the centred ones are taken beside that direction."
)


def cosines(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cosines (m, m) of the tokens that are not 0, and which tokens those are (n,)."""
    x = np.asarray(x, dtype=np.float64)
    length = np.linalg.norm(x, axis=1)
    kept = length > 0
    u = x[kept] / length[kept, None]  # (m, d)
    return np.clip(u @ u.T, -1.0, 1.0), kept


def centred_cosines(x: np.ndarray, cosine: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """Cosines beside the mean direction, of the tokens (n, d) that have a part beside it, and which those are.

    What is left of a token counts when it is longer than 32 roundings (``eps``) of a unit token. With a_i the cosine
    of token i to the mean direction, <u_i, u_j> - a_i a_j gives all of it from the cosines at hand; only tokens so
    close together that this would cancel are projected one by one.
    """
    m = len(cosine)
    pull = cosine.sum(axis=1)
    total = pull.sum()  # |sum of the unit tokens|^2
    kept = np.ones(m, dtype=bool)
    if total <= (32 * eps * m) ** 2:  # tokens that cancel have no mean direction
        return cosine, kept
    a = pull / np.sqrt(total)  # (m,)
    left = 1.0 - a**2
    if m and left.min() > 1e-8:
        scale = 1.0 / np.sqrt(left)
        return np.clip((cosine - np.outer(a, a)) * np.outer(scale, scale), -1.0, 1.0), kept
    u = np.asarray(x, dtype=np.float64)
    u = u / np.linalg.norm(u, axis=1, keepdims=True)
    mean = u.sum(axis=0) / np.sqrt(total)
    u = u - (u @ mean)[:, None] * mean
    length = np.linalg.norm(u, axis=1)
    kept = length > 32 * eps
    u = u[kept] / length[kept, None]
    return np.clip(u @ u.T, -1.0, 1.0), kept


@lru_cache(maxsize=4)
def _pairs(n: int) -> np.ndarray:
    """Places i n + j of the pairs i < j in a flattened (n, n) array."""
    i, j = np.triu_indices(n, 1)
    return i * n + j


def cluster_labels(cosine: np.ndarray, threshold: float) -> np.ndarray:
    """The cluster of every token (n,): tokens linked by chains of cosines above the threshold share a label.

    >>> cluster_labels(np.array([[1.0, 0.95, 0.0], [0.95, 1.0, 0.95], [0.0, 0.95, 1.0]]), 0.9).tolist()
    [0, 0, 0]
    """
    linked = cosine > threshold
    n = len(linked)
    label = np.arange(n)  # every token takes the lowest label in reach, until none changes
    if np.count_nonzero(linked) <= n:  # nothing but the diagonal
        return label
    while True:
        lowest = np.minimum(label, np.where(linked, label, n).min(axis=1))
        lowest = lowest[lowest]  # jump to the label of the label, so that long chains take few rounds
        if np.array_equal(lowest, label):
            return label
        label = lowest


def cluster_count(cosine: np.ndarray, threshold: float) -> int:
    """The number of clusters: see `cluster_labels`."""
    return int(np.count_nonzero(cluster_labels(cosine, threshold) == np.arange(len(cosine))))


class Similarity:
    """Reduces states to histograms of cosines, shares above thresholds, clusters and same-token shares."""

    name = "similarity"

    def __init__(self, layers: int, bins: int, special: bool, eps: float) -> None:
        shape, cuts = (layers + 1, len(KINDS)), len(THRESHOLDS)
        self.bins, self.special, self.eps = bins, special, eps
        self.counts = np.zeros((*shape, bins), dtype=np.int64)
        self.pairs = np.zeros(shape, dtype=np.int64)
        self.total = np.zeros(shape)
        self.above = np.zeros((*shape, cuts), dtype=np.int64)
        self.same = np.zeros((*shape, cuts), dtype=np.int64)  # pairs above a threshold that are the same token
        self.same_pairs = np.zeros(shape, dtype=np.int64)
        self.clusters = np.zeros((*shape, cuts), dtype=np.int64)
        self.clustered = np.zeros(shape, dtype=np.int64)  # tokens that were clustered
        self.texts = np.zeros(1, dtype=np.int64)

    def settings(self) -> dict[str, Any]:
        """What a state file must agree on."""
        return {"bins": self.bins, "special": self.special}

    def attention(self, text: Text, layer: int, A: np.ndarray) -> None:
        """Similarities do not use attention."""

    def states(self, text: Text, layer: int, x: np.ndarray) -> None:
        """Count the pairs of one text at one layer."""
        kept = np.ones(len(text.ids), dtype=bool) if self.special else ~text.special
        x, ids = x[kept], text.ids[kept]
        self.texts[0] += layer == 0
        cosine, usable = cosines(x)
        x, ids = x[usable], ids[usable]
        self._count(layer, 0, cosine, ids)
        cosine, usable = centred_cosines(x, cosine, self.eps)
        self._count(layer, 1, cosine, ids[usable])

    def _count(self, layer: int, k: int, cosine: np.ndarray, ids: np.ndarray) -> None:
        pairs = _pairs(len(ids))
        values = cosine.ravel()[pairs]
        same = (ids[:, None] == ids[None, :]).ravel()[pairs]
        self.counts[layer, k] += np.histogram(values, bins=self.bins, range=(-1.0, 1.0))[0]
        self.pairs[layer, k] += values.size
        self.total[layer, k] += values.sum()
        self.same_pairs[layer, k] += np.count_nonzero(same)
        self.clustered[layer, k] += len(ids)
        for c, threshold in enumerate(THRESHOLDS):
            high = values > threshold
            found = np.count_nonzero(high)
            self.above[layer, k, c] += found
            self.same[layer, k, c] += np.count_nonzero(high & same)
            self.clusters[layer, k, c] += cluster_count(cosine, threshold) if found else len(ids)

    _REMEMBERED = ("counts", "pairs", "total", "above", "same", "same_pairs", "clusters", "clustered", "texts")

    def state(self) -> dict[str, np.ndarray]:
        """What it remembers, as arrays."""
        return {name: getattr(self, name) for name in self._REMEMBERED}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Take up where an earlier run stopped."""
        for name in self._REMEMBERED:
            setattr(self, name, state[name].copy())

    def result(self) -> "xarray.Dataset":
        """The statistics as an ``xarray.Dataset``; shares are nan where there was no pair.

        Variables: ``counts`` (layer, kind, bin), ``pairs``, ``mean`` (layer, kind), ``share_above``,
        ``same_token_share`` (of the pairs above a threshold), ``clusters`` (mean number in a text) and
        ``cluster_share`` (clusters per token), all (layer, kind, threshold), and ``same_token_base``, the share of
        same-token pairs among all pairs.
        """
        import xarray

        each, cut = ("layer", "kind"), ("layer", "kind", "threshold")
        edges = np.linspace(-1.0, 1.0, self.bins + 1)
        variables = {
            "counts": ((*each, "bin"), self.counts),
            "pairs": (each, self.pairs),
            "mean": (each, ratio(self.total, self.pairs)),
            "share_above": (cut, ratio(self.above, self.pairs[..., None])),
            "same_token_share": (cut, ratio(self.same, self.above)),
            "same_token_base": (each, ratio(self.same_pairs, self.pairs)),
            "clusters": (cut, ratio(self.clusters, self.texts)),
            "cluster_share": (cut, ratio(self.clusters, self.clustered[..., None])),
        }
        coords = {
            "layer": np.arange(len(self.pairs)),
            "kind": list(KINDS),
            "threshold": list(THRESHOLDS),
            "bin": (edges[1:] + edges[:-1]) / 2.0,
        }
        notes = {"edges": edges.tolist(), "texts": int(self.texts[0]), "caution": CAUTION}
        return xarray.Dataset(variables, coords, notes)


def ratio(part: ArrayLike, whole: ArrayLike) -> np.ndarray:
    """part / whole, nan where the whole is 0."""
    part, whole = np.broadcast_arrays(np.asarray(part, dtype=float), np.asarray(whole, dtype=float))
    return np.asarray(np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole != 0))
