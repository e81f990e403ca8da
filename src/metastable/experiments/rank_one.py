"""How far tokens are from one point and from rank one, and what one layer of pure attention leaves of that."""

import numpy as np

from metastable.equation.dynamics import Dynamics

NEAR, FAR = 1e-2, 1e-7  # distances from one point between which a geometric rate is read


def from_one_point(x: np.ndarray) -> np.ndarray:
    """|X - 1 m^T| / |X| of tokens (..., n, d), m their mean: 0 where all tokens are one point.

    Its square is 1 minus the mean cosine of all pairs, where tokens have one length.
    """
    apart = np.linalg.norm(x - x.mean(axis=-2, keepdims=True), axis=(-2, -1))
    return np.asarray(apart / np.linalg.norm(x, axis=(-2, -1)))


def from_rank_one(x: np.ndarray) -> np.ndarray:
    """The second singular value of tokens (..., n, d) over the first: 0 where they lie on one line through 0."""
    values = np.linalg.svd(x, compute_uv=False)
    return np.asarray(values[..., 1] / values[..., 0])


def diameter(x: np.ndarray) -> np.ndarray:
    """The largest distance of two tokens (..., n, d)."""
    return np.asarray(np.linalg.norm(x[..., :, None, :] - x[..., None, :, :], axis=-1).max(axis=(-2, -1)))


def sizes(member: Dynamics) -> tuple[float, float]:
    """beta |Q^T K| and |V| of one head, spectral norms."""
    d = member.weights.dimension
    score, value = member.weights.score_map(d=d)[0], member.weights.value_map(d=d)[0]
    return float(member.beta) * float(np.linalg.norm(score, 2)), float(np.linalg.norm(value, 2))


def excess(member: Dynamics, x: np.ndarray) -> np.ndarray:
    """D' over its bound |V| D tanh(beta |Q^T K| D^2 / 4) for every layer of tokens (T, n, d).

    Layers whose bound is below the rounding of the tokens, 1e-13 of their size, say nothing and count as 0.
    """
    score, value = sizes(member)
    D = diameter(x)
    bound = value * D[:-1] * np.tanh(score * D[:-1] ** 2 / 4.0)
    size = np.linalg.norm(x, axis=-1).max(axis=-1)[:-1]
    return np.where(bound > 1e-13 * value * size, D[1:] / np.maximum(bound, 1e-300), 0.0)


def cubic(member: Dynamics, x: np.ndarray) -> np.ndarray:
    """beta V C K^T Q e_i, (n, d): what one layer of pure attention leaves of tokens near one point."""
    m, beta = x.mean(axis=0), float(member.beta)
    e = x - m
    M, V = member.weights.score_map()[0], member.weights.value_map()[0]  # Q^T K
    score = beta * e @ M.T @ m
    p = np.exp(score - score.max())
    p /= p.sum()
    mean = p @ e
    C = (p[:, None] * e).T @ e - np.outer(mean, mean)
    return np.asarray(beta * e @ M @ C @ V.T)


def rates(distance: np.ndarray) -> np.ndarray:
    """The mean factor per layer of distances (b, L) while they lie between NEAR and FAR; nan for fewer than 3 layers.

    >>> float(rates(np.array([0.004 * 0.5 ** np.arange(8)]))[0].round(6))
    0.5
    """
    found = []
    for row in distance:
        inside = np.flatnonzero((row <= NEAR) & (row >= FAR))
        whole = len(inside) > 2 and inside[-1] - inside[0] == len(inside) - 1
        found.append((row[inside[-1]] / row[inside[0]]) ** (1.0 / (len(inside) - 1)) if whole else np.nan)
    return np.array(found)
