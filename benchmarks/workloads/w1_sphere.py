"""W1: one run of the first paper's size on the sphere S^2, RK4, 150 steps, everything saved, warm."""

import numpy as np

from benchmarks import peers
from benchmarks.harness import OURS, Case, Engine, Goal, Outcome, Run, Workload

BETA, DT = 9.0, 0.1
OTHER_METHOD = 1e-4  # between the errors of two methods; measured 1e-7 to 6e-6


def cases(quick: bool) -> list[Case]:
    return [Case("run", {"n": 64, "d": 3, "steps": 20 if quick else 150})]


def tokens(case: Case) -> np.ndarray:
    return peers.sphere((case["n"], case["d"]))


def numpy_loop(case: Case) -> Run:
    x = tokens(case)
    return lambda: np.stack(
        peers.rk4(lambda x, t: peers.numpy_field(x, BETA), x, DT, case["steps"], 1, peers.unit)
    )  # (T, n, d)


def numpy_plain(case: Case) -> Run:
    x = tokens(case)
    return lambda: np.stack(
        peers.rk4(lambda x, t: peers.numpy_plain_field(x, BETA), x, DT, case["steps"], 1, peers.unit)
    )


def metastable(case: Case) -> Run:
    import metastable as ms

    dynamics, x = ms.Dynamics(beta=BETA), tokens(case)
    steps = case["steps"]
    return lambda: ms.simulate(dynamics, x, t=steps * DT, dt=DT, method="rk4", save=steps + 1).x


