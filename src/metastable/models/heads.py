"""Which heads look at the same things: correlations of attention maps over many texts, and the groups they form.

The correlation of two heads is Pearson's, over all entries (i, j) that the mask leaves visible in all texts. It is
accumulated by pairwise updates of means and co-moments, which lose no digits however many texts there are.
Texts are dealt into folds, and a grouping counts as stable when random halves of the folds find it again.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from metastable.equation import masks
from metastable.models.agreement import adjusted_rand, silhouette
from metastable.models.layer_similarity import ratio
from metastable.models.stream import Text

if TYPE_CHECKING:
    import xarray

FOLDS = 8


def visible(mask: str, n: int) -> np.ndarray:
    """Which token j is visible to which token i, (n, n) boolean."""
    rule, token = masks.resolve(mask).visible, np.arange(n)
    return np.ones((n, n), dtype=bool) if rule is None else np.asarray(rule(token[:, None], token[None, :]))


class Heads:
    """Reduces attention maps to co-moments of heads, and keeps the first text's heat map; ``masks`` are the layers'."""

    name = "heads"

    def __init__(self, layers: int, heads: int, masks: Sequence[str], special: bool) -> None:
        self.masks, self.special = masks, special
        self.count = np.zeros((layers, FOLDS))
        self.mean = np.zeros((layers, FOLDS, heads))
        self.moment = np.zeros((layers, FOLDS, heads, heads))
        self.received = np.zeros((layers, heads, 0))

    def settings(self) -> dict[str, Any]:
        """What a state file must agree on."""
        return {"special": self.special, "folds": FOLDS}

    def states(self, text: Text, layer: int, x: np.ndarray) -> None:
        """Heads do not use states."""

    def attention(self, text: Text, layer: int, A: np.ndarray) -> None:
        """Fold one text's map of one layer into the co-moments."""
        seen = visible(self.masks[layer - 1], len(text.ids))
        if text.number == 0:
            if layer == 1:
                self.received = np.zeros((len(self.count), A.shape[0], A.shape[-1]))
            self.received[layer - 1] = A.sum(axis=1) / seen.sum(axis=0)  # mean over the tokens that see token j
        if not self.special:
            seen = seen & ~text.special[:, None] & ~text.special[None, :]
        values = (A.reshape(len(A), -1) if seen.all() else A[:, seen]).astype(np.float64)  # (h, visible entries)
        if values.shape[1]:
            self._merge(layer - 1, text.number % FOLDS, values)

    def _merge(self, layer: int, fold: int, values: np.ndarray) -> None:
        """Chan, Golub and LeVeque's update of mean and co-moment by a batch."""
        m, n = values.shape[1], self.count[layer, fold]
        mean = values.mean(axis=1)
        centred = values - mean[:, None]
        gap = mean - self.mean[layer, fold]
        self.moment[layer, fold] += centred @ centred.T + np.outer(gap, gap) * (n * m / (n + m))
        self.mean[layer, fold] += gap * (m / (n + m))
        self.count[layer, fold] = n + m

    _STATE = ("count", "mean", "moment", "received")

    def state(self) -> dict[str, np.ndarray]:
        """Its state as arrays, for a checkpoint."""
        return {name: getattr(self, name) for name in self._STATE}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore the state of an earlier session."""
        for name in self._STATE:
            setattr(self, name, state[name].copy())

    def result(self, words: Sequence[str], seed: int = 0) -> "xarray.Dataset":
        """The statistics as an ``xarray.Dataset``.

        Variables: ``correlation`` (layer, head, other), ``group`` (layer, head), ``groups``, ``silhouette``,
        ``stability`` (layer), and ``received`` (layer, head, token): the first text's heat map, the mean attention
        that a token receives from the tokens that can see it.
        """
        import xarray

        table = [self._layer(layer, seed) for layer in range(len(self.count))]
        variables = {
            "correlation": (("layer", "head", "other"), np.stack([row[0] for row in table])),
            "group": (("layer", "head"), np.stack([row[1] for row in table])),
            "groups": ("layer", np.array([len(np.unique(row[1])) for row in table])),
            "silhouette": ("layer", np.array([row[2] for row in table])),
            "stability": ("layer", np.array([row[3] for row in table])),
            "received": (("layer", "head", "token"), self.received),
        }
        coords = {"layer": np.arange(1, len(self.count) + 1), "word": ("token", list(words))}
        return xarray.Dataset(variables, coords)

    def _layer(self, layer: int, seed: int) -> tuple[np.ndarray, np.ndarray, float, float]:
        count, mean, moment = self.count[layer], self.mean[layer], self.moment[layer]
        whole = correlation(merged(count, mean, moment))
        labels, score = grouped(whole)
        filled = np.flatnonzero(count)
        halves = _halves(filled, seed)
        k = len(np.unique(labels))
        agreed = []
        for first in halves:
            rest = np.setdiff1d(filled, first)
            sides = [correlation(merged(count[s], mean[s], moment[s])) for s in (first, rest)]
            agreed.append(adjusted_rand(*(cut(side, k) for side in sides)))
        return whole, labels, score, float(np.mean(agreed)) if agreed else float("nan")


def _halves(filled: np.ndarray, seed: int, most: int = 10) -> list[np.ndarray]:
    """Halves of the folds, at most ``most`` of them, drawn at random."""
    if len(filled) < 2:
        return []
    every = list(combinations(filled, len(filled) // 2))
    chosen = np.random.default_rng(seed).permutation(len(every))[:most]
    return [np.asarray(every[i]) for i in chosen]


def merged(count: np.ndarray, mean: np.ndarray, moment: np.ndarray) -> np.ndarray:
    """The co-moment (h, h) of several folds together, from each fold's count, mean (h,) and co-moment."""
    centre = (count[:, None] * mean).sum(axis=0) / max(count.sum(), 1.0)
    gap = mean - centre
    return np.asarray(moment.sum(axis=0) + np.einsum("f,fa,fb->ab", count, gap, gap))


def correlation(moment: np.ndarray) -> np.ndarray:
    """Pearson correlations from co-moments; nan for a head whose map never varies."""
    spread = np.sqrt(np.diag(moment))
    return np.asarray(np.clip(ratio(moment, np.outer(spread, spread)), -1.0, 1.0))


def cut(correlations: np.ndarray, k: int) -> np.ndarray:
    """k groups of heads by average linkage on 1 - correlation, numbered in the order of their first head."""
    if k <= 1:
        return np.zeros(len(correlations), dtype=int)
    tree = linkage(squareform(_distance(correlations), checks=False), "average")
    raw = fcluster(tree, k, "maxclust")
    _, first, labels = np.unique(raw, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[labels]


def grouped(correlations: np.ndarray) -> tuple[np.ndarray, float]:
    """The grouping with the best mean silhouette among 2 to h - 1 groups, and that silhouette.

    With fewer than three heads there is nothing to choose: one group, silhouette nan.
    """
    heads = len(correlations)
    if heads < 3:
        return np.zeros(heads, dtype=int), float("nan")
    options = [cut(correlations, k) for k in range(2, heads)]
    scores = [silhouette(_distance(correlations), labels) for labels in options]
    best = int(np.argmax(scores))
    return options[best], scores[best]


def _distance(correlations: np.ndarray) -> np.ndarray:
    distance = 1.0 - np.nan_to_num(correlations, nan=0.0)
    np.fill_diagonal(distance, 0.0)
    return np.asarray(np.maximum((distance + distance.T) / 2.0, 0.0))
