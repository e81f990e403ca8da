"""W7: one velocity of up to a million tokens on the circle and on S^2, in linear time to 1e-12.

Beyond 100,000 tokens the exact sum is made for some rows only; linear-time answers are compared in the same rows.
"""

import time
from functools import partial

import numpy as np

from benchmarks import peers, versions
from benchmarks.harness import OURS, Case, Engine, Goal, Outcome, Run, Table, Workload

BETA, TOLERANCE = 9.0, 1e-12
WHOLE = 100_000  # tokens up to which the exact sum is made for every row
ROWS = 48


def cases(quick: bool) -> list[Case]:
    sizes = [("1e5", 100_000), ("1e6", 1_000_000)]
    return [
        Case(f"S{d - 1} {key}", {"n": n // 50 if quick else n, "d": d, "beta": BETA})
        for d in (2, 3)
        for key, n in sizes
    ]


def compared(case: Case) -> slice | np.ndarray:
    """The rows of the answer: all, or some of very many."""
    n = case["n"]
    return slice(None) if n <= WHOLE else np.unique(np.linspace(0, n - 1, ROWS).astype(int))


def _tangent(x: np.ndarray, pull: np.ndarray) -> np.ndarray:
    return pull - np.einsum("id,id->i", x, pull)[:, None] * x


def exact(case: Case, mask: str) -> Run:
    x, rows = peers.sphere((case["n"], case["d"])), compared(case)
    if isinstance(rows, slice):
        return lambda: _tangent(x, versions.exact(x, x, BETA, mask == "causal"))

    def some() -> Outcome:
        if mask == "full":
            pull = versions.exact(x[rows], x, BETA)
        else:
            pull = np.concatenate([versions.exact(x[i : i + 1], x[: i + 1], BETA) for i in rows])
        return Outcome(_tangent(x[rows], pull), seconds=float("nan"))  # a check, not a time

    return some


def velocity(x: np.ndarray, mask: str) -> np.ndarray:
    """The velocity in linear time: without the radial part the sum is the velocity."""
    got = versions.attend(x, x, beta=BETA, mask=mask, summation="spectral", tol=TOLERANCE, radial=False)
    if got.method != "spectral":
        raise RuntimeError(f"the linear-time sum was not made: {got.reason}")
    return got.value


def linear(case: Case, mask: str) -> Run:
    x, rows = peers.sphere((case["n"], case["d"])), compared(case)
    return lambda: velocity(x, mask)[rows]


def tenth(case: Case, mask: str) -> Run:
    """The time alone of a tenth of the tokens, in the same rounds as all of them; the answer compared is of all."""
    x = peers.sphere((case["n"], case["d"]))
    answer, few = velocity(x, mask)[compared(case)], x[: case["n"] // 10].copy()

    def run() -> Outcome:
        clock = time.perf_counter()
        velocity(few, mask)
        return Outcome(answer, seconds=time.perf_counter() - clock)

    return run


def growth(table: Table, engine: str) -> float:
    """Time at n = 1e6 over time at n = 1e5."""
    return table.seconds("S2 1e6", engine) / table.seconds("S2 1e6", f"{engine}, a tenth")


CAUSAL = "metastable, causal"
LARGE = ("S1 1e6", "S2 1e6")

WORKLOAD = Workload(
    title="one velocity in linear time, error requested 1e-12",
    cases=cases,
    tolerance=2e-12,
    engines={
        "exact": Engine(partial(exact, mask="full"), "metastable's exact kernel"),
        OURS: Engine(partial(linear, mask="full"), "engines.attend, spectral"),
        "exact, causal": Engine(partial(exact, mask="causal"), reference="exact, causal"),
        CAUSAL: Engine(partial(linear, mask="causal"), "engines.attend, spectral", reference="exact, causal"),
        f"{OURS}, a tenth": Engine(
            partial(tenth, mask="full"), "a tenth of the tokens; the answer is of all", only=LARGE
        ),
        f"{CAUSAL}, a tenth": Engine(
            partial(tenth, mask="causal"),
            "a tenth of the tokens; the answer is of all",
            reference="exact, causal",
            only=LARGE,
        ),
    },
    goals=(
        Goal("S^2, n = 1e5: faster than the exact kernel", lambda t: t.faster("S2 1e5", "exact"), 200.0),
        Goal("S^2: time at n = 1e6 over n = 1e5", lambda t: growth(t, OURS), 11.0, False),
        Goal(
            "S^2, n = 1e5, causal: faster than the exact kernel (a factor 3 less)",
            lambda t: t.faster("S2 1e5", "exact, causal", ours=CAUSAL),
            200.0 / 3,
        ),
        Goal("S^2, n = 1e5: causal over full", lambda t: 1 / t.faster("S2 1e5", OURS, ours=CAUSAL), 3.0, False),
        Goal("S^2, causal: time at n = 1e6 over n = 1e5", lambda t: growth(t, CAUSAL), 11.0, False),
    ),
)