def published(case: Case) -> Run:
    """Per-token Python loops; a few steps."""
    x0, part = tokens(case), max(1, case["steps"] // 20)

    def field(x: np.ndarray, t: float) -> np.ndarray:
        out = np.zeros_like(x)
        size = [np.linalg.norm(token) for token in x]
        u = [token / r for token, r in zip(x, size)]
        for i in range(len(x)):
            weights = [np.exp(BETA * (np.dot(u[i], u[j]) - 1.0)) for j in range(len(x))]
            pull = sum(w * u[j] for j, w in enumerate(weights)) / sum(weights)
            out[i] = size[i] * (pull - np.dot(u[i], pull) * u[i])
        return out

    def run() -> Outcome:
        return Outcome(np.stack(peers.rk4(field, x0, DT, part, 1, peers.unit)), share=part / case["steps"])

    return run


def scipy_ivp(case: Case) -> Run:
    from scipy.integrate import solve_ivp

    x, steps = tokens(case), case["steps"]
    times = np.linspace(0.0, steps * DT, steps + 1)

    def field(t: float, y: np.ndarray) -> np.ndarray:
        return peers.numpy_field(y.reshape(x.shape), BETA).ravel()

    def run() -> np.ndarray:
        y = solve_ivp(field, (0.0, times[-1]), x.ravel(), "RK45", times, rtol=1e-6, atol=1e-8).y
        return peers.unit(y.T.reshape(-1, *x.shape))

    return run


def torch_eager(case: Case) -> Run:
    torch = peers.need("torch")
    x = torch.from_numpy(tokens(case))

    def run() -> np.ndarray:
        with torch.inference_mode():
            saved = peers.rk4(lambda x, t: peers.torch_field(x, BETA), x, DT, case["steps"], 1, peers.torch_unit)
            return torch.stack(saved).numpy()

    return run


def torch_compiled(case: Case) -> Run:
    torch = peers.need("torch")
    x = torch.from_numpy(tokens(case))

    @torch.compile(fullgraph=True, dynamic=False)  # type: ignore[untyped-decorator]
    def step(x):  # type: ignore[no-untyped-def]
        return peers.rk4(lambda x, t: peers.torch_field(x, BETA), x, DT, 1, 1, peers.torch_unit)[1]

    def run() -> np.ndarray:
        saved = [x]
        with torch.no_grad():
            for _ in range(case["steps"]):
                saved.append(step(saved[-1]))
        return torch.stack(saved).numpy()

    try:
        run()
    except Exception as error:
        raise peers.Absent(f"torch.compile does not work here: {str(error).splitlines()[0]}") from error
    return run


def torch_sdpa(case: Case) -> Run:
    torch = peers.need("torch")
    x = torch.from_numpy(tokens(case))

    def run() -> np.ndarray:
        with torch.inference_mode():
            saved = peers.rk4(lambda x, t: peers.torch_sdpa_field(x, BETA), x, DT, case["steps"], 1, peers.torch_unit)
            return torch.stack(saved).numpy()

    return run


def torchdiffeq(case: Case) -> Run:
    torch = peers.need("torch")
    odeint = peers.need("torchdiffeq").odeint
    x, steps = torch.from_numpy(tokens(case)), case["steps"]
    times = torch.linspace(0.0, steps * DT, steps + 1, dtype=torch.float64)

    def run() -> np.ndarray:
        with torch.inference_mode():
            return peers.unit(odeint(lambda t, x: peers.torch_field(x, BETA), x, times, method="rk4").numpy())

    return run


def diffrax(case: Case) -> Run:
    dfx = peers.need("diffrax")
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    x, steps = jnp.asarray(tokens(case)), case["steps"]

    def field(t, x, args):  # type: ignore[no-untyped-def]
        size = jnp.sqrt((x * x).sum(axis=-1, keepdims=True))
        u = x / size
        pull = jax.nn.softmax(BETA * u @ u.T) @ u
        return size * (pull - (u * pull).sum(axis=-1, keepdims=True) * u)

    @jax.jit
    def solve(x):  # type: ignore[no-untyped-def]
        saves = dfx.SaveAt(ts=jnp.linspace(0.0, steps * DT, steps + 1))
        control = dfx.PIDController(rtol=1e-6, atol=1e-8)
        return dfx.diffeqsolve(
            dfx.ODETerm(field), dfx.Tsit5(), 0.0, steps * DT, DT, x, saveat=saves, stepsize_controller=control
        ).ys

    return lambda: peers.unit(np.asarray(solve(x)))


def hand(case: Case) -> Run:
    from benchmarks import kernels

    x = tokens(case)
    return lambda: kernels.rk4(x, BETA, DT, case["steps"])


WORKLOAD = Workload(
    title="one run on the sphere, RK4, dt = 0.1, beta = 9, warm",
    cases=cases,
    tolerance=1e-10,
    engines={
        "numpy": Engine(numpy_loop, "vectorised loop"),
        OURS: Engine(metastable, "ms.simulate"),
        "numpy, plain stages": Engine(numpy_plain, "stage points not normalised", OTHER_METHOD),
        "published algorithm": Engine(published, "per-token Python loops"),
        "scipy solve_ivp": Engine(scipy_ivp, "RK45 on NumPy, rtol 1e-6", OTHER_METHOD),
        "torch eager": Engine(torch_eager),
        "torch.compile": Engine(torch_compiled, "one compiled RK4 step"),
        "torch SDPA": Engine(torch_sdpa),
        "torchdiffeq": Engine(torchdiffeq, "rk4 (3/8 rule)", OTHER_METHOD),
        "diffrax": Engine(diffrax, "Tsit5, rtol 1e-6", OTHER_METHOD),
        "hand-vectorised": Engine(hand, "numba, this workload only, one core"),
    },
    goals=(
        Goal("faster than the vectorised NumPy loop", lambda t: t.faster("run", "numpy", "numpy, plain stages"), 2.5),
        Goal("faster than torch eager", lambda t: t.faster("run", "torch eager"), 4.0),
        Goal("faster than torch.compile", lambda t: t.faster("run", "torch.compile"), 1.5),
        Goal("time over a hand-vectorised kernel's", lambda t: 1 / t.faster("run", "hand-vectorised"), 2.5, False),
    ),
)
