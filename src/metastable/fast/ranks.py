"""How many modes a linear-time sum needs, and what leaving out the rest can cost.

Everything is divided by e^kappa, kappa = |beta| |q| |k|, so the largest weight is 1. For tokens of total weight W, the
modes beyond ``rank`` change

    Z_i                           by at most  W tail_Z,   tail_Z = sum (2l+1) i_l   (S^2),   sum 2 I_k   (circle)
    the tangential summed vector  by at most  W tail_T,   tail_T = sum (2l+1) l i_l / kappa,  sum 2 k I_k / kappa
    its radial part               by at most  W tail_R,   tail_R = sum (2l+1) i_l',           sum 2 I_k'

because Legendre polynomials and cosines are at most 1 and Bernstein's inequality bounds their slopes by l and k. The
error of sum_j A_ij k_j is thus at most (tail_Z + tail_T + tail_R) W / Z_i, whatever the tokens.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import ive

MOST = {2: 300, 3: 300}  # highest mode, by dimension
HIGHEST = 300.0  # kappa beyond which weights may leave the range of floats
LEAST = 1e-30  # stands for kappa = 0, where tail_T still needs i_1 / kappa = 1/3
ROUNDING = 4e-15  # of Z_i / W and of the summed vector / W; measured, see tests/fast/test_spectral.py


class Bessel(NamedTuple):
    """Weights of the modes 0, 1, ... in Z and in dZ/dkappa, and the bound on what lies beyond each of them."""

    value: np.ndarray
    slope: np.ndarray
    tail: np.ndarray


@lru_cache(maxsize=64)
def bessel(dimension: int, kappa: float) -> Bessel:
    """The expansion of e^{kappa (cos - 1)} on the circle (dimension 2) or S^2 (3).

    >>> weights = bessel(3, 9.0)
    >>> float(weights.value.sum().round(12))  # the kernel at angle 0
    1.0
    """
    kappa = max(kappa, LEAST)
    count = 40 + math.ceil(12.0 * math.sqrt(kappa))
    mode = np.arange(count + 2.0)
    if dimension == 2:
        raw = ive(mode, kappa)
        many = np.where(mode == 0, 1.0, 2.0)
        slope = 0.5 * (np.concatenate([raw[1:2], raw[:-2]]) + raw[1:])
    else:
        raw = ive(mode + 0.5, kappa) * math.sqrt(math.pi / (2.0 * kappa))
        many = 2.0 * mode + 1.0
        slope = (mode * np.concatenate([[0.0], raw[:-1]]))[:-1] + (mode[:-1] + 1.0) * raw[1:]
        slope = slope / many[:-1]
    raw, many, mode = raw[:-1], many[:-1], mode[:-1]
    lost = many * (raw * (1.0 + mode / kappa) + slope)
    after = np.concatenate([np.cumsum(lost[::-1])[::-1][1:], [0.0]])
    return Bessel(many * raw, many * slope, after)


def rank_for(dimension: int, kappa: float, target: float) -> int | None:
    """The lowest rank with a tail below ``target``, or None when none up to MOST will do."""
    enough = np.flatnonzero(bessel(dimension, kappa).tail <= target)
    return int(enough[0]) if enough.size and enough[0] <= MOST[dimension] else None


def uniform_share(dimension: int, kappa: float) -> float:
    """Z_i / W when tokens are spread evenly: mode 0."""
    return float(bessel(dimension, kappa).value[0])


class Tables(NamedTuple):
    """What the kernels need for one rank: ``scale`` (2, entries) and, on S^2, the negative of ``g``, (1, entries)."""

    scale: np.ndarray
    g: np.ndarray


@lru_cache(maxsize=16)
def tables(dimension: int, kappa: float, rank: int) -> Tables:
    """Bessel weights per entry; on S^2 entries (m, l) with the squared norms of the monic harmonics."""
    weights = bessel(dimension, kappa)
    if dimension == 2:
        return Tables(np.stack([weights.value, weights.slope])[:, : rank + 1].copy(), np.zeros((1, 1)))
    scale, g = [], []
    square = 1.0  # squared norm of order m at degree m, times 4 pi / (2m + 1)
    for m in range(rank + 1):
        if m > 0:
            square *= (2 * m - 1) / (2 * m)
        norm = square
        for l in range(m, rank + 1):
            if l > m:
                norm *= (2 * l - 1) ** 2 / (l * l - m * m)
            g.append(((l - 1) ** 2 - m * m) / (4 * (l - 1) ** 2 - 1) if l > m + 1 else 0.0)
            both = norm * (1.0 if m == 0 else 2.0)
            scale.append((both * weights.value[l], both * weights.slope[l]))
    return Tables(np.ascontiguousarray(np.array(scale).T), -np.array([[*g, 0.0]]))
