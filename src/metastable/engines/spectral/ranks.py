"""How many modes a linear-time sum needs, and what leaving out the rest can cost.

Everything is divided by e^kappa, kappa = |beta| |q| |k|, so the largest weight is 1. With v_i the true value of a row,
|v_i| <= 1, the modes up to ``rank`` give it with the error (dT_i - v_i dZ_i) / Z_i, where Z_i is the sum they make and
dT_i, dZ_i are what the others would add. A token j at the angle a enters it, per mode left out, with

    S^2      (2l+1) [(i_l' x - i_l v) P + (i_l / kappa) (dP/da) u],    P = P_l(cos a),  P^2 + 2 (dP/da)^2 / l (l+1) <= 1
    circle   2 [(I_k' x - I_k v) cos k a - (I_k / kappa) k (sin k a) u],    cos^2 + sin^2 = 1

with the query x and a unit vector u across it. The inequality is the addition theorem, orders 0 and 1. By Cauchy and
Schwarz the length is at most

    (2l+1) sqrt((i_l + i_l')^2 + (i_l / kappa)^2 l (l+1) / 2)     and     2 sqrt((I_k + I_k')^2 + (I_k / kappa)^2 k^2).

Their sum over the modes left out, times W / Z_i for tokens of total weight W, bounds the error, whatever the tokens.
Without the radial part, which the terms with i_l' and I_k' are, it is smaller.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import ive

MOST = {2: 300, 3: 300}  # highest mode, by dimension
HIGHEST = 300.0  # kappa beyond which weights may leave the range of floats
LEAST = 1e-30  # stands for kappa = 0, where tails still need i_1 / kappa = 1/3
ROUNDING = 4e-15  # of Z_i / W and of the summed vector / W; measured, see tests/engines/test_spectral.py


class Bessel(NamedTuple):
    """Weights of the modes 0, 1, ... in Z and in dZ/dkappa, and bounds on what lies beyond each of them.

    ``tail`` bounds the error of the value, ``across`` that of its part across the query.
    """

    value: np.ndarray
    slope: np.ndarray
    tail: np.ndarray
    across: np.ndarray


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
    steep = raw / kappa * (mode if dimension == 2 else np.sqrt(0.5 * mode * (mode + 1.0)))
    tails = (_beyond(many * np.hypot(level, steep)) for level in (raw + slope, raw))
    return Bessel(many * raw, many * slope, *tails)


def _beyond(lost: np.ndarray) -> np.ndarray:
    """The sum of all entries after each."""
    return np.append(np.cumsum(lost[::-1])[::-1][1:], 0.0)


def tail(dimension: int, kappa: float, rank: int, radial: bool) -> float:
    """The bound on what the modes beyond ``rank`` change, for a query that sees all weight at its best."""
    weights = bessel(dimension, kappa)
    return float((weights.tail if radial else weights.across)[rank])


def rank_for(dimension: int, kappa: float, target: float, radial: bool = True) -> int | None:
    """The lowest rank with a tail below ``target``, or None when none up to MOST will do."""
    weights = bessel(dimension, kappa)
    enough = np.flatnonzero((weights.tail if radial else weights.across) <= target)
    return int(enough[0]) if enough.size and enough[0] <= MOST[dimension] else None


def uniform_share(dimension: int, kappa: float) -> float:
    """Z_i / W when tokens are spread evenly: mode 0."""
    return float(bessel(dimension, kappa).value[0])


class Tables(NamedTuple):
    """What the kernels need for one rank.

    ``scale``: weights of the modes in Z and in dZ/dkappa, on the circle (2, entries) and on S^2, for orders m and m + 1
    of each entry, (4, entries). On S^2 also the negative of ``g``, and ``a``, (1, entries).
    """

    scale: np.ndarray
    g: np.ndarray
    a: np.ndarray


@lru_cache(maxsize=16)
def tables(dimension: int, kappa: float, rank: int) -> Tables:
    """Bessel weights per entry; on S^2 with the squared norms of the monic harmonics."""
    weights = bessel(dimension, kappa)
    if dimension == 2:
        return Tables(
            np.stack([weights.value, weights.slope])[:, : rank + 1].copy(), np.zeros((1, 1)), np.zeros((1, 1))
        )
    entries = sum(rank - m + 1 for m in range(0, rank + 1, 2))
    scale, g, a = np.zeros((4, entries)), np.zeros((1, entries + 1)), np.zeros((1, entries))
    square, at = 1.0, 0  # squared norm of order m at degree m, times 4 pi / (2m + 1)
    for m in range(rank + 1):
        square *= (2 * m - 1) / (2 * m) if m > 0 else 1.0
        l = np.arange(m, rank + 1.0)
        grown = (2 * l - 1) ** 2 / np.maximum(l * l - m * m, 1.0)
        grown[0] = square * (1.0 if m == 0 else 2.0)
        norm = np.cumprod(grown)
        here = slice(at, at + len(l))
        scale[m % 2, here], scale[2 + m % 2, here] = (
            norm * weights.value[m : rank + 1],
            norm * weights.slope[m : rank + 1],
        )
        if m % 2 == 0:
            g[0, at + 2 : at + len(l)] = ((m * m - (l - 1) ** 2) / (4 * (l - 1) ** 2 - 1))[2:]
            a[0, here] = (l - m) * (l - m - 1) / (4 * l * l - 1)
        else:
            at += len(l) + 1
    return Tables(scale, g, a)
