"""When clusters begin to form on the circle, n to tens of thousands: the second of the `scales`.

Modes of the uniform law grow at k^2 I_k/(beta I_0), whose maximum r tends to 2/e and does not depend on beta. About
n beta^{-1/2} tokens see each other, so that what grows begins at (n beta^{-1/2})^{-1/2}, and reaches order 1 after
log(n beta^{-1/2})/(2 r) and a constant. Clusters begin to form when beta sum_j A_ij |x_i - x_j|^2, which is 1 on a
uniform circle, falls below BEGUN = 0.8 in the mean. With n over a factor of 16 or more, 2 r t must have the slope 1 in
log(n beta^{-1/2}); it may be off by 1/6, half the way to 4/3, the slope that log(n)/(2 r) would have where
beta ~ n^{1/2}.

The law was derived, and the level chosen, after runs were seen: at levels 0.1, 0.5, 0.8 those of 256 to 65,536 tokens
had slopes of 0.6, 0.93 and 0.97. The last clusters form late and by chance, which no linear theory says.
"""

from typing import Any

import numpy as np
from scipy.stats import linregress

from metastable.equation.dynamics import Dynamics
from metastable.experiments import sphere_pairs
from metastable.experiments.base import Data, Figures
from metastable.initial import sphere
from metastable.plots import series
from metastable.plots.style import captioned
from metastable.solve.simulate import simulate
from metastable.theory.intervals import slope_interval
from metastable.theory.sphere_forms import fastest_mode, mode_growth_rate
from metastable.theory.verdicts import DECIDED, Verdict, judge_number

SOURCE = "moderate interaction: the linear rates of the uniform law"
BEGUN = 0.8
SLOPE = 1.0 / 6.0  # how far the slope may be off
QUERIES = 256  # tokens over which the spread of many is averaged


def spread(x: np.ndarray, beta: float, every: int = 1) -> float:
    """beta sum_j A_ij |x_i - x_j|^2, mean over every so many tokens."""
    gram = x[::every] @ x.T
    weights = np.exp(beta * (gram - 1.0))
    far = (weights * (2.0 - 2.0 * gram)).sum(axis=1) / weights.sum(axis=1)
    return float(beta * far.mean())


def crossed(t: np.ndarray, values: np.ndarray, level: float) -> float:
    """When positive values first fall below a level, by lines between their logarithms; nan where they do not."""
    below = np.flatnonzero(values < level)
    if not len(below):
        return np.nan
    k = max(1, int(below[0]))
    share = np.log(values[k - 1] / level) / np.log(values[k - 1] / values[k])
    return float(t[k - 1] + share * (t[k] - t[k - 1]))


def begun(params: Any, n: int, first: int, last: int) -> Data:
    """When clusters begin to form among n uniform tokens on the circle, in units of 1/(2 r); nan: not by the end."""
    beta, found = params.beta(n), []
    twice, t = times(beta, n)
    for seed in range(first, last):
        x = simulate(Dynamics(beta=beta), sphere(n, 2, seed=seed), t[-1], 0.2, save=t).x
        found.append(crossed(t, np.array([spread(y, beta, max(1, n // QUERIES)) for y in x]), BEGUN) * twice)
    return {"begun": np.array(found)}


def times(beta: float, n: int) -> tuple[float, np.ndarray]:
    """Twice the fastest rate, and the saved times."""
    twice = 2.0 * float(mode_growth_rate(fastest_mode(beta), beta))
    return twice, np.linspace(0.0, (np.log(n / np.sqrt(beta)) + 5.0) / twice, 33)


def groups(params: Any, n: int) -> Data:
    """Two groups of n tokens on the circle, by the same runs, at the first saved times."""
    beta, key = params.beta(n), f"groups {n}"
    _, t = times(beta, n)
    x0, angle = sphere_pairs.tokens(n, 2, 1, params.seed, beta)
    x = simulate(Dynamics(beta=beta), x0[0], t[-1], 0.2, save=t).x[1:9]
    each = [sphere_pairs.measured(y[None], angle, beta, float(s), key=key) for y, s in zip(x, t[1:9])]
    return {name: np.concatenate([one[name] for one in each]) for name in each[0]}


def judge_forming(params: Any, data: Data) -> Verdict:
    """Least squares over all runs; nothing where more than one in twenty had not begun to form clusters by the end."""
    total = len(params.many) * params.starts
    away = {n: np.log(n / np.sqrt(params.beta(n))) for n in params.many}
    pairs = np.array([(away[n], value) for n in params.many for value in data[f"begun {n}"] if np.isfinite(value)])
    fit, late = linregress(*pairs.T), total - len(pairs)
    within = slope_interval(fit, len(pairs)) if len(pairs) >= DECIDED * total else (-np.inf, np.inf)
    means = ", ".join(f"{np.nanmean(data[f'begun {n}']):.2f} (n = {n:,})" for n in params.many)
    return judge_number(
        "On the circle clusters begin to form after log(n beta^(-1/2))/(2 rate) and a constant, rate the fastest "
        "mode's (slope).", SOURCE, [fit.slope], (1.0 - SLOPE, 1.0 + SLOPE), kind="observation",
        interval=within, deciding=len(pairs),
        instances=total, notes=f"{late} of {total} runs had not begun by the end; 2 rate t, means: {means}",
    )  # fmt: skip


def draw_forming(params: Any, data: Data) -> Figures:
    each = [data[f"begun {n}"] for n in params.many]
    L = np.log([n / np.sqrt(params.beta(n)) for n in params.many])
    mean, low, high = (np.array([f(e) for e in each]) for f in (np.nanmean, np.nanmin, np.nanmax))
    slope = {"slope 1": (L, mean.mean() + L - L.mean() - 0.4)}  # beside the line, not under it
    figure = series(L, mean, band=(low, high), reference=slope, xlabel=r"$\log(n \beta^{-1/2})$", ylabel="$2 r t$",
                    marks=True)  # fmt: skip
    return {
        "When clusters begin to form": captioned(
            figure,
            f"Time at which the spread of n uniform tokens on the circle falls below {BEGUN:g}, times twice the "
            f"fastest rate; mean and range of {params.starts} starts, n = {params.many[0]:,} to {params.many[-1]:,}, "
            f"V = I, beta = {params.sharp:g} sqrt(n).",
        )
    }
