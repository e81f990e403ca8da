"""Tokens that start at equal angles on the sphere: scalar equations and their solution in closed form.

With Q = K = V = I and full attention, tokens whose pairwise inner products all equal gamma stay so, and gamma
obeys one scalar equation, for softmax attention ("softmax", SA) and for weights e^{beta <x_i, x_j>}/n
("unnormalised", USA). The closed forms come from the partial fractions
1/((1-g)((n-1)g+1)) = (1/n)(1/(1-g) + 1/(g + 1/(n-1))).
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import exp1, expi, expit

from metastable.errors import InputError, unknown

_NORMALISE = ("softmax", "unnormalised")


def check_normalise(name: str) -> None:
    """Refuse anything but the two attentions that these formulas know."""
    if name not in _NORMALISE:
        raise unknown("normalise", name, _NORMALISE)


def equiangular_rate(gamma: ArrayLike, n: int, beta: float, normalise: str = "softmax") -> np.ndarray:
    """gamma' for n equiangular tokens.

    SA: 2 e^{beta gamma}(1-gamma)((n-1)gamma+1)/(e^beta + (n-1)e^{beta gamma});
    USA: (2/n) e^{beta gamma}(1-gamma)((n-1)gamma+1).

    >>> float(equiangular_rate(0.0, n=2, beta=0.0))
    1.0
    """
    check_normalise(normalise)
    gamma = np.asarray(gamma, dtype=float)
    common = 2.0 * (1.0 - gamma) * ((n - 1) * gamma + 1.0)
    if normalise == "unnormalised":
        return common * np.exp(beta * gamma) / n
    decay = np.exp(-beta * (1.0 - gamma))  # e^{-beta(1-gamma)}, never large
    return common * decay / (1.0 + (n - 1) * decay)


def equiangular_time(gamma: float, n: int, beta: float, gamma0: float = 0.0, normalise: str = "softmax") -> float:
    """Time at which the common inner product has risen from ``gamma0`` to ``gamma``, in closed form.

    With a = 1/(n-1) and D[f](g) = f(gamma0) - f(gamma):

    - SA: (n-1)/(2n) ln[((n-1)g+1)/(1-g)] from gamma0 to gamma, plus
      1/(2n) { D[Ei(beta(1-g))] + e^{beta(1+a)} D[E1(beta(g+a))] };
    - USA: 1/2 { e^{-beta} D[Ei(beta(1-g))] + e^{beta a} D[E1(beta(g+a))] }.

    Scaled exponential integrals carry the exponentials, so nothing overflows before the time itself does.

    >>> round(equiangular_time(1.0 - 1e-3, n=32, beta=9.0), 2)
    178.73
    """
    check_normalise(normalise)
    _check_range(n, gamma0, gamma)
    return _time(1.0 - gamma0, 1.0 - gamma, n, beta, normalise)


def equiangular_path(t: ArrayLike, n: int, beta: float, gamma0: float = 0.0, normalise: str = "softmax") -> np.ndarray:
    """gamma(t): the closed-form time inverted, for one time or an array of times.

    The unknown is s = ln[((n-1)gamma+1)/(1-gamma)], for which 0 < s' <= 2 (SA) or 2 e^{beta gamma} (USA): a
    root is bracketed from the start, and 1 - gamma = n/(e^s + n - 1) keeps its digits.

    >>> float(equiangular_path(1.0, n=2, beta=0.0).round(12)) == round(float(np.tanh(1.0)), 12)
    True
    """
    check_normalise(normalise)
    _check_range(n, gamma0, 1.0)
    start = np.log(((n - 1) * gamma0 + 1.0) / (1.0 - gamma0))
    fastest = 2.0 if normalise == "softmax" else 2.0 * np.exp(beta)

    def one(time: float) -> float:
        if time == 0.0:
            return gamma0
        top = start + fastest * time
        # beyond s = 700 the distance 1 - gamma is below 1e-300
        top = min(top, 700.0)
        if _time(1.0 - gamma0, _gap(top, n), n, beta, normalise) <= time:
            return 1.0 - _gap(top, n)
        found = brentq(
            lambda s: _time(1.0 - gamma0, _gap(s, n), n, beta, normalise) - time,
            start,
            top,
            xtol=1e-14,
            rtol=1e-15,
        )
        return 1.0 - _gap(float(found), n)

    times = np.asarray(t, dtype=float)
    return np.array([one(float(v)) for v in times.ravel()]).reshape(times.shape)


def prelayernorm_rates(gamma: ArrayLike, r: ArrayLike, n: int, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """(gamma', r') for equiangular tokens of common length r under pre-LayerNorm attention (SA).

    Attention sees the directions, so gamma' is the spherical rate over r, and r' = (e^beta + (n-1) gamma
    e^{beta gamma})/Z. As gamma tends to 1, r' tends to 1 and gamma' to 2(1-gamma)/t, so that 1 - gamma
    falls like t^{-2}.
    """
    gamma = np.asarray(gamma, dtype=float)
    decay = np.exp(-beta * (1.0 - gamma))
    growth = (1.0 + (n - 1) * gamma * decay) / (1.0 + (n - 1) * decay)
    return equiangular_rate(gamma, n, beta) / r, growth


def _gap(s: float, n: int) -> float:
    """1 - gamma = n/(e^s + n - 1), written so that neither end overflows."""
    return float(n * expit(-s) / (1.0 + (n - 2) * expit(-s)))


def _time(gap0: float, gap: float, n: int, beta: float, normalise: str) -> float:
    """The closed form in terms of 1 - gamma, which is what must keep its digits near consensus."""
    a = 1.0 / (n - 1)
    low, high = (1.0 - gap0) + a, (1.0 - gap) + a  # gamma + 1/(n-1) at both ends
    logs = np.log(high / low) + np.log(gap0 / gap)  # ln[((n-1)g+1)/(1-g)] between the ends
    if beta == 0.0:
        return float(0.5 * logs)
    if normalise == "softmax":
        fast = _scaled_ei(beta * gap0, 0.0) - _scaled_ei(beta * gap, 0.0)
        slow = np.exp(beta * gap0) * _scaled_e1(beta * low) - np.exp(beta * gap) * _scaled_e1(beta * high)
        return float(((n - 1) * logs + fast + slow) / (2.0 * n))
    fast = _scaled_ei(beta * gap0, beta) - _scaled_ei(beta * gap, beta)
    slow = np.exp(-beta * (1.0 - gap0)) * _scaled_e1(beta * low) - np.exp(-beta * (1.0 - gap)) * _scaled_e1(beta * high)
    return float(0.5 * (fast + slow))


def _scaled_ei(x: float, shift: float) -> float:
    """e^{-shift} Ei(x) for x > 0, also where Ei alone would overflow."""
    if x <= 50.0:
        return float(np.exp(-shift) * expi(x))
    return float(np.exp(x - shift) * _divergent_sum(x, 1.0))


def _scaled_e1(x: float) -> float:
    """e^x E1(x) for x > 0."""
    if x <= 50.0:
        return float(np.exp(x) * exp1(x))
    return _divergent_sum(x, -1.0)


def _divergent_sum(x: float, sign: float) -> float:
    """sum_k sign^k k!/x^{k+1}, 30 terms: for x >= 50 the error is below 30!/50^30 = 3e-19 of the first."""
    total, term = 0.0, 1.0 / x
    for k in range(1, 31):
        total += term
        term *= sign * k / x
    return total


def _check_range(n: int, gamma0: float, gamma: float) -> None:
    if n < 2:
        raise InputError(f"Equal angles need n >= 2 tokens, not {n!r}.")
    if not -1.0 / (n - 1) < gamma0 <= gamma <= 1.0 or gamma0 == 1.0:
        raise InputError(
            f"The inner product rises from gamma0 > {-1.0 / (n - 1):.6g} towards 1, but gamma0 = "
            f"{gamma0!r} and gamma = {gamma!r} were given."
        )
