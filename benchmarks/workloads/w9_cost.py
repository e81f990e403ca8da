"""W9: the cost of one velocity on S^2 against the number of tokens; drawn in cost.svg."""

from functools import partial

import numpy as np

from benchmarks.harness import OURS, Case, Engine, Run, Workload
from benchmarks.workloads import w5_velocity as w5
from benchmarks.workloads import w7_spectral as w7

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)


def cases(quick: bool) -> list[Case]:
    return [Case(str(n), {"n": max(50, n // 50) if quick else n, "d": 3, "beta": w7.BETA}) for n in SIZES]


def _in_rows(build, case: Case) -> Run:  # type: ignore[no-untyped-def]
    """An engine of W5, answering in the rows that are compared."""
    run, rows = build(case), w7.compared(case)
    return lambda: np.asarray(run())[rows]


UP_TO_1E5 = tuple(str(n) for n in SIZES if n <= 100_000)
UP_TO_1E4 = tuple(str(n) for n in SIZES if n <= 10_000)
UP_TO_3E4 = tuple(str(n) for n in SIZES if n <= 30_000)

WORKLOAD = Workload(
    title="cost of one velocity on S^2 against n, beta = 9, float64",
    cases=cases,
    tolerance=2e-12,
    grid=True,
    engines={
        "metastable, exact": Engine(partial(w7.exact, mask="full")),
        OURS: Engine(partial(w7.linear, mask="full"), "spectral, 1e-12"),
        "metastable, exact, causal": Engine(partial(w7.exact, mask="causal"), reference="metastable, exact, causal"),
        "metastable, causal": Engine(
            partial(w7.linear, mask="causal"), "spectral, 1e-12", reference="metastable, exact, causal"
        ),
        "numpy, blocked": Engine(partial(_in_rows, w5.numpy_blocked), only=UP_TO_3E4),
        "torch SDPA": Engine(partial(_in_rows, w5.torch_sdpa), only=UP_TO_3E4),
        "KeOps": Engine(partial(_in_rows, w5.keops), only=UP_TO_1E4),
        "hand-vectorised": Engine(partial(_in_rows, w5.hand), only=UP_TO_1E5),
    },
)
