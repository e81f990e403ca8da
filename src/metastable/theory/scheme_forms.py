"""Normalisation schemes as speed regulation: equiangular tokens x = r theta under each scheme, V = Q = K = I.

With p = e^beta/Z, q = e^{beta gamma}/Z, Z = e^beta + (n-1) e^{beta gamma} and a = sum_j A_ij theta_j:

    <theta, a> = p + (n-1) q gamma
    |a|^2      = p^2 + 2 p q (n-1) gamma + q^2 ((n-1) + (n-1)(n-2) gamma)
    g          = 2 q (1-gamma)((n-1) gamma + 1),     gamma' of the sphere

| scheme               | gamma'              | r'                     |
| -------------------- | ------------------- | ---------------------- |
| post-ln (the sphere) | g                   | 0                      |
| ngpt                 | g/|a|               | 0                      |
| pre-ln               | g/r                 | <theta, a>             |
| peri-ln              | g/(r |a|)           | <theta, a>/|a|         |
| depth-scaled         | g/(r sqrt(1+t))     | <theta, a>/sqrt(1+t)   |
| mix-ln               | post-ln, from ``until`` on pre-ln            |
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import solve_ivp

from metastable.errors import InputError, unknown

SCHEMES = ("post-ln", "pre-ln", "peri-ln", "mix-ln", "ngpt", "depth-scaled")


def scheme_rates(
    scheme: str, t: float, gamma: ArrayLike, r: ArrayLike, n: int, beta: ArrayLike, until: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """(gamma', r') at time t of n equiangular tokens of cosine gamma and norm r; ``until`` is Mix-LN's change.

    >>> post, ngpt = (scheme_rates(name, 0.0, 0.0, 1.0, n=6, beta=2.3)[0] for name in ("post-ln", "ngpt"))
    >>> bool(ngpt > post)
    True
    """
    if scheme not in SCHEMES:
        raise unknown("normalisation scheme", scheme, SCHEMES)
    gamma, r, beta = (np.asarray(value, dtype=float) for value in (gamma, r, beta))
    decay = np.exp(-beta * (1.0 - gamma))  # q/p
    p = 1.0 / (1.0 + (n - 1) * decay)
    q = decay * p
    along = p + (n - 1) * q * gamma
    size = np.sqrt(p**2 + 2.0 * p * q * (n - 1) * gamma + q**2 * (n - 1) * (1.0 + (n - 2) * gamma))
    g = 2.0 * q * (1.0 - gamma) * ((n - 1) * gamma + 1.0)
    held = scheme in ("post-ln", "ngpt") or (scheme == "mix-ln" and t < until)
    factor = 1.0 / size if scheme in ("peri-ln", "ngpt") else np.ones_like(size)
    if scheme == "depth-scaled":
        factor = factor / np.sqrt(1.0 + t)
    return g * factor / (1.0 if held else r), np.where(held, 0.0, along * factor)


def scheme_path(
    scheme: str,
    times: ArrayLike,
    n: int,
    beta: ArrayLike,
    gamma0: ArrayLike = 0.0,
    r0: ArrayLike = 1.0,
    until: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """(gamma, r) at increasing times from 0 on, to 1e-11, (T, ...): arrays of beta, gamma0 and r0 are solved as one.

    >>> gamma, r = scheme_path("pre-ln", [2.0], n=6, beta=2.3)
    >>> round(float(gamma[0]), 8), round(float(r[0]), 8)
    (0.28562294, 2.30291326)
    >>> gamma, r = scheme_path("pre-ln", [1.0, 2.0], n=6, beta=[0.7, 1.1, 2.3])
    >>> gamma.shape, round(float(gamma[1, 2]), 8)
    ((2, 3), 0.28562294)
    """
    asked = np.atleast_1d(np.asarray(times, dtype=float))
    if len(asked) == 0 or asked[0] < 0.0 or (np.diff(asked) <= 0).any():
        raise InputError(f"Times must increase from 0 on, not {times!r}.")
    if scheme == "mix-ln":
        early, late = asked[asked <= until], asked[asked > until]
        gamma, r = scheme_path("post-ln", np.union1d(early, [until]), n, beta, gamma0, r0)
        if len(late) == 0:
            return gamma[: len(early)], r[: len(early)]
        after = scheme_path("pre-ln", late - until, n, beta, gamma[-1], r[-1])
        return np.concatenate([gamma[: len(early)], after[0]]), np.concatenate([r[: len(early)], after[1]])
    betas, *start = np.broadcast_arrays(np.asarray(beta, float), np.asarray(gamma0, float), np.asarray(r0, float))
    shape = (2, *betas.shape)
    rtol = max(1e-12 / np.sqrt(betas.size), 3e-14)  # the solver bounds a root mean square, one case could have all

    def rates(t: float, y: np.ndarray) -> np.ndarray:
        gamma, r = y.reshape(shape)
        return np.stack(scheme_rates(scheme, t, gamma, r, n, betas)).ravel()

    end = max(float(asked[-1]), 1e-300)
    solved = solve_ivp(rates, (0.0, end), np.ravel(start), method="DOP853", rtol=rtol, atol=1e-14, t_eval=asked)
    gamma, r = np.moveaxis(solved.y.reshape(*shape, len(asked)), -1, 1)
    return gamma, r
