"""What a sweep costs on many workers: a formula, and a simulation of the scheduler that hands out its chunks.

One driver hands chunks to W workers and lands what comes back. A chunk takes ``chunk`` seconds on a worker; the driver
spends ``driver`` seconds on each (submit, receive, write); each passes ``latency`` seconds on its way. See
docs/scaling.md.
"""

import heapq
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Costs:
    """Seconds: of a chunk's work, of the driver for each chunk, on the way, and to start a worker."""

    chunk: float
    driver: float = 0.004
    latency: float = 0.001
    start: float = 3.0
    ahead: int = 1  # chunks that wait at a worker (Dask: 2 for each thread)


def predicted_seconds(chunks: int, workers: int, costs: Costs) -> float:
    """The bottleneck: work shared out in whole chunks, or the driver, which is alone.

    >>> predicted_seconds(1000, 10, Costs(chunk=1.0, driver=0.0, latency=0.0, start=0.0))
    100.0
    """
    turn = costs.chunk + (costs.latency + costs.driver if costs.ahead < 2 else 0.0)
    work = -(-chunks // workers) * turn
    return costs.start + max(work, chunks * costs.driver + costs.chunk)


def simulated_seconds(chunks: int, workers: int, costs: Costs, spread: float = 0.0, seed: int = 0) -> float:
    """The time at which the last chunk has landed, event by event; chunks vary by a lognormal factor of ``spread``.

    >>> simulated_seconds(1000, 10, Costs(chunk=1.0, driver=0.0, latency=0.0, start=0.0))
    100.0
    """
    rng = np.random.default_rng(seed)
    lengths = costs.chunk * rng.lognormal(-(spread**2) / 2, spread, chunks)
    driver, sent, free = costs.start, 0, [costs.start] * workers  # when the driver and each worker are free
    coming: list[tuple[float, int]] = []  # (time at which a result is at the driver, its worker)

    def send(worker: int, now: float) -> float:
        nonlocal sent
        done = max(free[worker], now + costs.latency) + lengths[sent]
        free[worker] = done
        heapq.heappush(coming, (done + costs.latency, worker))
        sent += 1
        return now + costs.driver / 2

    for _ in range(costs.ahead):
        for worker in range(workers):
            if sent < chunks:
                driver = send(worker, driver)
    while coming:
        arrived, worker = heapq.heappop(coming)
        driver = max(driver, arrived) + costs.driver / 2
        if sent < chunks:
            driver = send(worker, driver)
    return float(driver)


def efficiency(chunks: int, workers: int, costs: Costs, spread: float = 0.0) -> float:
    """The share of the workers' time that is work."""
    return chunks * costs.chunk / (workers * simulated_seconds(chunks, workers, costs, spread))
