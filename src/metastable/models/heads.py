"""Which heads look at the same things: correlations of attention maps over many texts, and the groups they form.

The correlation of two heads is Pearson's over all entries (i, j) of a text that the mask leaves visible, averaged over
texts: they weigh the same, however long. (Entries of all texts thrown together would mix two things: entries are of the
order of 1/n, so heads that have nothing in common seem alike as soon as texts differ in length.)

Linkage always finds groups, so it takes three things to call them groups: a silhouette of LEAST_SILHOUETTE, random
halves of the texts that find them again with LEAST_STABILITY, and more than heads have whose maps are shuffled, every
row among the tokens that it may see. Such heads share the mask alone, whose rows of unequal length correlate them.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform

from metastable.equation import masks
from metastable.models.agreement import adjusted_rand, silhouettes
from metastable.models.layer_similarity import ratio
from metastable.models.reductions import after_merges, map_moments, received
from metastable.models.stream import Text

if TYPE_CHECKING:
    import xarray

FOLDS = 8
LEAST_SILHOUETTE = 0.25  # below it, by the usual reading (Kaufman and Rousseeuw 1990), no structure has been found
LEAST_STABILITY = 0.5  # adjusted Rand index of two halves of the texts: nearer to agreement (1) than to chance (0)
SHUFFLES = 19  # shuffled sets of heads behind the null: to be above all of them happens by chance once in twenty
WEIGHTING = (
    "Every text weighs the same, however long: the correlation of two heads is taken over the visible entries of each "
    "text and averaged over texts."
)
RULE = (
    f"Heads form groups where the silhouette is at least {LEAST_SILHOUETTE:g} (less is no structure by the usual "
    f"reading of that number), halves of the texts find the same groups with an adjusted Rand index of at least "
    f"{LEAST_STABILITY:g} (nearer to agreement than to chance), and the silhouette is above those of all "
    f"{SHUFFLES} sets of heads whose maps were shuffled row by row."
)


@lru_cache(maxsize=2)
def visible(mask: str, n: int) -> np.ndarray:
    """Which token j is visible to which token i, (n, n) boolean; not to be written to."""
    rule, token = masks.resolve(mask).visible, np.arange(n)
    found = np.ones((n, n), dtype=bool) if rule is None else np.array(rule(token[:, None], token[None, :]))
    found.flags.writeable = False
    return found


class Heads:
    """Reduces attention maps to correlations of heads, and keeps the first text's heat map.

    ``masks`` are those of the layers. ``total`` and ``count`` (layer, fold, head, head) are sums over the texts of a
    fold; ``null`` and ``noise`` are mean and variance of the same sum over all texts, were the rows shuffled.
    """

    name = "heads"

    def __init__(self, layers: int, heads: int, masks: Sequence[str], special: bool) -> None:
        self.masks, self.special = masks, special
        self.total = np.zeros((layers, FOLDS, heads, heads))
        self.count = np.zeros((layers, FOLDS, heads, heads))
        self.null = np.zeros((layers, heads, heads))
        self.noise = np.zeros((layers, heads, heads))
        self.received = np.zeros((layers, heads, 0))

    def settings(self) -> dict[str, Any]:
        """What a state file must agree on."""
        return {"special": self.special, "folds": FOLDS, "texts": "equal"}

    def states(self, text: Text, layer: int, x: np.ndarray) -> None:
        """Heads do not use states."""

    def attention(self, text: Text, layer: int, A: np.ndarray) -> None:
        """Add one text's correlations at one layer."""
        seen = visible(self.masks[layer - 1], len(text.ids))
        if text.number == 0:
            if layer == 1:
                self.received = np.zeros((len(self.count), A.shape[0], A.shape[-1]))
            self.received[layer - 1] = received(A) / seen.sum(axis=0)  # mean over the tokens that see token j
        if not self.special:
            seen = seen & ~text.special[:, None] & ~text.special[None, :]
        found = map_moments(A, seen)
        spread = np.sqrt(np.diag(found.moment))
        # a map that varies by no more than rounding has no correlation with anything
        least = 32.0 * np.finfo(A.dtype).eps * np.abs(found.mean) * np.sqrt(found.entries)
        size = np.outer(spread, spread) * np.outer(spread > least, spread > least)
        parts = ratio(found.moment, size), ratio(found.between, size), ratio(found.noise, size**2)
        self._add(layer - 1, text.number % FOLDS, *parts)

    def _add(self, layer: int, fold: int, whole: np.ndarray, null: np.ndarray, noise: np.ndarray) -> None:
        there = np.isfinite(whole)
        self.count[layer, fold] += there
        self.total[layer, fold] += np.where(there, whole, 0.0)
        self.null[layer] += np.where(there, null, 0.0)
        self.noise[layer] += np.where(there, noise, 0.0)

    _STATE = ("total", "count", "null", "noise", "received")

    def state(self) -> dict[str, np.ndarray]:
        """Its state as arrays, for a checkpoint."""
        return {name: getattr(self, name) for name in self._STATE}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore the state of an earlier session."""
        for name in self._STATE:
            setattr(self, name, state[name].copy())

    def result(self, words: Sequence[str], seed: int = 0) -> "xarray.Dataset":
        """The statistics as an ``xarray.Dataset``.

        Variables: ``correlation`` (layer, head, other); ``group`` (layer, head) of the best grouping; ``groups``,
        ``silhouette`` and ``stability`` (layer) of it; ``null_correlation`` (layer, head, other), what is to be
        expected of shuffled maps, and ``null_silhouette`` (layer), the largest of 19 sets of such heads;
        ``has_groups`` (layer), whether the grouping counts (`RULE`); and ``received`` (layer, head, token): the first
        text's heat map, the mean attention that a token receives from the tokens that can see it.
        """
        import xarray

        table = [self._layer(layer, seed) for layer in range(len(self.count))]
        names = ("correlation", "group", "silhouette", "stability", "null_correlation", "null_silhouette")
        columns = {name: np.stack([row[k] for row in table]) for k, name in enumerate(names)}
        dims = {"correlation": ("head", "other"), "group": ("head",), "null_correlation": ("head", "other")}
        variables = {name: (("layer", *dims.get(name, ())), values) for name, values in columns.items()}
        counts = columns["silhouette"] >= LEAST_SILHOUETTE
        counts &= columns["stability"] >= LEAST_STABILITY
        counts &= columns["silhouette"] > columns["null_silhouette"]
        variables |= {
            "groups": (("layer",), np.array([len(np.unique(row)) for row in columns["group"]])),
            "has_groups": (("layer",), counts),
            "received": (("layer", "head", "token"), self.received),
        }
        coords = {"layer": np.arange(1, len(self.count) + 1), "word": ("token", list(words))}
        least = {"least_silhouette": LEAST_SILHOUETTE, "least_stability": LEAST_STABILITY}
        return xarray.Dataset(variables, coords, {**least, "rule": RULE, "weighting": WEIGHTING})

    def _layer(self, layer: int, seed: int) -> tuple[Any, ...]:
        total, count = self.total[layer], self.count[layer]
        whole = averaged(total, count)
        labels, score = grouped(whole)
        steady = stability(total, count, len(np.unique(labels)), seed)
        texts = count.sum(axis=0)
        null, spread = ratio(self.null[layer], texts), np.sqrt(ratio(self.noise[layer], texts**2))
        return whole, labels, score, steady, null, null_silhouette(null, spread, seed)


def averaged(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Correlations (h, h) over some folds, from sums and counts (folds, h, h); nan for a head that never varies."""
    return np.asarray(np.clip(ratio(total.sum(axis=0), count.sum(axis=0)), -1.0, 1.0))


