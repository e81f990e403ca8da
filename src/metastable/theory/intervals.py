"""Confidence intervals of shares, means, powers and any other statistic of one sample."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, ndtri, stdtrit
from scipy.stats import linregress

from metastable.errors import InputError

Interval = tuple[float, float]


def wilson_interval(successes: int, total: int, level: float = 0.95) -> Interval:
    """Wilson's score interval for a share: short, and close to its nominal coverage on average.

    >>> tuple(round(v, 4) for v in wilson_interval(10, 10))
    (0.7225, 1.0)
    """
    if not _counts(successes, total):
        return (0.0, 1.0)
    z = float(ndtri((1.0 + level) / 2.0))
    p, shrink = successes / total, 1.0 + z**2 / total
    centre = (p + z**2 / (2 * total)) / shrink
    half = z / shrink * np.sqrt(p * (1 - p) / total + z**2 / (4 * total**2))
    low = 0.0 if successes == 0 else float(centre - half)
    high = 1.0 if successes == total else float(centre + half)
    return (low, high)


def exact_interval(successes: int, total: int, level: float = 0.95) -> Interval:
    """Clopper and Pearson's interval for a share: never covers less than ``level``.

    >>> tuple(round(v, 4) for v in exact_interval(10, 10))
    (0.6915, 1.0)
    """
    if not _counts(successes, total):
        return (0.0, 1.0)
    tail = (1.0 - level) / 2.0
    low = 0.0 if successes == 0 else float(betaincinv(successes, total - successes + 1, tail))
    high = 1.0 if successes == total else float(betaincinv(successes + 1, total - successes, 1.0 - tail))
    return (low, high)


def mean_interval(values: ArrayLike, level: float = 0.95) -> Interval:
    """Student's interval for a mean; infinite when there are fewer than two values."""
    values = np.asarray(values, dtype=float).reshape(-1)
    if len(values) < 2:
        return (-np.inf, np.inf)
    half = float(stdtrit(len(values) - 1, (1.0 + level) / 2.0) * values.std(ddof=1) / np.sqrt(len(values)))
    mean = float(values.mean())
    return (mean - half, mean + half)


def mean_half_width(values: ArrayLike, level: float = 0.95) -> np.ndarray:
    """Half the width of Student's interval for the mean along the first axis, 0 for a single value: nothing to draw.

    Values that are nan are left out.

    >>> mean_half_width([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0]]).round(3).tolist()
    [2.484, 0.0]
    """
    values = np.asarray(values, dtype=float)
    count = np.maximum(np.isfinite(values).sum(axis=0), 1)
    known = np.where(np.isfinite(values), values, 0.0)
    off = np.where(np.isfinite(values), values - known.sum(axis=0) / count, 0.0)
    free = np.maximum(count - 1, 1)
    return np.asarray(stdtrit(free, (1.0 + level) / 2.0) * np.sqrt((off**2).sum(axis=0) / free / count))


def slope_interval(fit: Any, points: int, level: float = 0.95) -> Interval:
    """Student's interval for the slope of `scipy.stats.linregress` through that many points.

    >>> fit = linregress([0.0, 1.0, 2.0], [0.0, 1.1, 2.0])
    >>> tuple(round(v, 3) for v in slope_interval(fit, 3))
    (0.266, 1.734)
    """
    half = float(stdtrit(max(points - 2, 1), (1.0 + level) / 2.0)) * float(fit.stderr)
    return (float(fit.slope) - half, float(fit.slope) + half)


def bootstrap_interval(
    values: ArrayLike,
    statistic: Callable[..., np.ndarray] = np.median,
    level: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> Interval:
    """Percentile bootstrap of any statistic of one sample, for numbers that are far from normal.

    ``statistic`` takes an array and ``axis``.
    """
    values = np.asarray(values, dtype=float).reshape(-1)
    if len(values) < 2:
        return (-np.inf, np.inf)
    rng = np.random.default_rng(seed)
    samples = values[rng.integers(0, len(values), (draws, len(values)))]  # (draws, n)
    ends = np.quantile(statistic(samples, axis=1), [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return (float(ends[0]), float(ends[1]))


def power_interval(samples: Mapping[int, np.ndarray]) -> tuple[float, float, float]:
    """The exponent of n in positive numbers, given as a sample for each n, and its 95% interval.

    Least squares in logarithms over all numbers, normal errors: for numbers whose logarithms scatter alike at every n.

    >>> power_interval({n: np.array([3.0, 3.3]) / np.sqrt(n) for n in (4, 16, 64)})[0]
    -0.5
    """
    x = np.concatenate([np.full(len(values), np.log(n)) for n, values in samples.items()])
    fit = linregress(x, np.log(np.concatenate(list(samples.values()))))
    return (float(fit.slope), *slope_interval(fit, len(x)))


def _counts(successes: int, total: int) -> bool:
    if not 0 <= successes <= total:
        raise InputError(f"A share counts between 0 and {total} successes, not {successes!r}.")
    return total > 0
