"""Explicit Runge-Kutta schemes as (stages + 1, stages) arrays: a, and b in the last row."""

import numpy as np


def matrix(a, b):
    out = np.zeros((len(b) + 1, len(b)))
    for i, row in enumerate(a):
        out[i, :i] = row
    out[-1] = b
    return out


def random_scheme(stages=4, seed=0):
    """A full lower triangle with weights that sum to 1: consistent, of order 1."""
    rng = np.random.default_rng(seed)
    b = rng.uniform(0.1, 1.0, stages)
    return matrix([rng.uniform(-0.5, 0.5, i) for i in range(stages)], b / b.sum())


TABLEAUS = {
    "euler": matrix([[]], [1.0]),
    "heun": matrix([[], [1.0]], [0.5, 0.5]),
    "kutta3": matrix([[], [0.5], [-1.0, 2.0]], [1 / 6, 2 / 3, 1 / 6]),
    "rk4": matrix([[], [0.5], [0.0, 0.5], [0.0, 0.0, 1.0]], [1 / 6, 1 / 3, 1 / 3, 1 / 6]),
    "random": random_scheme(),
}


def step(field, t, x, h, tableau):
    """One step of a scheme in NumPy: (x at the end, velocity at the beginning)."""
    slopes = []
    for row in tableau[:-1]:
        ahead = sum((a * k for a, k in zip(row, slopes)), np.zeros_like(x))
        slopes.append(field(t + h * row.sum(), x + h * ahead))
    return x + h * sum(b * k for b, k in zip(tableau[-1], slopes)), slopes[0]


def hermite(theta, h, x0, v0, x1, v1):
    """The cubic through both ends of a step with their slopes."""
    s = theta - 1.0
    return x0 + (theta + theta * s * (1 - 2 * theta)) * (x1 - x0) + theta * s * h * (s * v0 + theta * v1)


def intervals(name, n):
    """(low, high) of the masks that are tried."""
    i = np.arange(n)
    return {
        "full": (np.zeros(n, int), np.full(n, n)),
        "causal": (np.zeros(n, int), i + 1),
        "window": (np.maximum(i - 2, 0), np.minimum(i + 3, n)),
        "window, causal": (np.maximum(i - 5, 0), i + 1),
        "ragged": (np.where(i % 2, 0, i // 2), np.where(i % 3, n, np.minimum(i + 2, n))),
    }[name]
