"""Least effort in closed form: one token on the sphere, V free, from x to y in one unit of time.

A token alone sees itself: x' = V x - <V x, x> x. The effort of V(t) is the integral of its squared Frobenius norm.

| V                       | least effort for the angle theta        | how                                            |
|-------------------------|-----------------------------------------|------------------------------------------------|
| any function of time    | theta^2                                 | V = x' x^T along the great circle              |
| constant                | g(theta), between theta^2 and 2 theta^2 | phi' = a + b cos(2 phi - theta), 2 a^2 + 2 b^2 |
| constant on L stretches | L^2 g(theta / L)                        | the same on every stretch                      |

A velocity v at x needs V x = v, and no matrix with V x = v is shorter than v x^T, of norm |v|: the first line. A
constant V turns tokens of the plane of x and y by phi' = a + b cos 2 phi + c sin 2 phi, at the price
2 (a^2 + b^2 + c^2); by symmetry the extreme lies in the middle of the way. With r^2 = (a - b)/(a + b) the time is one
when sqrt(a^2 - b^2) = 2 arctan(r tan(theta/2)), so that g(theta) is the minimum over r of
4 arctan^2(r tan(theta/2)) (r^2 + 1/r^2).
V may be taken in that plane: that leaving it does not pay is not proved here, only tried.
"""

from functools import lru_cache

import numpy as np
from scipy.optimize import minimize_scalar

_TINY = 1e-6


@lru_cache(maxsize=100_000)
def constant_effort(theta: float) -> float:
    """g(theta): the least effort of a constant V.

    >>> round(constant_effort(1e-3) / 1e-6, 4), round(constant_effort(np.pi) / np.pi**2, 4)
    (1.0, 2.0)
    """
    if theta < _TINY:
        return theta**2
    if theta > np.pi - _TINY:
        return 2.0 * np.pi**2  # tan(theta/2) is infinite: r = 1
    u = np.tan(theta / 2.0)

    def effort(log_r: float) -> float:
        r = np.exp(log_r)
        return float(4.0 * np.arctan(r * u) ** 2 * (r**2 + r**-2))

    found = minimize_scalar(effort, bounds=(-12.0, 0.5), method="bounded", options={"xatol": 1e-10})
    return float(found.fun)


def least_effort(theta: float, pieces: int | None = None) -> float:
    """The least effort of a V that is constant on ``pieces`` equal stretches of time; None: any function of time.

    >>> least_effort(2.0), round(least_effort(2.0, 8), 3), round(least_effort(2.0, 1), 3)
    (4.0, 4.042, 6.948)
    """
    return theta**2 if pieces is None else pieces**2 * constant_effort(theta / pieces)


def best_compromise(theta: float, weight: float, pieces: int | None = None) -> tuple[float, float]:
    """(error, effort) where |x(1) - y|^2 + weight * effort is least: the token goes by an angle phi <= theta.

    The error is 4 sin^2((theta - phi)/2), the effort that of `least_effort` for phi.
    """

    def price(phi: float) -> float:
        return float(4.0 * np.sin((theta - phi) / 2.0) ** 2 + weight * least_effort(phi, pieces))

    phi = float(minimize_scalar(price, bounds=(0.0, theta), method="bounded", options={"xatol": 1e-10}).x)
    return 4.0 * float(np.sin((theta - phi) / 2.0)) ** 2, least_effort(phi, pieces)


def least_error_of_a_pair(y: np.ndarray, opposite: bool) -> float:
    """The least |x_1 - y_1|^2 + |x_2 - y_2|^2 of unit vectors with x_2 = x_1, or x_2 = -x_1 where opposite.

    Tokens in one place stay together (they see the same); two opposite tokens alone stay opposite, because x -> -x
    maps solutions to solutions and exchanges them. Both hold whatever Q, K, V are and however they change.

    >>> least_error_of_a_pair(np.array([[1.0, 0.0], [1.0, 0.0]]), opposite=False)
    0.0
    """
    return 4.0 - 2.0 * float(np.linalg.norm(y[0] - y[1] if opposite else y[0] + y[1]))
