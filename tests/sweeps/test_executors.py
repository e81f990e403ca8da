"""Tasks in this process, in worker processes and on Dask: values, errors, deaths, hangs."""

import os
import re
import signal
import time

import pytest

from metastable.engines.exact import host_engines
from metastable.errors import InputError
from metastable.sweeps import worker_pool
from metastable.sweeps.choose_executor import make_executor
from metastable.sweeps.dask_executor import remote
from metastable.sweeps.executors import InProcess
from metastable.sweeps.worker_pool import WorkerPool, shared_cores


def square(value):
    return value * value


def bad(value):
    raise InputError(f"{value} is bad")


def die(value):
    os.kill(os.getpid(), signal.SIGKILL)


def pid(value):
    time.sleep(0.05)
    return os.getpid()


def careful(value):
    try:
        time.sleep(value)
    except Exception as error:
        raise InputError(f"It could not be computed: {error}") from error


def everything(executor, tasks, timeout=60.0):
    """Outcomes by key, of tasks submitted as there is room."""
    found, waiting, end = {}, list(tasks), time.monotonic() + timeout
    while len(found) < len(tasks) and time.monotonic() < end:
        while waiting and executor.room > 0:
            executor.submit(*waiting.pop(0))
        found |= {outcome.key: outcome for outcome in executor.finished(0.2)}
    return found


@pytest.mark.parametrize("jobs", [0, 2])
def test_values_and_errors(jobs):
    with make_executor(jobs) as executor:
        found = everything(executor, [(k, square, (k,)) for k in range(6)] + [("x", bad, (3,)), ("y", square, ("a",))])
    assert [found[k].value for k in range(6)] == [0, 1, 4, 9, 16, 25]
    assert (found["x"].why, found["x"].error) == ("error", "3 is bad")
    assert found["y"].error.startswith("TypeError: ")
    assert "Traceback" in found["y"].trace


def test_a_worker_that_dies_or_hangs_is_replaced():
    with WorkerPool(2, limit=1.0) as pool:
        tasks = [("dies", die, (0,)), ("hangs", time.sleep, (600,)), *((k, pid, (k,)) for k in range(4))]
        found = everything(pool, tasks)
    assert (found["dies"].why, found["dies"].error) == ("died", "The worker process ended by signal 9.")
    assert (found["hangs"].why, found["hangs"].error) == ("limit", "It was given up after 1 s.")
    assert all(found[k].value != os.getpid() for k in range(4))


