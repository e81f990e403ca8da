"""What the driver yields: segments of a run, and how runs end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Fate:
    """How a run ended before its horizon: after ``count`` saves."""

    count: int
    status: str
    message: str


@dataclass(frozen=True)
class Segment:
    """Saved tokens (m, B, n, d) from save number ``first`` on, and the state from which the run goes on.

    ``apart`` (m, B) is how far each run had been from its copies so far; ``fates`` says which runs have ended;
    ``missed`` (B,) how far their attention was off its own definition.
    """

    first: int
    x: np.ndarray
    reached: float
    state: Mapping[str, np.ndarray]
    extra: Mapping[str, np.ndarray]
    apart: np.ndarray
    fates: Mapping[int, Fate] = field(default_factory=dict)
    missed: np.ndarray = field(default_factory=lambda: np.zeros(0))
    seconds: float = 0.0
    notes: Mapping[str, Any] = field(default_factory=dict)


def cut_short(
    x: np.ndarray, extra: Mapping[str, np.ndarray], parted: np.ndarray, fates: Mapping[int, Fate], first: int
) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray, dict[int, Fate]]:
    """One Trajectory ends where the first of its runs ends."""
    soonest = min(fates.values(), key=lambda fate: fate.count)
    m = soonest.count - first
    return x[:m], {name: a[:m] for name, a in extra.items()}, parted[:m], dict.fromkeys(fates, soonest)


def joined(segments: Sequence[Segment], name: str) -> np.ndarray:
    """One array along time from consecutive segments."""
    parts = [getattr(s, name) if hasattr(s, name) else s.extra[name] for s in segments]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
