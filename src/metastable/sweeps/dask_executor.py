"""A Dask cluster: one on this machine, or any scheduler that a user already has.

The scheduler gives the tasks of a worker that died to another. Results come back to the driver, which alone writes:
workers need no shared disk.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

from metastable.engines.simd.threads import available
from metastable.errors import InputError
from metastable.sweeps.executors import Executor, Outcome, TooLong, tried
from metastable.sweeps.worker_pool import shared_cores, threads_each

_WAIT = 60.0  # seconds to wait for a scheduler and its first worker
_RESTART = 20.0  # seconds for a worker to come back
_SILENCE = 10.0  # seconds, at least, without a sign of life before a worker counts as hanging
_AHEAD = 2  # tasks in flight for each thread of the cluster: the next one is there when one ends


class DaskExecutor(Executor):
    """Tasks as futures of a `distributed.Client`; ``cluster`` is "local" or a scheduler's address."""

    name = "Dask"

    def __init__(self, cluster: str, jobs: int = 0, limit: float | None = None) -> None:
        try:
            from distributed import Client, LocalCluster
            from distributed.utils import silence_logging_cmgr
        except ImportError as error:
            raise InputError(
                "A Dask cluster needs dask.distributed; install it with `pip install metastable[cluster]`."
            ) from error
        self.limit, self._local, self._gone = limit, None, False
        self._futures: dict[Any, Any] = {}  # key of the future -> (future, key of the task)
        self._done: queue.Queue[Any] = queue.Queue()
        self._signs: dict[str, tuple[Any, float]] = {}  # worker -> its last sign of life, and when it was new to us
        if cluster == "local":
            self._count = jobs or available()
            with shared_cores(threads_each(self._count)):
                self._local = LocalCluster(
                    n_workers=self._count, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
                )
            cluster = self._local.scheduler_address
        elif "://" not in cluster:
            raise InputError(
                f"cluster must be local or a scheduler's address such as tcp://host:8786, not {cluster!r}."
            )
        self._quiet = ExitStack()  # a lost scheduler is told in a sentence, not by Dask's tracebacks
        self._quiet.enter_context(silence_logging_cmgr(logging.CRITICAL))
        try:
            self._client = Client(cluster, timeout=_WAIT, set_as_default=False)
            self._client.wait_for_workers(1, timeout=_WAIT)
        except (OSError, ValueError, TimeoutError) as error:
            self._quiet.close()
            raise InputError(
                f"No Dask scheduler with workers answers at {cluster!r} ({type(error).__name__}); start "
                "`dask scheduler` and `dask worker ADDRESS`, or use --cluster local."
            ) from error
        self._looked = self._listened = 0.0
        self.workers = self._threads()

    def _threads(self) -> int:
        """The cluster's threads, looked up now and then: workers come and go."""
        if time.monotonic() - self._looked > 2.0:
            found = self._client.nthreads()
            self.workers, self._looked = max(1, sum(found.values())), time.monotonic()
        return self.workers

    @property
    def room(self) -> int:
        return _AHEAD * self._threads() - len(self._futures)

    def submit(self, key: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        future = self._client.submit(remote, function, arguments, self.limit, pure=False, key=None)
        self._futures[future.key] = (future, key)
        future.add_done_callback(self._done.put)

    def finished(self, timeout: float) -> list[Outcome]:
        try:
            ready = [self._done.get(timeout=timeout)]
        except queue.Empty:
            if self._client.status != "running":
                raise InputError(
                    "The Dask scheduler is gone. What was finished is not lost: run the same again to go on."
                ) from None
            self._revive()
            return self._given_up()
        while not self._done.empty():
            ready.append(self._done.get())
        return [self._outcome(future) for future in ready if future.key in self._futures]

    def _revive(self) -> None:
        """Start the workers of a cluster of our own again if none is left: Dask gives them up after some deaths."""
        if self._local is not None and not self._client.nthreads():
            with suppress(Exception):
                self._local.scale(self._count)

    def _outcome(self, future: Any) -> Outcome:
        _, key = self._futures.pop(future.key)
        stuck: list[str] = []
        try:
            value, why, error, trace = future.result(timeout=_WAIT)
            if why == "limit":
                stuck = list(self._client.who_has([future])[future.key])
        except Exception as problem:  # the scheduler gave the task up, or lost its result
            if self._client.status != "running":
                raise InputError(
                    "The Dask scheduler is gone. What was finished is not lost: run the same again to go on."
                ) from problem
            return Outcome(key, why="died", error=f"{type(problem).__name__}: {str(problem).splitlines()[0][:200]}")
        finally:
            future.release()
        self._restart(stuck)
        return Outcome(key, value, why, error, trace)

    def _given_up(self) -> list[Outcome]:
        """Tasks of workers without a sign of life for longer than the limit: what runs there holds Python's lock.

        Such a worker cannot give up a task itself. Those that wait there are given to others by the scheduler.
        """
        now, silent = time.monotonic(), []
        if self.limit is None or now - self._listened < 2.0:
            return []
        self._listened = now
        for place, sign in self._last_signs().items():
            if self._signs.get(place, (None, 0.0))[0] != sign:
                self._signs[place] = (sign, now)
            if now - self._signs[place][1] > max(self.limit, _SILENCE):
                silent.append(place)
        if not silent:
            return []
        threads, there = self._client.nthreads(), self._client.processing(silent)
        running: list[str] = []
        for place, keys in there.items():  # the oldest are those that run
            running += [key for key in self._futures if key in keys][: threads.get(place, 1)]
        lost = [self._futures.pop(key) for key in running]
        for future, _ in lost:
            future.release()
        self._restart(silent if lost else [])
        return [Outcome(key, why="limit", error=f"It was given up after {self.limit:g} s.") for _, key in lost]

    def _last_signs(self) -> dict[str, Any]:
        try:
            found = self._client.scheduler_info(n_workers=-1)
        except TypeError:  # before distributed 2025, which tells of all
            found = self._client.scheduler_info()
        return {place: facts.get("last_seen") for place, facts in found["workers"].items()}

    def _restart(self, stuck: list[str]) -> None:
        """Restart workers on which a task was given up: its thread would slow down others until they were given up too.

        A worker without a nanny cannot be restarted, and keeps the thread.
        """
        if stuck:
            with suppress(Exception):
                self._client.restart_workers(stuck, timeout=_RESTART)

    def close(self) -> None:
        with suppress(Exception):
            self._client.cancel([future for future, _ in self._futures.values()], force=True)
        with suppress(Exception):
            self._client.close(timeout=5)
        if self._local is not None:
            with suppress(Exception):
                self._local.close(timeout=10)
        self._quiet.close()


def remote(function: Callable[..., Any], arguments: tuple[Any, ...], limit: float | None) -> tuple[Any, ...]:
    """A task on a worker of the cluster, given up after a limit; its thread lives until the worker is restarted."""
    if limit is None:
        done = tried(None, function, arguments)
        return done.value, done.why, done.error, done.trace
    box: list[Outcome] = []
    thread = threading.Thread(target=lambda: box.append(tried(None, function, arguments)), daemon=True)
    thread.start()
    thread.join(limit)
    done = box[0] if box else Outcome(None, why="limit", error=str(TooLong(f"It was given up after {limit:g} s.")))
    return done.value, done.why, done.error, done.trace
