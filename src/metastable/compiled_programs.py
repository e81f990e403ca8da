"""Compiled programs are given up before they fill the table of a process's memory maps.

JAX keeps every program it has compiled. A run of a new shape compiles about 44 of them, small and large, which take
about 1,400 memory maps; Linux allows a process 65,530 (``vm.max_map_count``), and beyond them the compiler ends the
process with a segmentation fault. So runs of fifty shapes in one process (a sweep over n, an explorer that is used for
a day) need room now and then. What is given up is compiled again where it is needed, in a second or two.
"""

import gc
import threading
from functools import cache
from pathlib import Path
from typing import Any

from metastable.backend import jax

_OFTEN = 8  # programs compiled between two looks at the maps
_SHARE = 0.5  # of the maps that there may be, from which on room is made
_MAPS, _MOST = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")
_lock = threading.Lock()
_fresh = 0  # programs compiled since the last look


def _note(event: str, duration_secs: float, **_: Any) -> None:
    global _fresh
    if event.endswith("backend_compile_duration"):
        _fresh += 1


jax.monitoring.register_event_duration_secs_listener(_note)


def make_room() -> bool:
    """Give up all compiled programs if they have taken half of the maps that a process may have; whether it did.

    Called before a run; it costs nothing unless something was compiled since the last run.
    """
    global _fresh
    if _fresh < _OFTEN or not _lock.acquire(blocking=False):
        return False
    try:
        _fresh = 0
        if _mapped() < _SHARE * _most():
            return False
        jax.clear_caches()
        gc.collect()
        return True
    finally:
        _lock.release()


@cache
def _most() -> float:
    """Memory maps that a process may have; no limit where the system has no such number."""
    try:
        return float(_MOST.read_text())
    except (OSError, ValueError):
        return float("inf")


def _mapped() -> int:
    """Memory maps that this process has."""
    try:
        with _MAPS.open("rb") as lines:
            return sum(1 for _ in lines)
    except OSError:
        return 0
