"""The tokens behind eigenvectors: leading eigenvectors of a head's O V, read through the embedding."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from metastable.models.model import Model

_ROWS = 8192  # of the vocabulary, widened to float64 at a time


@dataclass(frozen=True)
class Promotion:
    """One eigenvector of a head's O V, read through the embedding: the tokens it points to and away from.

    An eigenvector has no sign of its own; ``toward`` is the side with the stronger single token.
    """

    layer: int
    head: int
    eigenvalue: complex
    toward: tuple[str, ...]
    away: tuple[str, ...]


def upper(values: np.ndarray) -> np.ndarray:
    """Places of the eigenvalues, one of each conjugate pair."""
    return np.flatnonzero(values.imag >= 0.0)


def readout(model: Model, vectors: np.ndarray) -> np.ndarray:
    """Vectors (d, m) through the (un)embedding, (vocabulary, m), with the final norm's gain (and centring)."""
    parts, size = model.require_parts(), model.vocabulary or 0
    final = parts.final_norm()
    if final is not None:
        vectors = vectors - vectors.mean(axis=0) if final.kind == "layer" else vectors
        vectors = final.gain[:, None] * vectors
    return np.concatenate([parts.embedded(slice(k, k + _ROWS)) @ vectors for k in range(0, size, _ROWS)])


def promoted(
    model: Model,
    layer: int,
    values: Sequence[np.ndarray],
    leading: Sequence[tuple[int, int, np.ndarray]],
    count: int,
) -> list[Promotion]:
    """The tokens behind (head, place, eigenvector) of one layer; ``values`` are the eigenvalues of its heads."""
    if not leading:
        return []
    if model.vocabulary is None:  # patches and frames are not read through a vocabulary
        return []
    scores = readout(model, np.stack([vector for _, _, vector in leading], axis=1))  # (vocabulary, m)
    found = []
    for (head, i, _), score in zip(leading, scores.T):
        first, last = _largest(score, count), _largest(-score, count)
        if abs(score[last[0]]) > abs(score[first[0]]):
            first, last = last, first
        found.append(Promotion(layer, head, complex(values[head][i]), _named(model, first), _named(model, last)))
    return found


def _largest(score: np.ndarray, count: int) -> np.ndarray:
    """Places of the ``count`` largest, largest first."""
    near = np.argpartition(-score, min(count, len(score)) - 1)[:count]
    return np.asarray(near[np.lexsort((near, -score[near]))])


def _named(model: Model, ids: np.ndarray) -> tuple[str, ...]:
    if model.tokenizer is None:
        return tuple(f"<{i}>" for i in ids)
    return tuple(model.tokenizer.words([int(i) for i in ids]))
