"""W8: a long run of 3,000 tokens on S^2 in which tokens that meet become one; the error is against the whole run."""

import numpy as np

from benchmarks import peers, versions
from benchmarks.harness import OURS, Case, Engine, Goal, Outcome, Run, Workload

BETA, DT, MERGE = 9.0, 0.1, 1e-6
SAVES = 13


def cases(quick: bool) -> list[Case]:
    size = {"n": 200, "t": 6.0} if quick else {"n": 3000, "t": 60.0}
    return [Case(how, {**size, "d": 3, "beta": BETA, "summation": how}) for how in ("exact", "auto")]


def tokens(case: Case) -> np.ndarray:
    return peers.sphere((case["n"], case["d"]))


def coalescing(case: Case, tolerance: float) -> Run:
    import metastable as ms

    dynamics, x = ms.Dynamics(beta=BETA), tokens(case)

    def run() -> np.ndarray:
        return versions.coalesce(
            dynamics, x, t=case["t"], dt=DT, save=SAVES, tolerance=tolerance, summation=case["summation"]
        ).x  # (SAVES, n, d)

    return run


def simulated(case: Case) -> Run:
    import metastable as ms

    dynamics, x = ms.Dynamics(beta=BETA), tokens(case)
    return lambda: versions.simulate_by(case["summation"], dynamics, x, t=case["t"], dt=DT, save=SAVES).x


def _part(case: Case) -> int:
    """The steps that slow peers take: up to the first saved time."""
    return round(case["t"] / DT) // (SAVES - 1)


def numpy_loop(case: Case) -> Run:
    x, part = tokens(case), _part(case)

    def run() -> Outcome:
        saved = peers.rk4(lambda x, t: peers.numpy_field(x, BETA), x, DT, part, part, peers.unit)
        return Outcome(np.stack(saved), share=1 / (SAVES - 1))

    return run


def torch_eager(case: Case) -> Run:
    torch = peers.need("torch")
    x, part = torch.from_numpy(tokens(case)), _part(case)

    def run() -> Outcome:
        with torch.inference_mode():
            saved = peers.rk4(lambda x, t: peers.torch_field(x, BETA), x, DT, part, part, peers.torch_unit)
            return Outcome(torch.stack(saved).numpy(), share=1 / (SAVES - 1))

    return run


WORKLOAD = Workload(
    title="a coalescing run, RK4, dt = 0.1, tokens merge at 1e-6",
    cases=cases,
    tolerance=1e-8,
    engines={
        "without": Engine(lambda case: coalescing(case, 0.0), "the same loop, nothing merges"),
        OURS: Engine(lambda case: coalescing(case, MERGE), "reduced.coalesce"),
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