def test_workers_with_one_thread_each_leave_xla_two(monkeypatch):
    """With one, a run on the exact engine waited for ever in a sweep with as many workers as cores."""
    for name in ("NPROC", "OPENBLAS_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    with shared_cores(1):
        assert (os.environ["OPENBLAS_NUM_THREADS"], os.environ["NPROC"]) == ("1", "2")
    assert "NPROC" not in os.environ
    monkeypatch.setenv("NPROC", "1")  # the user's own wish is kept, and kernels step aside
    assert "NPROC=1" in str(host_engines.unsupported(None))


class Import:
    """Arguments that a worker must make first, by a call that may never return."""

    def __init__(self, function, *arguments):
        self.made_by = (function, arguments)

    def __reduce__(self):
        return self.made_by


@pytest.mark.parametrize(
    ("task", "said"),
    [(Import(time.sleep, 600), r"not begun a task after 0\.3 s"), (Import(os._exit, 3), "with code 3 before")],
)
def test_workers_that_never_begin_are_given_up(monkeypatch, task, said):
    """One that hung before its task, in an import, was waited for; one that died there was replaced, for ever."""
    monkeypatch.setattr(worker_pool, "_START", 0.3 if "after" in said else 300.0)
    monkeypatch.setattr(worker_pool, "_STILLBORN", 2)
    with WorkerPool(1) as pool:
        assert everything(pool, [(0, square, (task,))], 30.0)[0].error == ""  # none of its doing: it is tried again
        with pytest.raises(InputError, match=said):
            everything(pool, [(0, square, (task,))], 30.0)


def gathered(value):
    import metastable as ms

    return float(ms.simulate(ms.Dynamics(), ms.initial.sphere(300, 64), 0.5, save=2, engine="exact").x.sum())


@pytest.mark.slow
def test_a_worker_with_one_thread_computes_on_the_host_too(monkeypatch):
    """JAX's only thread waited for the host, which waited for it: arrays of more than 100 kB, the exact engine."""
    monkeypatch.setattr(worker_pool, "threads_each", lambda workers: 1)
    with WorkerPool(1, limit=60.0) as pool:
        found = everything(pool, [(k, gathered, (k,)) for k in range(3)], 200.0)
    assert [outcome.why for outcome in found.values()] == ["", "", ""]


def test_a_pool_leaves_no_process_behind():
    with WorkerPool(1) as pool:
        worker = everything(pool, [(0, pid, (0,))])[0].value
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


def test_in_this_process_a_hanging_task_is_given_up():
    with InProcess(limit=0.2) as executor:
        found = everything(executor, [(0, time.sleep, (60,)), (1, square, (3,))])
    assert (found[0].why, found[1].value) == ("limit", 9)


def test_a_task_that_handles_its_own_errors_is_given_up_too():
    with InProcess(limit=0.2) as executor:
        found = everything(executor, [(0, careful, (60,))])
    assert (found[0].why, found[0].error) == ("limit", "It was given up after 0.2 s.")


def test_on_a_cluster_a_hanging_task_is_given_up():
    assert remote(square, (3,), 5.0) == (9, "", "", "")
    assert remote(time.sleep, (60,), 0.1)[1] == "limit"
    assert remote(bad, (3,), None)[1:3] == ("error", "3 is bad")


def test_executors_that_cannot_be_are_refused():
    with pytest.raises(InputError, match=">= 0"):
        make_executor(-1)
    with pytest.raises(InputError, match="tcp://host:8786"):
        make_executor(0, "nowhere")


@pytest.mark.slow
def test_a_cluster_of_our_own_lives_on_whatever_kills_its_workers():
    """Dask gives a worker up after some deaths; tasks then waited for ever."""
    pytest.importorskip("distributed")
    with make_executor(2, "local", 60.0) as cluster:
        for k in range(7):
            assert everything(cluster, [(k, die, (0,))])[k].why == "died"
        assert everything(cluster, [("after", square, (3,))])["after"].value == 9


def spin(value):
    while True:
        pass


@pytest.mark.slow
def test_a_cluster_is_rid_of_a_task_that_it_gave_up():
    """Threads that were left behind slowed other tasks down until those were given up as well."""
    pytest.importorskip("distributed")
    with make_executor(1, "local", 1.0) as cluster:
        before = everything(cluster, [(0, pid, (0,))])[0].value
        found = everything(cluster, [("hangs", spin, (0,)), ("next", square, (3,))])
        after = everything(cluster, [(0, pid, (0,))])[0].value
    assert (found["hangs"].why, found["hangs"].error) == ("limit", "It was given up after 1 s.")
    assert found["next"].value == 9
    assert after != before


def hold(value):
    """Hours in one call that keeps Python's lock: no other thread of the process goes on."""
    re.match(r"(a+)+$", "a" * 60 + "b")


@pytest.mark.slow
def test_a_cluster_gives_up_a_task_that_keeps_pythons_lock():
    """Its worker cannot give it up: the sweep waited for Dask, which notices after some times five minutes."""
    pytest.importorskip("distributed")
    with make_executor(1, "local", 1.0) as cluster:
        found = everything(cluster, [("holds", hold, (0,)), ("next", square, (3,))], 120.0)
    assert (found["holds"].why, found["holds"].error) == ("limit", "It was given up after 1 s.")
    assert found["next"].value == 9
