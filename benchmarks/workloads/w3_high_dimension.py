"""W3: rescaled tokens in R^128, V symmetric and sparse (second paper, Figs 7b and 15), RK4.

The horizon is as long as ordinary coordinates, in which the peers compute, keep eight digits.
"""

import numpy as np

from benchmarks import peers
from benchmarks.harness import OURS, Case, Engine, Goal, Run, Workload
from benchmarks.workloads.w2_rescaled import numpy_field, torch_field

DT = 0.1


def cases(quick: bool) -> list[Case]:
    n, d = (32, 16) if quick else (256, 128)
    return [Case("run", {"n": n, "d": d, "steps": 5 if quick else 20})]


def setting(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """V with a tenth of its entries, eigenvalues of modulus below 1 pushed out to [1, 2]; tokens in a cube."""
    d, rng = case["d"], np.random.default_rng(0)
    M = rng.uniform(-1.0, 1.0, (d, d)) * (rng.random((d, d)) < 0.1)
    values, S = np.linalg.eigh((M + M.T) / 2)
    small = np.abs(values) < 1.0
    values = np.where(small, np.copysign(rng.uniform(1.0, 2.0, d), values), values)
    return (S * values) @ S.T, rng.uniform(-0.5, 0.5, (case["n"], d))


def numpy_loop(case: Case) -> Run:
    V, z = setting(case)
    field = numpy_field(V)
    return lambda: np.stack(peers.rk4(field, z, DT, case["steps"], 5, lambda z: z))


def metastable(case: Case) -> Run:
    import metastable as ms

    V, z = setting(case)
    V = (V + V.T) / 2
    dynamics, steps = ms.Dynamics(ms.Weights(V=V), geometry="rescaled"), case["steps"]
    return lambda: ms.simulate(dynamics, z, t=steps * DT, dt=DT, method="rk4", save=steps // 5 + 1).x


def torch_eager(case: Case) -> Run:
    torch = peers.need("torch")
    V, z = (torch.from_numpy(a) for a in setting(case))
    field = torch_field(V)

    def run() -> np.ndarray:
        with torch.inference_mode():
            return torch.stack(peers.rk4(field, z, DT, case["steps"], 5, lambda z: z)).numpy()

    return run


WORKLOAD = Workload(
    title="rescaled tokens in R^128, sparse symmetric V, RK4, dt = 0.1",
    cases=cases,
    tolerance=1e-8,
    engines={
        "numpy": Engine(numpy_loop, "vectorised loop"),
        OURS: Engine(metastable, "ms.simulate, with its second copy"),
        "torch eager": Engine(torch_eager),
    },
    goals=(Goal("speed over the better of NumPy and torch", lambda t: t.faster("run", "numpy", "torch eager"), 0.9),),
)
