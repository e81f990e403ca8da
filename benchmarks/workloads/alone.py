"""A run in an ensemble and the same run alone give the same digits, to 1e-12."""

from typing import Any

import numpy as np

from benchmarks import peers, versions
from benchmarks.harness import OURS, Case, Engine, Goal, Run, Workload

T = 5.0


def cases(quick: bool) -> list[Case]:
    size = {"runs": 8, "n": 12} if quick else {"runs": 32, "n": 32}
    return [
        Case("sphere", {**size, "d": 3, "geometry": "sphere", "method": "rk4"}),
        Case("adaptive", {**size, "d": 3, "geometry": "sphere", "method": "tsit5"}),
        Case("rescaled", {**size, "d": 3, "geometry": "rescaled", "method": "rk4"}),
    ]


def setting(case: Case) -> tuple[list[Any], np.ndarray]:
    """Dynamics and tokens of every run: beta differs, or for rescaled runs V."""
    import metastable as ms

    runs, shape = case["runs"], (case["n"], case["d"])
    if case["geometry"] == "sphere":
        return [ms.Dynamics(beta=float(b)) for b in np.linspace(0.5, 9.0, runs)], peers.sphere((runs, *shape))
    values = [
        ms.weights.from_eigenvalues([1.0, 0.5, float(low)], "orthogonal", seed=0)
        for low in np.linspace(-0.5, 0.4, runs)
    ]
    members = [ms.Dynamics(ms.Weights(V=V), geometry="rescaled") for V in values]
    return members, np.random.default_rng(0).uniform(-1.0, 1.0, (runs, *shape))


def alone(case: Case) -> Run:
    import metastable as ms

    members, x = setting(case)

    def run() -> np.ndarray:
        return np.stack([ms.simulate(m, x0, t=T, method=case["method"], save=6).x for m, x0 in zip(members, x)])

    return run


def many(case: Case) -> Run:

    members, x = setting(case)
    return lambda: np.stack([r.x for r in versions.simulate_each(members, x, t=T, method=case["method"], save=6)])


def together(case: Case) -> Run:
    import metastable as ms

    members, x = setting(case)
    dynamics = ms.Dynamics(beta=np.array([m.beta for m in members]))
    return lambda: ms.simulate(dynamics, x, t=T, method=case["method"], save=6).x.swapaxes(0, 1)


WORKLOAD = Workload(
    title="runs in an ensemble against the same runs alone, relative to the largest token",
    cases=cases,
    tolerance=1e-6,
    engines={
        "alone": Engine(alone, "ms.simulate, one after the other"),
        OURS: Engine(many, "ms.simulate"),
        "metastable, leading axis": Engine(together, "ms.simulate with an array of beta", only=("sphere",)),
    },
    goals=(
        Goal(
            "difference, a list of dynamics",
            lambda t: max(t.row(case, OURS).error for case in t.rows),
            1e-12,
            False,
            "",
        ),
        Goal(
            "difference, ms.simulate with an array of beta",
            lambda t: t.row("sphere", "metastable, leading axis").error,
            1e-12,
            False,
            "",
        ),
    ),
)
