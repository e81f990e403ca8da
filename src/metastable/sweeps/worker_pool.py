"""Worker processes on this machine, started by spawn: a fork after JAX has started deadlocks.

Workers live long: importing JAX and compiling cost seconds. Each has a pipe of its own, so that it is known which
task died with a worker; dead and hanging workers are replaced. A worker whose parent is gone ends itself.
"""

import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import wait
from pickle import PicklingError
from typing import Any

from metastable.engines.simd.threads import available
from metastable.errors import InputError
from metastable.store.files import reason
from metastable.sweeps.executors import Executor, Outcome, tried

_STILLBORN = 8  # workers in a row that end before they begin a task: they cannot start here
_START = 300.0  # seconds from a task's submission to its begin, in which a worker starts and imports; far too many
_STARTED = "started"


class _Worker:
    """A process, its pipe, and the task it has, with the times at which it was submitted and began."""

    def __init__(self, threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        with shared_cores(threads):
            self.process = context.Process(target=_serve, args=(theirs,), daemon=True, name="metastable-worker")
            self.process.start()
        theirs.close()
        self.key: Any = None
        self.busy = False
        self.submitted = 0.0
        self.began: float | None = None

    def stop(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.join()


class WorkerPool(Executor):
    """``jobs`` worker processes that share the cores."""

    name = "process pool"

    def __init__(self, jobs: int, limit: float | None = None) -> None:
        self.workers, self.limit = jobs, limit
        self._threads = threads_each(jobs)
        self._team: list[_Worker] = []
        self._stillborn = 0

    @property
    def room(self) -> int:
        return self.workers - sum(worker.busy for worker in self._team)

    def submit(self, key: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        worker = next((w for w in self._team if not w.busy), None)
        if worker is not None and not worker.process.is_alive():
            self._drop(worker)
            worker = None
        if worker is None:
            worker = _Worker(self._threads)
            self._team.append(worker)
        worker.key, worker.busy, worker.submitted, worker.began = key, True, time.monotonic(), None
        try:
            with suppress(OSError):  # it died just now, which its pipe will show
                worker.pipe.send((function, arguments))
        except (PicklingError, AttributeError, TypeError) as error:
            raise InputError(
                f"Worker processes cannot be sent this ({reason(error)}); use functions that are defined in a module, "
                "or jobs=0 to compute in this process."
            ) from error

    def finished(self, timeout: float) -> list[Outcome]:
        busy = {worker.pipe: worker for worker in self._team if worker.busy}
        found = []
        for pipe in wait(list(busy), timeout=timeout):
            outcome = self._heard(busy[pipe])  # type: ignore[index]
            found += [outcome] if outcome is not None else []
        return found + self._given_up()

    def _heard(self, worker: _Worker) -> Outcome | None:
        """What a worker says: nothing of note, or the outcome of its task."""
        try:
            said = worker.pipe.recv()
        except (EOFError, OSError):
            return self._died(worker)
        if said == _STARTED:
            worker.began, self._stillborn = time.monotonic(), 0
            return None
        worker.busy = False
        return Outcome(worker.key, *said)

    def _died(self, worker: _Worker) -> Outcome:
        worker.process.join(1.0)
        code = worker.process.exitcode
        how = f"by signal {-code}" if code is not None and code < 0 else f"with code {code}"
        if worker.began is None:
            return self._never_began(worker, f"end {how} before they begin a task")
        self._drop(worker)
        return Outcome(worker.key, why="died", error=f"The worker process ended {how}.")

    def _never_began(self, worker: _Worker, what: str) -> Outcome:
        """The outcome of a task that had no part in the end of its worker; refused when no worker ever begins one."""
        self._drop(worker)
        self._stillborn += 1
        if self._stillborn >= _STILLBORN:
            raise InputError(
                f"Worker processes {what}; call from a file under `if __name__ == '__main__':`, or use jobs=0 to "
                "compute in this process."
            )
        return Outcome(worker.key, why="died")

    def _given_up(self) -> list[Outcome]:
        """Tasks that have taken too long, or that their workers do not come to; the workers are killed."""
        now, found = time.monotonic(), []
        for worker in [w for w in self._team if w.busy]:
            if worker.began is None:
                if now - worker.submitted > _START:
                    found.append(self._never_began(worker, f"have not begun a task after {_START:g} s"))
            elif self.limit is not None and now - worker.began > self.limit:
                found.append(Outcome(worker.key, why="limit", error=f"It was given up after {self.limit:g} s."))
                self._drop(worker)
        return found

    def _drop(self, worker: _Worker) -> None:
        self._team.remove(worker)
        worker.stop()

    def close(self) -> None:
        for worker in self._team:
            worker.process.kill()
        for worker in self._team:
            worker.stop()
        self._team = []


def threads_each(workers: int) -> int:
    """Threads of each of several workers that share the cores of this process."""
    return max(1, available() // workers)


@contextmanager
def shared_cores(threads: int) -> Iterator[None]:
    """Cores shared out among workers: every library that starts threads reads its number from here."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "METASTABLE_THREADS")
    # XLA reads NPROC; a callback holds one of its threads while another hands it arrays: one alone waits for ever
    wanted = dict.fromkeys(names, threads) | {"NPROC": max(2, threads)}
    ours = {name: str(count) for name, count in wanted.items() if name not in os.environ}
    if threads == 1 and "XLA_FLAGS" not in os.environ:
        ours["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            del os.environ[name]


# --- the worker's side --------------------------------------------------------------------------------------------


def _serve(pipe: Any) -> None:
    """Compute the tasks that come through the pipe until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    threading.Thread(target=follow_parent, daemon=True).start()
    with suppress(OSError, EOFError):
        while True:
            function, arguments = pipe.recv()
            pipe.send(_STARTED)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                done = tried(None, function, arguments)
            pipe.send((done.value, done.why, done.error, done.trace))


def follow_parent() -> None:
    """End this process when its parent has ended."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
