"""W2: the second paper's setting, rescaled tokens in R^3, V = I, RK4.

The published step computes attention once, with e^{tV} made anew for every term of its triple loop, and moves tokens
by what is plain Euler (see the known slips in the issue's oracles); so it is compared with Euler runs, while the time
it is set against is that of our RK4 run.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.harness import OURS, Case, Engine, Goal, Outcome, Run, Workload

DT = 0.1


def cases(quick: bool) -> list[Case]:
    return [Case("run", {"n": 10 if quick else 40, "d": 3, "steps": 20 if quick else 150})]


def setting(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """V, and tokens uniform on [-5, 5]^d."""
    return np.eye(case["d"]), np.random.default_rng(0).uniform(-5.0, 5.0, (case["n"], case["d"]))


def numpy_field(V: np.ndarray) -> Callable[[np.ndarray, float], np.ndarray]:
    """Eq. (4): z_i' = sum_j P_ij V (z_j - z_i), attention from e^{tV} z, for symmetric V."""
    values, S = np.linalg.eigh(V)

    def field(z: np.ndarray, t: float) -> np.ndarray:
        x = z @ ((S * np.exp(t * values)) @ S.T)
        P = x @ x.T
        P -= P.max(axis=1, keepdims=True)
        np.exp(P, out=P)
        return ((P @ z) / P.sum(axis=1, keepdims=True) - z) @ V.T

    return field


def numpy_loop(case: Case) -> Run:
    V, z = setting(case)
    field = numpy_field(V)
    return lambda: np.stack(peers.rk4(field, z, DT, case["steps"], 1, lambda z: z))


def numpy_euler(case: Case) -> Run:
    V, z0 = setting(case)
    field = numpy_field(V)

    def run() -> np.ndarray:
        saved = [z0]
        for k in range(case["steps"]):
            saved.append(saved[-1] + DT * field(saved[-1], k * DT))
        return np.stack(saved)

    return run


def _ours(case: Case, method: str) -> Run:
    import metastable as ms

    V, z = setting(case)
    dynamics, steps = ms.Dynamics(ms.Weights(V=V), geometry="rescaled"), case["steps"]
    return lambda: ms.simulate(dynamics, z, t=steps * DT, dt=DT, method=method, save=steps + 1).x


def published(case: Case) -> Run:
    """The triple loop of the published script, in our own words; the first step or two."""
    from scipy.linalg import expm

    V, z0 = setting(case)
    n, part = case["n"], 1

    def attention(z: np.ndarray, t: float) -> list[list[float]]:
        def weight(i: int, j: int) -> float:
            terms = [np.exp(np.dot(expm(t * V) @ z[i], expm(t * V) @ (z[k] - z[j]))) for k in range(n)]
            return 1.0 / np.sum(terms)

        return [[weight(i, j) for j in range(n)] for i in range(n)]

    def drift(z: np.ndarray, P: list[list[float]], i: int) -> np.ndarray:
        return np.sum([P[i][j] * (V @ (z[j] - z[i])) for j in range(n)], axis=0)

    def step(z: np.ndarray, t: float) -> np.ndarray:
        P, moved = attention(z, t), np.zeros_like(z)
        for i in range(n):
            k1 = DT * drift(z, P, i)
            k2 = DT * drift(z + k1 / 2, P, i)
            k3 = DT * drift(z + k2 / 2, P, i)
            k4 = DT * drift(z + k3, P, i)
            moved[i] = z[i] + (k1 + 2 * k2 + 2 * k3 + k4) / 6
        return moved

    def run() -> Outcome:
        saved = [z0]
        for k in range(part):
            saved.append(step(saved[-1], k * DT))
        return Outcome(np.stack(saved), share=part / case["steps"])

    return run


def scipy_ivp(case: Case) -> Run:
    from scipy.integrate import solve_ivp

    V, z = setting(case)
    field, times = numpy_field(V), np.linspace(0.0, case["steps"] * DT, case["steps"] + 1)

    def run() -> np.ndarray:
        def flat(t: float, y: np.ndarray) -> np.ndarray:
            return field(y.reshape(z.shape), t).ravel()

        return solve_ivp(flat, (0.0, times[-1]), z.ravel(), "RK45", times, rtol=1e-6, atol=1e-8).y.T.reshape(
            -1, *z.shape
        )

    return run


def torch_field(V: Any) -> Callable[[Any, float], Any]:
    """The same in torch."""
    values, S = peers.need("torch").linalg.eigh(V)

    def field(z: Any, t: float) -> Any:
        x = z @ ((S * (t * values).exp()) @ S.T)
        return ((x @ x.T).softmax(dim=1) @ z - z) @ V.T

    return field


def torch_eager(case: Case) -> Run:
    torch = peers.need("torch")
    V, z = (torch.from_numpy(a) for a in setting(case))
    field = torch_field(V)

    def run() -> np.ndarray:
        with torch.inference_mode():
            return torch.stack(peers.rk4(field, z, DT, case["steps"], 1, lambda z: z)).numpy()

    return run


WORKLOAD = Workload(
    title="rescaled tokens in R^3, V = Q = K = I, RK4, dt = 0.1",
    cases=cases,
    tolerance=1e-9,
    engines={
        "numpy": Engine(numpy_loop, "vectorised loop"),
        OURS: Engine(lambda case: _ours(case, "rk4"), "ms.simulate, with its second copy"),
        "numpy, Euler": Engine(numpy_euler, "what the published step amounts to", reference="numpy, Euler"),
        "metastable, Euler": Engine(lambda case: _ours(case, "euler"), reference="numpy, Euler"),
        "published algorithm": Engine(published, "per-token Python loops, Euler", reference="numpy, Euler"),
        "scipy solve_ivp": Engine(scipy_ivp, "RK45 on NumPy, rtol 1e-6", tolerance=5e-3),
        "torch eager": Engine(torch_eager),
    },
    goals=(
        Goal("faster than the published per-token loop", lambda t: t.faster("run", "published algorithm"), 10_000.0),
        Goal("faster than the vectorised NumPy loop", lambda t: t.faster("run", "numpy"), 2.0),
    ),
)
