"""Exact solutions in R^d: the second paper's flow (1), its rescaling (4), and its discrete time (3)."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import expm

from metastable.errors import InputError

_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(32)


def rescaled(t: float, V: ArrayLike, x: ArrayLike) -> np.ndarray:
    """z_i = e^{-tV} x_i, the change of variable between equations (1) and (4)."""
    return np.asarray(np.asarray(x, dtype=float) @ expm(-t * np.asarray(V, dtype=float)).T)  # (n, d)


def unscaled(t: float, V: ArrayLike, z: ArrayLike) -> np.ndarray:
    """x_i = e^{tV} z_i."""
    return rescaled(-t, V, z)


def uniform_attention_path(t: float, V: ArrayLike, x: ArrayLike) -> np.ndarray:
    """Tokens at time t when Q^T K = 0, so that attention is 1/n for ever: x_i(0) + (e^{tV} - I) xbar_0."""
    x = np.asarray(x, dtype=float)
    mean = x.mean(axis=0)
    return np.asarray(x + (expm(t * np.asarray(V, dtype=float)) - np.eye(len(mean))) @ mean)  # (n, d)


def uniform_attention_rescaled_path(t: float, V: ArrayLike, x: ArrayLike) -> np.ndarray:
    """The same solution rescaled: z_i = e^{-tV}(x_i(0) - xbar_0) + xbar_0."""
    x = np.asarray(x, dtype=float)
    mean = x.mean(axis=0)
    return np.asarray(rescaled(t, V, x - mean) + mean)  # (n, d)


def two_token_line_rate(u: ArrayLike, score: float = 1.0, value: float = 1.0) -> np.ndarray:
    """u' for tokens +u and -u on the line, Q K = ``score``, V = ``value``: u' = value u tanh(score u^2)."""
    u = np.asarray(u, dtype=float)
    return value * u * np.tanh(score * u**2)


def two_token_line_limit(u0: float, score: float = 1.0) -> float:
    """Limit of z = e^{-tV} u for tokens +u0 and -u0 on the line, Q K = ``score`` > 0 and any V > 0.

    u0 exp(-1/2 int_{score u0^2}^inf (1 - tanh w)/(w tanh w) dw), and (1 - tanh)/tanh = 2/(e^{2w} - 1). The
    integral is taken in s = ln w: 2/expm1(2 e^s) is smooth, its nearest pole at Im s = pi/2.

    >>> round(two_token_line_limit(1.0), 5), round(two_token_line_limit(0.5), 5)
    (0.9483, 0.18738)
    """
    if score <= 0.0:
        raise InputError(f"The limit needs Q K > 0, not {score!r}.")
    start = score * u0**2
    if start == 0.0:
        return 0.0
    top = np.log(25.0)  # e^{-50} is below rounding of the integral's value at any w the lower end can have
    if np.log(start) >= top:
        return float(u0)
    edges = np.linspace(np.log(start), top, max(2, int(np.ceil(2.0 * (top - np.log(start)))) + 1))
    half = np.diff(edges)[:, None] / 2.0
    s = edges[:-1, None] + half * (1.0 + _NODES)  # (panels, nodes)
    integral = float((half * _NODE_WEIGHTS * 2.0 / np.expm1(2.0 * np.exp(s))).sum())
    return float(u0 * np.exp(-0.5 * integral))


def collapse_covariance(t: float, C0: ArrayLike) -> np.ndarray:
    """Covariance of small centred tokens under V = -I, Q^T K = I: C' = -2 C^2, so C = (C0^{-1} + 2tI)^{-1}.

    Written C0 (I + 2t C0)^{-1}, which a singular C0 does not hurt. tr C tends to rank(C0)/(2t).

    >>> collapse_covariance(0.5, [[1.0]]).tolist()
    [[0.5]]
    """
    C0 = np.asarray(C0, dtype=float)
    return np.linalg.solve(np.eye(len(C0)) + 2.0 * t * C0, C0)


def discrete_step(x: ArrayLike, dt: float, Q: ArrayLike, K: ArrayLike, V: ArrayLike) -> np.ndarray:
    """One layer of equation (3): x_i + dt sum_j P_ij V x_j."""
    x = np.asarray(x, dtype=float)
    P = _softmax((x @ np.asarray(Q).T) @ (x @ np.asarray(K).T).T)  # (n, n)
    return np.asarray(x + dt * P @ x @ np.asarray(V).T)


def discrete_rescaled_step(z: ArrayLike, k: int, dt: float, Q: ArrayLike, K: ArrayLike, V: ArrayLike) -> np.ndarray:
    """One step of Remark 4's recursion for z^[k] = R^{-k} x^[k], R = I + dt V.

    The printed denominator has z_l on the query side; it must be z_i, or the rows of P do not sum to one.
    """
    z, V = np.asarray(z, dtype=float), np.asarray(V, dtype=float)
    R = np.eye(len(V)) + dt * V
    x = z @ np.linalg.matrix_power(R, k).T  # (n, d)
    P = _softmax((x @ np.asarray(Q).T) @ (x @ np.asarray(K).T).T)  # (n, n)
    return np.asarray(z + dt * (P @ z - z) @ np.linalg.solve(R, V).T)


def ginibre_dominant_positive_2d() -> float:
    """Chance that a real 2 x 2 Ginibre matrix has a real positive dominant eigenvalue: 1/(2 sqrt 2).

    Both eigenvalues are real with chance 1/sqrt 2 (Edelman), and M and -M have the same law.
    """
    return float(1.0 / (2.0 * np.sqrt(2.0)))


def _softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
