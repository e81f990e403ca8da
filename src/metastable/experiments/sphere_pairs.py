"""Two groups of tokens on the sphere, two thirds of them in one place and one third in another, Q = K = I, V = sI:
their angle is known exactly.

With m_1 and m_2 tokens, in any dimension,

    phi' = -s sin(phi) (m_2/(m_1 e^a + m_2) + m_1/(m_2 e^a + m_1)),   a = beta (1 - cos phi),

and -s sin(phi) e^{beta cos phi} under unnormalised attention. Clusters and averages look alike at other
beta, or with A^T in the place of A; this angle does not, for the groups are of different sizes. An experiment runs them
by its own call of the simulator, with its own shapes, so that they are made by the engine that makes its runs.

(All verdicts on them were added after data had been seen, because the others went through a broken simulator.)
"""

from collections.abc import Sequence

import numpy as np

from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Data
from metastable.theory.verdicts import Verdict, judge_share

TIME = 1.0
ALLOWED = 1e-4  # radians: rk4 in steps of 0.1 errs by 1e-5 or less; half the beta or A^T shows by 1e-2 or more
STEPS = 200  # per unit of time
SAID = "exact solution of two clusters; no claim of a paper: it notices beta and rows and columns of attention"


def sizes(n: int) -> tuple[int, int]:
    """How many of n tokens are in the first place and in the other.

    >>> sizes(3), sizes(32)
    ((2, 1), (22, 10))
    """
    return n - n // 3, n // 3


def tokens(n: int, d: int, runs: int, seed: int, beta: float | np.ndarray = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Tokens (runs, n, d) and their angles (runs,), drawn from 0.5 to 2; nearer at large beta, where all else waits."""
    rng = np.random.default_rng([seed, n, d, 37])
    angle = rng.uniform(0.5, 2.0, runs) / np.sqrt(np.maximum(1.0, beta))
    first = rng.standard_normal((runs, d))
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    across = rng.standard_normal((runs, d))
    across -= (across * first).sum(axis=1, keepdims=True) * first
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    other = np.cos(angle)[:, None] * first + np.sin(angle)[:, None] * across
    many = sizes(n)
    return np.concatenate([np.repeat(p[:, None], m, axis=1) for p, m in zip((first, other), many)], axis=1), angle


def apart(x: np.ndarray) -> np.ndarray:
    """The angle between the first and the last token of (..., n, d)."""
    y = x[..., [0, -1], :] / np.linalg.norm(x[..., [0, -1], :], axis=-1, keepdims=True)
    return np.asarray(2.0 * np.arcsin(np.minimum(1.0, np.linalg.norm(y[..., 0, :] - y[..., 1, :], axis=-1) / 2.0)))


def exact(
    angle: np.ndarray, n: int, beta: float | np.ndarray, t: float, sign: float = 1.0, normalise: str = "softmax"
) -> np.ndarray:
    """The angle at time t from those at the start; ``beta`` one number, or one for each.

    >>> float(exact(np.array([1.0]), 3, 0.0, 1.0).round(4)[0])  # beta = 0: tan(phi/2) shrinks like e^{-t}
    0.3967
    """
    (m1, m2), betas = sizes(n), np.broadcast_to(np.asarray(beta, float), np.shape(angle))

    def rate(_: float, phi: np.ndarray) -> np.ndarray:
        if normalise == "unnormalised":  # sums are divided by n
            return np.asarray(-sign * np.sin(phi) * np.exp(betas * np.cos(phi)))
        own = np.exp(betas * (1.0 - np.cos(phi)))  # what a token gives to its own place, beside 1 for the other
        return np.asarray(-sign * np.sin(phi) * (m2 / (m1 * own + m2) + m1 / (m2 * own + m1)))

    return plain.moved(rate, angle, t, max(1, round(t * STEPS)))


def measured(
    x: np.ndarray,
    angle: np.ndarray,
    beta: float | np.ndarray,
    t: float = TIME,
    sign: float = 1.0,
    normalise: str = "softmax",
    key: str = "groups",
) -> Data:
    """Angles of tokens (runs, n, d) at time t, and what they should be."""
    return {key: apart(x), f"{key} exact": exact(angle, x.shape[-2], beta, t, sign, normalise)}


def verdict(data: Data, where: str, keys: Sequence[str] = ("groups",), allowed: float = ALLOWED) -> Verdict:
    """Every angle within ``allowed``; see the module's last lines."""
    off = np.concatenate([np.abs(data[key] - data[f"{key} exact"]) for key in keys])
    return judge_share(
        f"Two groups of tokens of different sizes move as two clusters ({where}).",
        SAID,
        [bool(value <= allowed) for value in off],
        exact=True,
        notes=f"largest difference of the angle {off.max():.1e} rad, allowed {allowed:.0e}",
    )
