"""How alike the tokens of a text become, layer by layer: the statistics behind Fig. 1 of the first paper.

Every pair i < j of positions is counted once. Cosines are taken twice: raw, and with the mean direction of the
text's tokens (the direction of the sum of the unit tokens) projected out. In large language models most of the raw
cosine is one direction that all tokens share, which says nothing about clusters.

Texts weigh the same, however long: a pair weighs one over the number of pairs of its text. Otherwise a text of 1,000
tokens would count as much as a hundred of 100, and the picture be that of the longest texts.
"""

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from metastable.models.reductions import count_pairs
from metastable.models.stream import Text

if TYPE_CHECKING:
    import xarray

KINDS = ("raw", "centred")
THRESHOLDS = (0.9, 0.99)
CAUTION = (
    "Raw cosines contain the direction that all tokens of a model share (anisotropy), which is no sign of clusters; "
    "the centred ones are taken beside that direction."
)
WEIGHTING = (
    "Every text weighs the same, however long: a pair of tokens weighs one over the number of pairs of its text, and "
    "texts without a pair are left out."
)


def unit_tokens(x: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """The directions (m, d), float64, of the tokens (n, d) that have one, and which tokens those are (n,)."""
    u = np.array(x, dtype=np.float64)
    length = np.sqrt(np.einsum("ij,ij->i", u, u))
    kept = (length > 1e-140) & (length < 1e140)
    if not kept.all():  # the squares of a token that is there may overflow, or lose their digits
        u, kept = _within_reach(u)
        length = np.sqrt(np.einsum("ij,ij->i", u, u))
    u /= length[:, None]
    return u, kept


def _within_reach(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Finite tokens (m, d) that are not 0, each over its largest coordinate, and which of all (n,) those are."""
    largest = np.abs(x).max(axis=1, initial=0.0)
    kept = (largest > 0) & np.isfinite(largest)
    return x[kept] / largest[kept, None], kept


def beside_mean(u: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """Directions (m, d) beside the mean direction of unit tokens, of those that have a part beside it, and which.

    What is left of a token counts when it is longer than 32 roundings (``eps``) of a unit token. Tokens that cancel
    have no mean direction, and stay as they are.
    """
    mean = u.sum(axis=0)
    total = float((mean * mean).sum())
    if total <= (32 * eps * len(u)) ** 2:
        return u, np.ones(len(u), dtype=bool)
    mean /= np.sqrt(total)
    v = u - np.einsum("ij,j->i", u, mean)[:, None] * mean
    length = np.sqrt(np.einsum("ij,ij->i", v, v))
    kept = length > 32 * eps
    if not kept.all():
        v, length = v[kept], length[kept]
    v /= length[:, None]
    return v, kept


def gram(u: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
    """The cosines u u^T of unit tokens, computed in ``dtype``.

    Where torch runs the network it also makes this product: numpy's own threads would get into its way.
    """
    u = u.astype(dtype, copy=False)
    torch = sys.modules.get("torch")
    if torch is None:
        return np.asarray(u @ u.T)
    given = torch.from_numpy(u)
    return np.asarray((given @ given.T).numpy())


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


# what is averaged over texts: name -> what it is, for one text
_BY_TEXT = ("mean", "same_base")
_BY_CUT = ("above", "same", "clusters", "cluster_share", "mixed_clusters", "mixed_share", "largest")


class Similarity:
    """Reduces states to histograms of cosines, shares above thresholds, clusters and same-token shares."""

    name = "similarity"

    def __init__(self, layers: int, bins: int, special: bool, eps: float) -> None:
        shape, cuts = (layers + 1, len(KINDS)), len(THRESHOLDS)
        self.bins, self.special, self.eps = bins, special, eps
        self.counts = np.zeros((*shape, bins), dtype=np.int64)
        self.pairs = np.zeros(shape, dtype=np.int64)
        self.texts = np.zeros(shape, dtype=np.int64)  # texts that made a pair
        self.histogram = np.zeros((*shape, bins))  # from here on: sums over texts of what each text gives
        self.by_text = np.zeros((*shape, len(_BY_TEXT)))
        self.by_cut = np.zeros((*shape, cuts, len(_BY_CUT)))
        self.read = np.zeros(1, dtype=np.int64)

    def settings(self) -> dict[str, Any]:
        """What a state file must agree on."""
        return {"bins": self.bins, "special": self.special, "texts": "equal"}

    def attention(self, text: Text, layer: int, A: np.ndarray) -> None:
        """Similarities do not use attention."""

    def states(self, text: Text, layer: int, x: np.ndarray) -> None:
        """Count the pairs of one text at one layer."""
        ids = text.ids
        if not self.special:
            x, ids = x[~text.special], ids[~text.special]
        self.read[0] += layer == 0
        u, usable = unit_tokens(x)
        ids = ids[usable]
        self._count(layer, 0, gram(u, x.dtype), ids)
        u, usable = beside_mean(u, self.eps)
        self._count(layer, 1, gram(u, x.dtype), ids[usable])

    def _count(self, layer: int, kind: int, cosine: np.ndarray, ids: np.ndarray) -> None:
        m = len(ids)
        pairs, at = m * (m - 1) // 2, (layer, kind)
        if pairs == 0:
            return
        found = count_pairs(cosine, ids, THRESHOLDS, self.bins)
        self.counts[at] += found.histogram
        self.pairs[at] += pairs
        self.texts[at] += 1
        self.histogram[at] += found.histogram / pairs
        self.by_text[at] += (found.total / pairs, found.same_pairs / pairs)
        shares = [found.above / pairs, found.same / pairs, found.clusters, found.clusters / m]
        self.by_cut[at] += np.stack([*shares, found.mixed, found.in_mixed / m, found.largest / m], axis=1)

    _STATE = ("counts", "pairs", "texts", "histogram", "by_text", "by_cut", "read")

    def state(self) -> dict[str, np.ndarray]:
        """Its state as arrays, for a checkpoint."""
        return {name: getattr(self, name) for name in self._STATE}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore the state of an earlier session."""
        for name in self._STATE:
            setattr(self, name, state[name].copy())

    def result(self) -> "xarray.Dataset":
        """The statistics as an ``xarray.Dataset``; shares are nan where there was no pair.

        Texts weigh the same in all but the first three. (layer, kind): ``pairs`` and ``texts`` that made one, ``mean``
        cosine, and ``same_token_base``, the share of same-token pairs among all. (layer, kind, bin): ``counts`` of
        pairs, all texts together, and ``histogram``, the share of pairs in each bin. (layer, kind, threshold), of
        clusters made by cosines above the threshold: ``share_above`` of pairs, ``same_token_share`` of those,
        ``clusters`` in a text, ``cluster_share``, clusters per token, ``mixed_clusters`` in a text, those that hold two
        different tokens, ``mixed_share`` of a text's tokens in these, and ``largest``, the share of a text's tokens in
        its largest cluster.
        """
        import xarray

        each, cut = ("layer", "kind"), ("layer", "kind", "threshold")
        edges = np.linspace(-1.0, 1.0, self.bins + 1)
        mean, base = np.moveaxis(ratio(self.by_text, self.texts[..., None]), -1, 0)
        rows = dict(zip(_BY_CUT, np.moveaxis(ratio(self.by_cut, self.texts[..., None, None]), -1, 0)))
        above, same = rows.pop("above"), rows.pop("same")
        variables = {
            "counts": ((*each, "bin"), self.counts),
            "pairs": (each, self.pairs),
            "texts": (each, self.texts),
            "histogram": ((*each, "bin"), ratio(self.histogram, self.texts[..., None])),
            "mean": (each, mean),
            "same_token_base": (each, base),
            "share_above": (cut, above),
            "same_token_share": (cut, ratio(same, above)),
            **{name: (cut, values) for name, values in rows.items()},
        }
        coords = {
            "layer": np.arange(len(self.pairs)),
            "kind": list(KINDS),
            "threshold": list(THRESHOLDS),
            "bin": (edges[1:] + edges[:-1]) / 2.0,
        }
        notes = {"edges": edges.tolist(), "texts": int(self.read[0]), "weighting": WEIGHTING, "caution": CAUTION}
        return xarray.Dataset(variables, coords, notes)


def ratio(part: ArrayLike, whole: ArrayLike) -> np.ndarray:
    """part / whole, nan where the whole is 0."""
    part, whole = np.broadcast_arrays(np.asarray(part, dtype=float), np.asarray(whole, dtype=float))
    return np.asarray(np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole != 0))
