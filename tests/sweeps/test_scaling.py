"""The cost model of sweeps, its simulation, and one run on several devices."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest

import metastable as ms
from metastable.errors import InputError
from metastable.solve.sharding import shard_tokens
from metastable.sweeps.scaling import Costs, efficiency, predicted_seconds, simulated_seconds
from metastable.sweeps.worker_pool import WorkerPool


@pytest.mark.parametrize("workers", [1, 2, 10, 100, 1000])
def test_the_simulation_follows_the_formula(workers):
    costs = Costs(chunk=1.0, driver=0.004, latency=0.001, start=0.0, ahead=2)
    chunks = 20 * workers
    assert simulated_seconds(chunks, workers, costs) == pytest.approx(
        predicted_seconds(chunks, workers, costs), rel=0.05
    )


def test_the_driver_becomes_the_bottleneck():
    costs = Costs(chunk=1.0, driver=0.004, start=0.0, ahead=2)
    assert efficiency(20_000, 100, costs) > 0.97
    assert efficiency(20_000, 1000, costs) == pytest.approx(0.25, abs=0.02)  # 250 chunks a second, and no more
    assert efficiency(20_000, 1000, Costs(chunk=10.0, driver=0.004, start=0.0, ahead=2)) > 0.95


def test_waiting_for_the_next_chunk_costs_a_turn():
    one, two = (simulated_seconds(100, 1, Costs(0.1, 0.02, 0.01, 0.0, ahead)) for ahead in (1, 2))
    assert one == pytest.approx(100 * (0.1 + 0.03), rel=0.03)
    assert two == pytest.approx(100 * 0.1, rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_the_model_beside_worker_processes(workers):
    """Tasks that sleep: what the pool adds to them is what the model says, whatever else the machine does."""
    chunks, length = 24, 0.25
    with WorkerPool(workers) as pool:
        for k in range(workers):
            pool.submit(-k - 1, time.sleep, (0.5,))
        waiting = workers
        while waiting:
            waiting -= len(pool.finished(1.0))
        began, sent, done = time.monotonic(), 0, 0
        while done < chunks:
            while pool.room > 0 and sent < chunks:
                pool.submit(sent, time.sleep, (length,))
                sent += 1
            done += len(pool.finished(1.0))
        took = time.monotonic() - began
    expected = predicted_seconds(chunks, workers, Costs(length, start=0.0))
    assert took == pytest.approx(expected, rel=0.15)


def test_tokens_are_shared_out_evenly():
    x = ms.initial.sphere(8, 3, seed=0)
    run = ms.flow(ms.Dynamics(beta=2.0), shard_tokens(x), [0.5])
    assert np.allclose(run, ms.flow(ms.Dynamics(beta=2.0), x, [0.5]), atol=1e-14)
    with pytest.raises(InputError, match="multiple"):
        shard_tokens(np.ones(3))


@pytest.mark.slow
def test_several_devices_give_the_same_numbers():
    code = """
import numpy as np, jax, metastable as ms
from metastable.solve.sharding import shard_tokens
x = ms.initial.sphere(96, 3, seed=0)
for mask in ("full", "causal"):
    dyn = ms.Dynamics(beta=4.0, mask=mask)
    one, many = ms.flow(dyn, x, [0.5, 1.0]), ms.flow(dyn, shard_tokens(x), [0.5, 1.0])
    assert len(many.sharding.device_set) == len(jax.devices()) == 4
    assert many.addressable_shards[0].data.shape == (2, 24, 3), many.addressable_shards[0].data.shape
    print(float(np.abs(np.asarray(one) - np.asarray(many)).max()))
"""
    flags = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    done = subprocess.run([sys.executable, "-c", code], env=flags, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert max(map(float, done.stdout.split())) < 1e-13
