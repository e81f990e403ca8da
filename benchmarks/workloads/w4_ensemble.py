"""W4: 1,024 runs on S^2, each with its own tokens and beta, RK4, in one call."""

import numpy as np

from benchmarks import peers, versions
from benchmarks.harness import OURS, Case, Engine, Goal, Outcome, Run, Workload

DT, EVERY = 0.1, 10


def cases(quick: bool) -> list[Case]:
    return [Case("runs", {"runs": 64 if quick else 1024, "n": 32, "d": 3, "steps": 20 if quick else 150})]


def setting(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """beta and tokens of every run."""
    return np.linspace(0.5, 9.0, case["runs"]), peers.sphere((case["runs"], case["n"], case["d"]))


def _numpy(case: Case, together: int) -> Run:
    beta, x = setting(case)

    def some(first: int) -> np.ndarray:
        b = beta[first : first + together, None, None]
        saved = peers.rk4(
            lambda x, t: peers.numpy_field(x, b), x[first : first + together], DT, case["steps"], EVERY, peers.unit
        )
        return np.stack(saved)  # (T, together, n, d)

    return lambda: np.concatenate([some(first) for first in range(0, len(x), together)], axis=1)


def metastable(case: Case) -> Run:
    import metastable as ms

    beta, x = setting(case)
    dynamics, steps = ms.Dynamics(beta=beta), case["steps"]
    return lambda: ms.simulate(dynamics, x, t=steps * DT, dt=DT, method="rk4", save=steps // EVERY + 1).x


def many(case: Case) -> Run:
    import metastable as ms

    beta, x = setting(case)
    members, steps = [ms.Dynamics(beta=float(b)) for b in beta], case["steps"]

    def run() -> np.ndarray:
        runs = versions.simulate_each(members, x, t=steps * DT, dt=DT, method="rk4", save=steps // EVERY + 1)
        return np.stack([r.x for r in runs], axis=1)

    return run


def torch_eager(case: Case) -> Run:
    torch = peers.need("torch")
    beta, x = (torch.from_numpy(a) for a in setting(case))
    b = beta[:, None, None]

    def run() -> np.ndarray:
        with torch.inference_mode():
            saved = peers.rk4(lambda x, t: peers.torch_field(x, b), x, DT, case["steps"], EVERY, peers.torch_unit)
            return torch.stack(saved).numpy()

    return run


def one_by_one(case: Case) -> Run:
    """A Python loop over runs; a few of them."""
    beta, x = setting(case)
    part = 8

    def run() -> Outcome:
        saved = [
            peers.rk4(lambda x, t, b=b: peers.numpy_field(x, b), start, DT, case["steps"], EVERY, peers.unit)
            for b, start in zip(beta[:part], x[:part])
        ]
        return Outcome(np.stack([np.stack(s) for s in saved])[:, -1], share=part / len(x))

    return run


def last(build):  # type: ignore[no-untyped-def]
    """The same engine, answering with the last state of every run, (runs, n, d)."""

    def built(case: Case) -> Run:
        run = build(case)
        return lambda: np.asarray(run())[-1]

    return built


def hand(case: Case) -> Run:
    from benchmarks import kernels

    beta, x = setting(case)
    return lambda: kernels.rk4_many(x, beta, DT, case["steps"], EVERY)


WORKLOAD = Workload(
    title="an ensemble on S^2 with beta from 0.5 to 9, RK4, dt = 0.1, every tenth step saved",
    cases=cases,
    tolerance=1e-9,
    engines={
        "numpy": Engine(last(lambda case: _numpy(case, case["runs"])), "all runs in one array"),
        OURS: Engine(last(metastable), "ms.simulate with an array of beta"),
        "metastable, a list of dynamics": Engine(last(many), "one Dynamics per run"),
        "numpy, by 64": Engine(last(lambda case: _numpy(case, 64)), "64 runs at a time stay in the cache"),
        "numpy, one by one": Engine(one_by_one, "a Python loop over runs"),
        "torch eager": Engine(last(torch_eager)),
        "hand-vectorised": Engine(last(hand), "numba, d = 3 only, all cores"),
    },
    goals=(
        Goal("faster than NumPy", lambda t: t.faster("runs", "numpy", "numpy, by 64"), 2.5),
        Goal("faster than torch eager", lambda t: t.faster("runs", "torch eager"), 3.0),
        Goal("time over a hand-vectorised kernel's", lambda t: 1 / t.faster("runs", "hand-vectorised"), 1.6, False),
    ),
)
