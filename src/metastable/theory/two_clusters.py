"""Two tokens, or two collapsed clusters, on the sphere: their angle, and how long it takes to close.

Q = K = V = I. In u = ln tan(phi/2) the angle's equation is u' = -B(a), where
a = beta(1 - cos phi) = 2 beta/(1+e^{-2u}): the singularities at 0 and pi are gone, and a lifetime is the
integral of 1/B, a smooth function. Everything is summed in logarithms, so beta may be as large as one likes.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logit, logsumexp

from metastable.errors import InputError
from metastable.theory.equiangular import check_normalise

_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(32)


def two_cluster_rate(phi: ArrayLike, beta: float, m1: int = 1, m2: int = 1, normalise: str = "softmax") -> np.ndarray:
    """phi' for two clusters of m1 and m2 tokens at angle phi; m1 = m2 = 1 is the two-token equation.

    SA: -sin(phi) c [m2/(m1 e^beta + m2 c) + m1/(m2 e^beta + m1 c)] with c = e^{beta cos phi};
    USA: -sin(phi) c.

    >>> float(two_cluster_rate(np.pi / 2, beta=0.0))
    -1.0
    """
    phi = np.asarray(phi, dtype=float)
    a = 2.0 * beta * np.sin(phi / 2.0) ** 2  # beta (1 - cos phi) without cancellation
    rate: np.ndarray = -np.sin(phi) * np.exp(-_log_slowness(a, beta, m1, m2, normalise))
    return rate


def two_cluster_log_time(
    phi0: float, phi1: float, beta: float, m1: int = 1, m2: int = 1, normalise: str = "softmax"
) -> float:
    """Natural logarithm of the time in which the angle closes from phi0 to phi1 < phi0.

    This is the exact lifetime of a two-cluster metastable state; it grows like e^{beta(1 - cos phi0)}. Panels
    are cut so that a changes by at most 4 and u by at most 2 in each: the nearest singularity of the
    integrand (a = +-i pi plus a real number, u = +-i pi/2) then lies outside the Bernstein ellipse rho = 3.4,
    and 32 Gauss nodes converge to rounding. Panels whose integrand is e^{-800} of the largest are left out.

    >>> round(float(np.exp(two_cluster_log_time(np.pi / 2, 1e-3, beta=0.0))), 6)
    7.600902
    """
    if not 0.0 < phi1 <= phi0 < np.pi:
        raise InputError(
            f"The angle closes from phi0 < pi to phi1 > 0, but phi0 = {phi0!r} and phi1 = {phi1!r} were given."
        )
    if phi0 == phi1:
        return -np.inf
    u0, u1 = np.log(np.tan(phi0 / 2.0)), np.log(np.tan(phi1 / 2.0))
    edges = _panels(u0, u1, beta)
    half = np.diff(edges)[:, None] / 2.0
    u = edges[:-1, None] + half * (1.0 + _NODES)  # (panels, nodes)
    a = 2.0 * beta / (1.0 + np.exp(-2.0 * u))
    return float(logsumexp(_log_slowness(a, beta, m1, m2, normalise), b=half * _NODE_WEIGHTS))


def two_cluster_time(
    phi0: float, phi1: float, beta: float, m1: int = 1, m2: int = 1, normalise: str = "softmax"
) -> float:
    """Time in which the angle between two clusters closes from phi0 to phi1 (see `two_cluster_log_time`)."""
    return float(np.exp(two_cluster_log_time(phi0, phi1, beta, m1, m2, normalise)))


def causal_second_token_rate(phi: ArrayLike, beta: float) -> np.ndarray:
    """phi' = -sin(phi)/(1 + e^{beta(1-cos phi)}) for causal token 2 when V = I: token 1 never moves.

    Half the two-token rate: only one of the two tokens walks.
    """
    return 0.5 * two_cluster_rate(phi, beta)


def causal_second_token_time(phi0: float, phi1: float, beta: float) -> float:
    """Time in which causal token 2 comes from angle phi0 to phi1 of token 1: twice the two-token time."""
    return 2.0 * two_cluster_time(phi0, phi1, beta)


def _log_slowness(a: np.ndarray, beta: float, m1: int, m2: int, normalise: str) -> np.ndarray:
    """ln(1/B): SA, B = m2/(m1 e^a + m2) + m1/(m2 e^a + m1); USA, B = e^{beta - a}."""
    check_normalise(normalise)
    if min(m1, m2) < 1:
        raise InputError(f"A cluster holds at least one token, not {min(m1, m2)!r}.")
    if normalise == "unnormalised":
        return a - beta
    first = np.log(m2) - np.logaddexp(np.log(m1) + a, np.log(m2))
    second = np.log(m1) - np.logaddexp(np.log(m2) + a, np.log(m1))
    slowness: np.ndarray = -np.logaddexp(first, second)
    return slowness


def _panels(u0: float, u1: float, beta: float) -> np.ndarray:
    """Edges in u from u1 to u0, fine enough in u and in a = 2 beta/(1+e^{-2u})."""
    top = 2.0 * beta / (1.0 + np.exp(-2.0 * u0))
    bottom = 2.0 * beta / (1.0 + np.exp(-2.0 * u1))
    lowest = max(bottom, top - 800.0)
    if lowest > bottom:  # below, the integrand is e^{-800} of its maximum
        u1 = float(logit(lowest / (2.0 * beta))) / 2.0
    levels = np.linspace(lowest, top, max(2, int(np.ceil((top - lowest) / 4.0)) + 1))[1:-1]
    by_level = logit(levels / (2.0 * beta)) / 2.0 if beta > 0 else np.empty(0)
    by_length = np.linspace(u1, u0, max(2, int(np.ceil((u0 - u1) / 2.0)) + 1))
    inside = by_level[(by_level > u1) & (by_level < u0)]
    return np.unique(np.concatenate([by_length, inside]))
