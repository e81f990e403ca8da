"""Runs with noise from uniform tokens, as `noise_against_order` makes them: many runs, few shapes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights
from metastable.experiments.infinitely_many import PLACES, moments
from metastable.initial import sphere
from metastable.solve.simulate import simulate
from metastable.theory.sphere_forms import mode_growth_rate

KINDS = {"softmax": "SA", "unnormalised": "USA"}
COMBINED = [(d, kind) for d in PLACES for kind in KINDS]
TAUS, STEPS = 20.0, 50  # horizon in units of tau, steps per tau
MODES = 4
TOGETHER = 5  # runs of one ensemble


def sizes(x: np.ndarray) -> np.ndarray:
    """The first modes of tokens (n, d), 1 for a point mass and n^(-1/2) for uniform ones, (MODES,)."""
    c = np.abs(moments(x, MODES)) ** 2
    if x.shape[1] == 2:
        return np.asarray(np.sqrt(c[1:]))
    twice = np.where(np.arange(MODES + 1) == 0, 1.0, 2.0)[:, None]
    return np.asarray(np.sqrt((twice * c).sum(axis=0) * 4.0 * np.pi / (2 * np.arange(MODES + 1) + 1))[1:])


@dataclass(frozen=True)
class Case:
    """A run from uniform tokens on S^{d-1}."""

    d: int
    kind: str
    beta: float
    sigma: float
    seed: int

    @property
    def tau(self) -> float:
        """The growth time of mode 1 without noise."""
        return 1.0 / float(mode_growth_rate(1, self.beta, self.kind, self.d))


def settled(cases: Sequence[Case], n: int, noise: str = "independent") -> np.ndarray:
    """Root mean squares of the first modes over the last fifth of runs from uniform tokens, (cases, MODES)."""
    found = np.zeros((len(cases), MODES))
    for place in COMBINED:
        here = [k for k, case in enumerate(cases) if (case.d, case.kind) == place]
        for first in range(0, len(here), TOGETHER):
            some = here[first : first + TOGETHER]
            found[some] = _settled([cases[k] for k in some], n, noise)
    return found


def _settled(cases: Sequence[Case], n: int, noise: str) -> np.ndarray:
    """Cases of one kind as one ensemble: with V = tau I and sigma sqrt(tau) each run has its own tau as unit of time.

    There are TOGETHER runs, the last case repeated where there are fewer: one shape, so that it is compiled once.
    """
    full = [*cases, *[cases[-1]] * (TOGETHER - len(cases))]
    members = [
        Dynamics(Weights(V=c.tau * np.eye(c.d)), c.beta, c.kind, noise=c.sigma * np.sqrt(c.tau), noise_kind=noise)
        for c in full
    ]
    x0 = np.stack([sphere(n, c.d, seed=c.seed) for c in full])
    times, seeds = np.linspace(0.8, 1.0, 9) * TAUS, [c.seed for c in full]
    runs = simulate(members, x0, TAUS, 1.0 / STEPS, "euler", save=times, seed=seeds)[: len(cases)]
    return np.sqrt([np.mean([sizes(cloud) ** 2 for cloud in run.x], axis=0) for run in runs])
