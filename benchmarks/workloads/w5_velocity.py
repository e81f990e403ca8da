"""W5: one exact velocity of many tokens on S^2, never holding the n x n matrix."""

from typing import Any

import numpy as np

from benchmarks import peers, versions
from benchmarks.harness import OURS, Case, Engine, Goal, Outcome, Run, Workload

BETA = 9.0
BLOCK = 2**17  # attention entries that blocked engines hold at once: a megabyte, which stays in the cache


def cases(quick: bool) -> list[Case]:
    sizes = {"1e4": 10_000, "3e4": 30_000, "1e5": 100_000}
    return [Case(key, {"n": n // 20 if quick else n, "d": 3}) for key, n in sizes.items()]


def tokens(case: Case) -> np.ndarray:
    return peers.sphere((case["n"], case["d"]))


def _tangent(x: np.ndarray, pull: np.ndarray) -> np.ndarray:
    return pull - (x * pull).sum(axis=1, keepdims=True) * x


def numpy_blocked(case: Case) -> Run:
    x = tokens(case)
    rows = max(1, BLOCK // len(x))

    def run() -> np.ndarray:
        pull, room = np.empty_like(x), np.empty((rows, len(x)))
        for i in range(0, len(x), rows):
            some = x[i : i + rows]
            P = np.matmul(BETA * some, x.T, out=room[: len(some)])
            P -= BETA
            np.exp(P, out=P)
            pull[i : i + rows] = (P @ x) / P.sum(axis=1, keepdims=True)
        return _tangent(x, pull)

    return run


def metastable(case: Case) -> Run:
    x = tokens(case)
    return lambda: _tangent(x, versions.attend(x, x, beta=BETA, summation="exact").value)


def torch_eager(case: Case) -> Run:
    torch = peers.need("torch")
    x = torch.from_numpy(tokens(case))
    n, rows = len(x), max(1, BLOCK // len(x))
    scores, weights = torch.empty(rows, n, dtype=x.dtype), torch.empty(rows, n, dtype=x.dtype)

    def run() -> np.ndarray:
        pull = torch.empty_like(x)
        with torch.inference_mode():
            for first in range(0, n, rows):  # into the same buffers: fresh blocks pile up to 7 GB at n = 3e4
                m = min(rows, n - first)
                torch.matmul(BETA * x[first : first + m], x.T, out=scores[:m])
                torch.softmax(scores[:m], dim=1, out=weights[:m])
                torch.matmul(weights[:m], x, out=pull[first : first + m])
            return (pull - (x * pull).sum(dim=1, keepdim=True) * x).numpy()

    return run


def torch_sdpa(case: Case) -> Run:
    torch = peers.need("torch")
    x = torch.from_numpy(tokens(case))

    def run() -> np.ndarray:
        with torch.inference_mode():
            return peers.torch_sdpa_field(x, BETA).numpy()

    return run


def keops(case: Case) -> Run:
    torch = peers.need("torch")
    try:
        from pykeops.torch import LazyTensor
    except Exception as error:
        raise peers.Absent(f"KeOps does not load here: {str(error).splitlines()[0]}") from error
    tensor = torch.from_numpy(tokens(case))

    def velocity(x: Any) -> np.ndarray:
        scores = BETA * ((LazyTensor(x[:, None, :]) | LazyTensor(x[None, :, :])) - 1.0)
        P = scores.exp()  # symbolic, (n, n)
        pull = (P @ x) / P.sum(dim=1)
        return (pull - (x * pull).sum(dim=1, keepdim=True) * x).numpy()

    try:
        velocity(tensor[:64])
    except Exception as error:
        raise peers.Absent(f"KeOps does not run here: {str(error).splitlines()[0]}") from error
    return lambda: velocity(tensor)


def hand(case: Case) -> Run:
    from benchmarks import kernels

    x = tokens(case)
    return lambda: kernels.velocity(x, BETA)


def limit(case: Case) -> Run:
    """n^2 exponentials and nothing else, timed in the same rounds; there is nothing to compare."""
    from benchmarks import kernels

    def run() -> Outcome:
        wanted = float(case["n"]) ** 2
        part = min(wanted, 2e9)
        return Outcome(np.empty(0), share=kernels.exponentials(part) / wanted)

    return run


WORKLOAD = Workload(
    title="one exact velocity on S^2, beta = 9, float64",
    cases=cases,
    tolerance=1e-12,
    engines={
        "numpy, blocked": Engine(numpy_blocked),
        OURS: Engine(metastable, "engines.attend, exact"),
        "torch eager, blocked": Engine(torch_eager, only=("1e4", "3e4")),
        "torch SDPA": Engine(torch_sdpa),
        "KeOps": Engine(keops, "LazyTensor, CPU", only=("1e4", "3e4")),
        "hand-vectorised": Engine(hand, "numba, d = 3 only, all cores"),
        "limit: n^2 exponentials": Engine(limit, "the machine's exp rate, same rounds"),
    },
    goals=(
        Goal(
            "n = 3e4: time over what the peak exp rate allows",
            lambda t: 1 / t.faster("3e4", "limit: n^2 exponentials"),
            1.5,
            False,
        ),
        Goal("n = 3e4: faster than torch SDPA", lambda t: t.faster("3e4", "torch SDPA"), 3.0),
        Goal("n = 3e4: faster than blocked NumPy", lambda t: t.faster("3e4", "numpy, blocked"), 4.0),
        Goal("memory at n = 1e5", lambda t: t.row("1e5", OURS).megabytes, 1024.0, False, " MB"),
    ),
)
