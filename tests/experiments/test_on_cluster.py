"""`reproduce --cluster`: the same records as in worker processes; what dies is tried again, what hangs is given up."""

import time

import numpy as np
import pytest

from metastable.experiments import on_cluster
from metastable.experiments.on_cluster import run_on_cluster
from metastable.experiments.reproducing import HOMES, reproduce
from metastable.experiments.workers import Task
from metastable.progress import silent
from metastable.sweeps.executors import InProcess, Outcome


def task(folder, name="ginibre", instances=4):
    return Task(name, HOMES["ginibre"], folder / name, "quick", {"instances": instances})


class Dying(InProcess):
    """The first worker of every task dies."""

    def finished(self, timeout):
        key = self._task[0]
        if key in self.seen:
            return super().finished(timeout)
        self.seen.add(key)
        self.close()
        return [Outcome(key, why="died", error="killed")]


def use(monkeypatch, kind, **own):
    def make(jobs, cluster, limit):
        executor = kind(limit)
        vars(executor).update(own)
        return executor

    monkeypatch.setattr(on_cluster, "make_executor", make)


def test_an_experiment_whose_worker_died_is_run_again(monkeypatch, tmp_path):
    use(monkeypatch, Dying, seen=set())
    found = run_on_cluster([task(tmp_path)], "local", 1, silent)["ginibre"]
    assert not found.error
    assert found.record.verdicts
    assert run_on_cluster([task(tmp_path)], "local", 1, silent)["ginibre"].reused


def test_an_experiment_that_hangs_is_given_up(monkeypatch, tmp_path):
    use(monkeypatch, InProcess)
    monkeypatch.setattr(on_cluster, "compute_task", lambda task: time.sleep(600))
    found = run_on_cluster([task(tmp_path), task(tmp_path, "second")], "local", 1, silent, limit=0.2)
    assert [one.error for one in found.values()] == ["It was given up after 0.2 s."] * 2


@pytest.mark.slow
def test_a_cluster_reproduces_what_this_machine_does(tmp_path):
    pytest.importorskip("distributed")
    how = {"preset": "quick", "seeds": 6}
    there = reproduce(["ginibre", "instability"], out=tmp_path / "there", cluster="local", jobs=2, **how)
    here = reproduce(["ginibre", "instability"], out=tmp_path / "here", jobs=1, **how)
    assert [one.name for one in there.results] == [one.name for one in here.results]
    for one, other in zip(there.results, here.results):
        assert [v.status for v in one.record.verdicts] == [v.status for v in other.record.verdicts]
        pairs = [(v.measured, w.measured) for v, w in zip(one.record.verdicts, other.record.verdicts)]
        assert np.array_equal(*(np.array(side, dtype=float) for side in zip(*pairs)), equal_nan=True)
    assert (tmp_path / "there" / "index.html").is_file()
