"""Sweeps beside a bare `observe_many` of the same runs: in this process, with one and two workers, and on Dask.

Workers are started and have compiled before anything is timed: what is compared is how chunks are handed out. There
are 12 chunks of about a second, so that the last one, for which one of two workers may wait, decides nothing. One
worker has one thread, as each of two has; a sweep with one worker gives it the threads of all cores.

The second case is about memory: the same tiny runs, a few and ten times as many.
"""

import tempfile
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.harness import OURS, Case, Engine, Goal, Outcome, Run, Table, Workload

BETAS = np.linspace(0.5, 9.0, 8)
TIMES = (5.0, 10.0, 15.0)
GRID, TINY = ("grid",), ("tiny",)


def cases(quick: bool) -> list[Case]:
    return [
        Case("grid", {"n": 32, "d": 2, "seeds": 64 if quick else 768, "betas": len(BETAS)}),
        Case("tiny", {"n": 4, "d": 2, "runs": 512 if quick else 20_480}),  # more rows than are written together
    ]


def job(case: Case) -> Any:
    from metastable.sweeps import read_job

    sweep = {
        "beta": BETAS.tolist(),
        "seed": {"start": 0, "count": case["seeds"]},
        "observe": ["order"],
        "times": list(TIMES),
    }
    return read_job({"simulate": {"n": case["n"], "d": case["d"], "mask": "full", "t": TIMES[-1]}, "sweep": sweep})


def bare(case: Case) -> Run:
    import metastable as ms

    def run() -> np.ndarray:
        x0 = np.stack([ms.initial.sphere(case["n"], case["d"], seed=s) for s in range(case["seeds"])])
        beta = np.tile(BETAS, case["seeds"])
        found = ms.observe_many(ms.Dynamics(beta=beta), np.repeat(x0, len(BETAS), axis=0), "order", save=list(TIMES))
        return found["order"].values.T

    return run


def swept(case: Case) -> Run:
    from metastable.sweeps.sweep_driver import run_sweep
    from metastable.sweeps.sweep_results import read_table

    planned = job(case).with_settings({"jobs": 0})

    def run() -> np.ndarray:
        with tempfile.TemporaryDirectory() as place:
            run_sweep(planned, Path(place) / "sweep")
            table = read_table(Path(place) / "sweep")
        return table["order"].to_numpy().reshape(-1, len(TIMES))

    return run


def tiny(case: Case, times: int) -> Run:
    """As many ``times`` as many tiny runs in this process; the answer is that of the first of them."""
    from metastable.sweeps import read_job
    from metastable.sweeps.sweep_driver import run_sweep

    sweep = {
        "seed": {"start": 0, "count": times * case["runs"]},
        "observe": ["order"],
        "times": 8,
        "jobs": 0,
    }
    planned = read_job({"simulate": {"n": case["n"], "d": case["d"], "mask": "full", "t": 0.4}, "sweep": sweep})

    def run() -> np.ndarray:
        from pyarrow import parquet

        with tempfile.TemporaryDirectory() as place:
            run_sweep(planned, Path(place) / "sweep")
            with parquet.ParquetFile(Path(place) / "sweep" / "table.parquet") as file:
                return np.asarray(next(file.iter_batches(512, columns=["order"]))["order"])

    return run


def on(jobs: int, cluster: str | None, threads: int | None = None) -> Any:
    """The chunks of the sweep on workers that stay: everything but the start of the workers.

    Every worker has as many ``threads``; without, the cores are shared out.
    """

    def build(case: Case) -> Run:
        if cluster is not None:
            peers.need("distributed")
        from metastable.sweeps.choose_executor import make_executor
        from metastable.sweeps.chunks import all_chunks, compute
        from metastable.sweeps.sweep_driver import _planned
        from metastable.sweeps.worker_pool import shared_cores

        planned = job(case)
        chunks = list(all_chunks(list(_planned(planned, Path("/nowhere"))[0].parts)))
        executor = make_executor(jobs, cluster)
        share = nullcontext() if threads is None else shared_cores(threads)

        def everything(wanted: list[Any]) -> dict[int, bytes]:
            waiting, found = list(wanted), {}
            while len(found) < len(wanted):
                while waiting and executor.room > 0:
                    chunk = waiting.pop(0)
                    executor.submit(chunk.number, compute, (planned.spec, chunk))
                found |= {outcome.key: outcome.value for outcome in executor.finished(1.0)}
            return found

        def run() -> Outcome:
            import io

            from pyarrow import parquet

            began = time.perf_counter()
            found = everything(chunks)
            seconds = time.perf_counter() - began
            values = [parquet.read_table(io.BytesIO(found[k]))["order"].to_numpy() for k in sorted(found)]
            return Outcome(np.concatenate(values).reshape(-1, len(TIMES)), seconds=seconds)

        with share:  # which workers inherit at their start
            everything(chunks[: 2 * executor.workers])  # every worker has compiled
        return run

    return build


def ratio(table: Table, one: str, other: str) -> float:
    """One engine's time over another's, the median over the rounds."""
    return table.row("grid", one).over(table.row("grid", other)).median


def memory(table: Table) -> float:
    """Peak memory with ten times as many runs over that with a few."""
    return table.row("tiny", "ten times as many").megabytes / table.row("tiny", "tiny runs").megabytes


WORKLOAD = Workload(
    title="sweeps: engines beside a bare observe_many",
    cases=cases,
    tolerance=1e-12,
    engines={
        "observe_many": Engine(bare, "the same runs, one call, nothing on disk", only=GRID),
        OURS: Engine(swept, "metastable sweep --jobs 0, table on disk", only=GRID),
        "one worker": Engine(on(1, None, 1), "worker process with one thread, chunks only", only=GRID),
        "one worker, all threads": Engine(
            on(1, None), "worker process with the threads of all cores, chunks only", only=GRID
        ),
        "two workers": Engine(on(2, None, 1), "worker processes with one thread each, chunks only", only=GRID),
        "Dask local": Engine(on(2, "local"), "two Dask workers, chunks only", only=GRID),
        "tiny runs": Engine(partial(tiny, times=1), "metastable sweep --jobs 0", only=TINY, once=True),
        "ten times as many": Engine(partial(tiny, times=10), "metastable sweep --jobs 0", only=TINY, once=True),
    },
    goals=(
        Goal("in-process over bare", lambda t: ratio(t, OURS, "observe_many"), 1.1, False),
        Goal("one worker over two", lambda t: ratio(t, "one worker", "two workers"), 1.7),
        Goal("Dask over the pool", lambda t: ratio(t, "Dask local", "two workers"), 1.15, False),
        Goal("memory with ten times as many runs", memory, 1.1, False),
    ),
    has_before=False,
)  # fmt: skip
