"""How far the cosines of a text's embedded tokens are from a normal law."""

from collections.abc import Sequence

import numpy as np
from scipy.stats import kstest

from metastable.models.layer_similarity import beside_mean, gram, unit_tokens
from metastable.models.model import Model

READINGS = (
    "Raw cosines, all pairs",
    "Raw cosines, pairs of different tokens",
    "Centred cosines, all pairs",
    "Centred cosines, pairs of different tokens",
)


def distance_from_normal(values: np.ndarray) -> float:
    """Kolmogorov's distance of a sample from the normal law with its own mean and deviation; nan for fewer than 20.

    >>> distance_from_normal(np.linspace(-1.0, 1.0, 2001)).__round__(3)
    0.057
    """
    spread = float(values.std()) if len(values) >= 20 else 0.0
    return float(kstest((values - values.mean()) / spread, "norm").statistic) if spread > 0.0 else float("nan")


def normality(model: Model, text: str | Sequence[int], longest: int = 512) -> np.ndarray:
    """The distance at layer 0 for each of READINGS, and for as many random directions of the same dimension, (5,)."""
    reading = model.read(text, min(longest, model.longest))
    if reading is None:
        return np.full(len(READINGS) + 1, np.nan)
    first: list[np.ndarray] = []

    def see(layer: int, x: np.ndarray) -> None:
        if layer == 0:
            first.append(np.array(x))

    model.watch(reading.given, 1, see, lambda layer, A: None)
    ids = model.tokens(reading.given, len(first[0]))[0]
    u, kept = unit_tokens(first[0])
    v, beside = beside_mean(u, float(np.finfo(first[0].dtype).eps))
    found = []
    for unit, names in ((u, ids[kept]), (v, ids[kept][beside])):
        upper = np.triu_indices(len(unit), 1)
        cosine, different = gram(unit)[upper], names[upper[0]] != names[upper[1]]
        found += [distance_from_normal(cosine), distance_from_normal(cosine[different])]
    random = np.random.default_rng(len(u)).standard_normal(u.shape)
    random /= np.linalg.norm(random, axis=1, keepdims=True)
    return np.array([*found, distance_from_normal((random @ random.T)[np.triu_indices(len(random), 1)])])
