"""Two groups of tokens of different sizes under every normalisation scheme, in the plane of the two.

Equiangular tokens have symmetric attention, so that A^T in the place of A moves them alike, and clouds are compared
with each other only. Here the groups are two particles of masses m_1 and m_2 in a plane, by formulas in plain NumPy:
angles and norms must agree. (Added after data had been seen, because a transposed simulator went unnoticed.)
"""

import numpy as np

from metastable.experiments import plain_formulas as plain
from metastable.experiments import sphere_pairs
from metastable.experiments.base import Data
from metastable.theory.verdicts import Verdict, judge_share

ALLOWED = 1e-5  # as for tokens at equal angles
STEPS = 200  # per unit of time


def velocity(t: float, x: np.ndarray, scheme: str, beta: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """Velocities of two groups (b, 2, 2) under one scheme, mix-ln apart."""
    r = np.linalg.norm(x, axis=-1, keepdims=True)
    theta = x / r
    weights = masses * np.exp(beta[:, None, None] * (theta @ np.swapaxes(theta, 1, 2) - 1.0))
    u = weights @ theta / weights.sum(axis=-1, keepdims=True)
    if scheme in ("peri-ln", "ngpt"):
        u = u / np.linalg.norm(u, axis=-1, keepdims=True)
    if scheme == "depth-scaled":
        u = u / np.sqrt(1.0 + t)
    if scheme in ("post-ln", "ngpt"):
        u = r * (u - (u * theta).sum(axis=-1, keepdims=True) * theta)
    return np.asarray(u)


def places(scheme: str, angle: np.ndarray, n: int, beta: np.ndarray, t: float, until: float) -> np.ndarray:
    """The groups (b, 2, 2) at time t from unit vectors at the given angles.

    >>> one = np.array([1.0])
    >>> x = places("post-ln", one, 3, 0.0 * one, 1.0, 1.5)[0]
    >>> bool(np.isclose(np.arccos(x[0] @ x[1]), sphere_pairs.exact(one, 3, 0.0, 1.0)[0]))
    True
    """
    x = np.stack([np.stack([np.cos(a), np.sin(a)], axis=-1) for a in (0.0 * angle, angle)], axis=1)
    masses = np.array(sphere_pairs.sizes(n), dtype=float)
    parts = [("post-ln", min(t, until)), ("pre-ln", max(0.0, t - until))] if scheme == "mix-ln" else [(scheme, t)]
    for part, length in parts:
        if length > 0.0:

            def field(s: float, y: np.ndarray, part: str = part) -> np.ndarray:
                return velocity(s, y, part, beta, masses)

            x = plain.moved(field, x, length, max(1, round(length * STEPS)))
    return x


def measured(scheme: str, x: np.ndarray, angle: np.ndarray, beta: np.ndarray, t: float, until: float) -> Data:
    """How far angles, and norms relative to their own, of groups among tokens (b, n, d) at time t are off, (b,)."""
    y = places(scheme, angle, x.shape[-2], beta, t, until)
    own, law = (np.linalg.norm(z[:, [0, -1]], axis=-1) for z in (x, y))
    off = np.abs(sphere_pairs.apart(x) - sphere_pairs.apart(y))
    return {f"groups {scheme}": np.maximum(off, np.abs(own / law - 1.0).max(axis=1))}


def verdict(data: Data, schemes: tuple[str, ...], source: str) -> Verdict:
    """Every group of every scheme within ALLOWED."""
    off = np.concatenate([data[f"groups {scheme}"] for scheme in schemes])
    return judge_share(
        "Two groups of tokens of different sizes move as two heavy particles under every scheme.",
        source,
        [bool(value <= ALLOWED) for value in off],
        exact=True,
        notes=f"largest difference of angles, and of norms relative to their own: {off.max():.1e}",
    )
