"""What a run takes of the machine's memory, told before it starts."""

import os
from pathlib import Path

import numpy as np

from metastable.errors import InputError
from metastable.solve.plan import Plan

_FLOAT = 8.0  # bytes
_HELD = 2  # saves are held as they come, segment by segment, and joined at the end
_STATES = 32  # arrays of all tokens that a step works with: stages, interpolants, sums, the state before and after
_MAPS = 4  # attention maps that are held at once where rows cannot be made alone
_CGROUP = Path("/sys/fs/cgroup")
_LITTLE = 2.0**26  # bytes that every machine has: asking how much is free takes longer than a small run's checks


def free_memory() -> float:
    """Bytes that can still be used, as far as the system says: of the machine, and of the container."""
    try:
        found = [float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))]
    except (AttributeError, OSError, ValueError):  # not known here: leave it to the system
        return float("inf")
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines() if ":" in line)
        found.append(1024.0 * float(lines["MemAvailable"].split()[0]))
    except (OSError, KeyError, ValueError):
        pass
    try:
        most, used = ((_CGROUP / name).read_text().strip() for name in ("memory.max", "memory.current"))
        found.append(float(most) - float(used))
    except (OSError, ValueError):  # no container, or one without a limit ("max")
        pass
    return max(0.0, min(found))


def needed(saves: int, runs: int, n: int, d: int, heads: int = 1, copies: int = 1, whole_maps: bool = False) -> float:
    """Bytes that a run takes at its largest: saved tokens, arrays of a step, weights, maps where they are whole.

    >>> needed(10_000, 1, 100_000, 3) / 1e9 > 48
    True
    """
    tokens = _FLOAT * max(runs, 1) * max(n, 1) * max(d, 1)
    maps = _MAPS * _FLOAT * max(heads, 1) * float(n) ** 2 if whole_maps else 0.0
    return _HELD * max(saves, 1) * tokens + _STATES * max(copies, 1) * tokens + _MAPS * _FLOAT * heads * d**2 + maps


def check_size(
    saves: int, runs: int, n: int, d: int, heads: int = 1, copies: int = 1, whole_maps: bool = False
) -> None:
    """Refuse a run that does not fit, with the number of bytes that it would take."""
    size = needed(saves, runs, n, d, heads, copies, whole_maps)
    free = np.inf if size < _LITTLE else free_memory()
    if size > free:
        many = f"{runs} runs of " if runs > 1 else ""
        several = f" under {heads} heads" if heads > 1 else ""
        raise InputError(
            f"{saves} saves of {many}n = {n} tokens in dimension d = {d}{several} take about {size / 2**30:.3g} GB "
            f"with the arrays of a step, more than this machine has free ({free / 2**30:.3g} GB); lower save, n, runs "
            "or heads."
        )


def check_plan(plan: Plan) -> None:
    """Refuse a plan whose run does not fit."""
    copies = 3 if plan.certified else 1
    whole = not plan.model.normalise.by_rows
    check_size(len(plan.times), plan.runs, plan.n, plan.d, plan.model.weights.heads, copies, whole)
