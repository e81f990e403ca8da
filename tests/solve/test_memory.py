"""Runs that do not fit are refused beforehand, with the number."""

import numpy as np
import pytest

import metastable as ms
from metastable.errors import InputError
from metastable.solve import memory
from metastable.store import run
from tests.store.runs import made


def test_work_arrays_count(monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda: 24e9)
    with pytest.raises(InputError, match=r"10000 saves of n = 100000 .* take about 44.8 GB .* free \(22.4 GB\)"):
        memory.check_size(10_000, 1, 100_000, 3)
    memory.check_size(151, 1, 100_000, 3)
    memory.check_size(2, 1, 1_000_000, 3)
    with pytest.raises(InputError, match="under 10000000000 heads"):
        memory.check_size(1, 1, 1, 3, heads=10**10)
    with pytest.raises(InputError, match="take about 763 GB"):
        memory.check_size(2, 1, 160_000, 3, whole_maps=True)


def test_simulate_and_records_ask(monkeypatch, tmp_path):
    plan, x, until = made("sphere")
    monkeypatch.setattr(memory, "free_memory", lambda: 1e3)
    ms.simulate(ms.Dynamics(), ms.initial.sphere(6, 3), t=1.0)  # too little to ask for
    monkeypatch.setattr(memory, "_LITTLE", 0.0)
    with pytest.raises(InputError, match="more than this machine has free"):
        ms.simulate(ms.Dynamics(), ms.initial.sphere(6, 3), t=1.0)
    with pytest.raises(InputError, match="more than this machine has free"):
        run(plan, x, tmp_path / "run", until)
    assert not (tmp_path / "run").exists()


def test_a_container_counts(monkeypatch, tmp_path):
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("4000\n")
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    assert memory.free_memory() == 1000.0
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.free_memory() > 1e6


def test_observe_many_asks_too(monkeypatch):
    """8 runs of 1e5 tokens at 10,000 times would be 192 GB: one run at a time, and that is refused as well."""
    monkeypatch.setattr(memory, "free_memory", lambda: 24e9)
    x = np.broadcast_to(ms.initial.sphere(4, 3)[:1], (8, 100_000, 3))
    with pytest.raises(InputError, match=r"10000 saves of n = 100000 .* take about 44.8 GB"):
        ms.observe_many(ms.Dynamics(), x, "order", save=10_000)


def test_flow_asks_where_it_knows_its_tokens(monkeypatch):
    import jax

    x = ms.initial.sphere(4, 3)
    monkeypatch.setattr(memory, "free_memory", lambda: 24e9)
    with pytest.raises(InputError, match=r"10000 saves of n = 100000 .* take about 44.8 GB"):
        ms.flow(ms.Dynamics(), np.broadcast_to(x[:1], (100_000, 3)), np.linspace(0.0, 1.0, 10_000))
    monkeypatch.setattr(memory, "_LITTLE", 0.0)
    monkeypatch.setattr(memory, "free_memory", lambda: 1e2)
    jax.eval_shape(lambda x: ms.flow(ms.Dynamics(), x, [0.1]), x)  # traced: it is not for flow to say


def test_more_times_than_memory_are_refused_before_they_are_made(monkeypatch):
    x = ms.initial.sphere(3, 2)
    run = ms.simulate(ms.Dynamics(), x, t=0.2, save=3)
    for ask in (lambda: ms.simulate(ms.Dynamics(), x, t=1.0, save=10**13), lambda: run.extend(0.4, save=10**13)):
        with pytest.raises(InputError, match="more than 1e.08 times"):
            ask()
    with pytest.raises(InputError, match="steps of dt"):
        run.extend(1e12)
    monkeypatch.setattr(memory, "_LITTLE", 0.0)
    monkeypatch.setattr(memory, "free_memory", lambda: 1e3)
    with pytest.raises(InputError, match="more than this machine has free"):
        run.extend(0.4)
