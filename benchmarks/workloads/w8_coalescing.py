"""W8: a long run of 3,000 tokens on S^2 in which tokens that meet become one; the error is against the whole run."""

import numpy as np

from benchmarks import peers
from benchmarks.harness import OURS, Case, Engine, Goal, Outcome, Run, Workload

BETA, DT, MERGE = 9.0, 0.1, 1e-6


def cases(quick: bool) -> list[Case]:
    size = {"n": 200, "t": 6.0} if quick else {"n": 3000, "t": 60.0}
    return [Case(how, {**size, "d": 3, "beta": BETA, "summation": how}) for how in ("exact", "auto")]


def tokens(case: Case) -> np.ndarray:
    return peers.sphere((case["n"], case["d"]))


def coalescing(case: Case, tolerance: float) -> Run:
    import metastable as ms
    from metastable import fast

    dynamics, x = ms.Dynamics(beta=BETA), tokens(case)

    def run() -> np.ndarray:
        return fast.coalesce(
            dynamics, x, t=case["t"], dt=DT, save=7, tolerance=tolerance, summation=case["summation"]
        ).x  # (7, n, d)

    return run


def simulated(case: Case) -> Run:
    import metastable as ms

    dynamics, x = ms.Dynamics(beta=BETA), tokens(case)
    return lambda: ms.simulate(dynamics, x, t=case["t"], dt=DT, save=7, summation=case["summation"]).x


def _part(case: Case) -> tuple[int, float]:
    """The steps of slow peers, up to the first saved time at most, and their share of all."""
    steps = round(case["t"] / DT)
    return steps // 60, (steps // 60) / steps


def numpy_loop(case: Case) -> Run:
    x, (part, share) = tokens(case), _part(case)

    def run() -> Outcome:
        peers.rk4(lambda x, t: peers.numpy_field(x, BETA), x, DT, part, part, peers.unit)
        return Outcome(x[None], share)  # no saved time is reached; the same function is checked in W1

    return run


def torch_eager(case: Case) -> Run:
    torch = peers.need("torch")
    x, (part, share) = tokens(case), _part(case)

    def run() -> Outcome:
        with torch.inference_mode():
            start = torch.from_numpy(x)
            peers.rk4(lambda x, t: peers.torch_field(x, BETA), start, DT, part, part, peers.torch_unit)
        return Outcome(x[None], share)

    return run


WORKLOAD = Workload(
    title="a coalescing run, RK4, dt = 0.1, tokens merge at 1e-6",
    cases=cases,
    tolerance=1e-8,
    engines={
        "without": Engine(lambda case: coalescing(case, 0.0), "the same loop, nothing merges"),
        OURS: Engine(lambda case: coalescing(case, MERGE), "fast.coalesce"),
        "metastable, simulate": Engine(simulated, "ms.simulate, nothing merges"),
        "numpy": Engine(numpy_loop, "first steps", only=("exact",)),
        "torch eager": Engine(torch_eager, "first steps", only=("exact",)),
    },
    goals=(
        Goal("exact sums: faster than without", lambda t: t.faster("exact", "without", "metastable, simulate"), 3.0),
        Goal("auto sums: faster than without", lambda t: t.faster("auto", "without", "metastable, simulate"), 3.0),
        Goal(
            "error against the run without",
            lambda t: max(t.row(case, OURS).error for case in ("exact", "auto")),
            1e-10,
            False,
            "",
        ),
    ),
)
