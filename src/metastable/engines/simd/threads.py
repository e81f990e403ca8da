"""All cores, without a threading layer.

Kernels release the interpreter's lock, so plain Python threads run them side by side. numba's own parallel loops
would start an OpenMP pool, which makes torch in the same process many times slower, or a work queue that two callers
may not enter at once; this pool may be entered from any thread, and costs some 20 microseconds a call.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import count


def available() -> int:
    """How many cores this process may use: fewer than the machine has where it was given some only (taskset, Slurm)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def cores() -> int:
    """Threads to use: ``METASTABLE_THREADS``, or as many as this process has cores."""
    given = os.environ.get("METASTABLE_THREADS", "")
    if given.isdigit() and int(given) > 0:
        return int(given)
    return available()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, cores() - 1), thread_name_prefix="metastable")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork


def share(task: Callable[[int], object], parts: int) -> None:
    """Call ``task(0)`` to ``task(parts - 1)``, on all cores. A task must not share work itself."""
    left = count()

    def work() -> None:
        while (part := next(left)) < parts:
            task(part)

    helpers = [_pool().submit(work) for _ in range(min(cores(), parts) - 1)]
    work()  # the caller is one of the workers, so that nothing waits for a busy pool
    for helper in helpers:
        helper.result()


def pieces(rows: int, parts: int, step: int = 1) -> list[tuple[int, int]]:
    """``rows`` rows cut into at most ``parts`` even pieces whose borders are multiples of ``step``.

    >>> pieces(10, 2, step=4)
    [(0, 8), (8, 10)]
    """
    size = max(step, -(-rows // (parts * step)) * step)
    return [(first, min(first + size, rows)) for first in range(0, rows, size)]
