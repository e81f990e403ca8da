"""Neural collapse in two numbers: how far class means are from a simplex, and how wide classes are beside them."""

import numpy as np


def simplex_distance(means: np.ndarray) -> float:
    """Distance of C points (C, d) from the vertices of a regular simplex around their mean, whatever its size and turn.

    |G / |G| - (I - 11^T/C) / sqrt(C - 1)| in Frobenius norms, G the inner products of the centred points: 0 for a
    simplex (Papyan et al. 2020: equal lengths, all cosines -1/(C - 1)), at most sqrt(2).

    >>> round(simplex_distance(np.eye(4)), 12), round(simplex_distance(np.array([[0.0], [1.0], [5.0]])), 2) > 0.5
    (0.0, True)
    """
    count = len(means)
    centred = means - means.mean(axis=0)
    G = centred @ centred.T
    size = float(np.linalg.norm(G))
    ideal = (np.eye(count) - 1.0 / count) / np.sqrt(count - 1.0)
    return float(np.linalg.norm(G / size - ideal)) if size > 0.0 else float(np.sqrt(2.0))


def variability(x: np.ndarray, labels: np.ndarray) -> float:
    """Spread within classes over spread between them, mean squares, of points (m, d) with labels (m,)."""
    names = np.unique(labels)
    means = np.stack([x[labels == k].mean(axis=0) for k in names])
    inside = np.mean([((x[labels == k] - mean) ** 2).sum(axis=1).mean() for k, mean in zip(names, means)])
    between = ((means - means.mean(axis=0)) ** 2).sum(axis=1).mean()
    return float(inside / max(float(between), 1e-300))


def random_distance(count: int, d: int, rng: np.random.Generator, draws: int = 50) -> float:
    """The mean distance from a simplex of as many random directions."""
    found = []
    for _ in range(draws):
        x = rng.standard_normal((count, d))
        found.append(simplex_distance(x / np.linalg.norm(x, axis=1, keepdims=True)))
    return float(np.mean(found))