def stability(total: np.ndarray, count: np.ndarray, groups: int, seed: int = 0) -> float:
    """Mean adjusted Rand index of the groups that two halves of the folds find; nan with a single fold."""
    filled = np.flatnonzero(count.any(axis=(1, 2)))
    agreed = []
    for first in _halves(filled, seed):
        rest = np.setdiff1d(filled, first)
        agreed.append(adjusted_rand(*(cut(averaged(total[s], count[s]), groups) for s in (first, rest))))
    return float(np.mean(agreed)) if agreed else float("nan")


def null_silhouette(null: np.ndarray, spread: np.ndarray, seed: int = 0) -> float:
    """The largest of the silhouettes of SHUFFLES sets of heads with shuffled maps; nan for fewer than three heads.

    Correlations of shuffled maps are sums over many rows, so they are drawn as normal numbers with their exact mean
    ``null`` and standard deviation ``spread``, both (h, h).
    """
    heads = len(null)
    if heads < 3:
        return float("nan")
    rng = np.random.default_rng(seed)
    scores = []
    for _ in range(SHUFFLES):
        noise = np.tril(rng.standard_normal((heads, heads)), -1)
        drawn = np.clip(null + spread * (noise + noise.T), -1.0, 1.0)
        scores.append(grouped(drawn)[1])
    return max(scores)


def _halves(filled: np.ndarray, seed: int, most: int = 10) -> list[np.ndarray]:
    """Halves of the folds, at most ``most`` of them, drawn at random."""
    if len(filled) < 2:
        return []
    every = list(combinations(filled, len(filled) // 2))
    chosen = np.random.default_rng(seed).permutation(len(every))[:most]
    return [np.asarray(every[i]) for i in chosen]


def cut(correlations: np.ndarray, k: int) -> np.ndarray:
    """k groups of heads by average linkage on 1 - correlation, numbered in the order of their first head."""
    heads = len(correlations)
    if k <= 1:
        return np.zeros(heads, dtype=int)
    return _in_order(_cuts(_distance(correlations))[heads - k])


def grouped(correlations: np.ndarray) -> tuple[np.ndarray, float]:
    """The grouping with the best mean silhouette among 2 to h - 1 groups, and that silhouette.

    With fewer than three heads there is nothing to choose: one group, silhouette nan.
    """
    heads = len(correlations)
    if heads < 3:
        return np.zeros(heads, dtype=int), float("nan")
    distance = _distance(correlations)
    options = _cuts(distance)[-2:0:-1]  # 2 to h - 1 groups
    scores = silhouettes(distance, options)
    best = int(np.argmax(scores))
    return _in_order(options[best]), float(scores[best])


def _cuts(distance: np.ndarray) -> np.ndarray:
    """Groups (h, h) after 0, 1, ..., h - 1 merges of average linkage; a group has the number of its last merge."""
    return np.asarray(after_merges(linkage(squareform(distance, checks=False), "average")[:, :2].astype(np.int64)))


def _in_order(raw: np.ndarray) -> np.ndarray:
    _, first, labels = np.unique(raw, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[labels]


def _distance(correlations: np.ndarray) -> np.ndarray:
    distance = 1.0 - np.nan_to_num(correlations, nan=0.0)
    np.fill_diagonal(distance, 0.0)
    return np.asarray(np.maximum((distance + distance.T) / 2.0, 0.0))
