"""Which times of a run a picture or a film shows."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metastable.errors import InputError, unknown
from metastable.plots.motion import Motion, Movable, one_run

Floats = NDArray[np.float64]

SPACINGS = ("linear", "exponential")


def clock_times(motion: Motion, count: int, spacing: str = "linear") -> Floats:
    """`count` times over the run: evenly, or at an exponential pace (early times closer together).

    The exponential clock is t = T (e^{a s} - 1)/(e^a - 1) for s from 0 to 1, with a chosen so that its first part
    resolves the first saved step: smooth at 0, where geometric spacing would jump.
    """
    if spacing not in SPACINGS:
        raise unknown("spacing", spacing, SPACINGS)
    if count < 1:
        raise InputError(f"At least one time is needed, but {count} were requested.")
    start, length = motion.t[0], motion.t[-1] - motion.t[0]
    if count == 1 or length == 0:
        return motion.t[-1:] if count == 1 else np.full(count, start)
    s = np.linspace(0.0, 1.0, count)
    if spacing == "exponential":
        a = np.log1p(length / (motion.t[1] - motion.t[0]))
        s = np.expm1(a * s) / np.expm1(a)
    return np.asarray(start + length * s)


def pick(
    motion: Motion,
    times: int | ArrayLike | None,
    spacing: str = "linear",
    default: int = 4,
    tokens: Movable | None = None,
    run: int = 0,
) -> tuple[Motion, NDArray[np.intp]]:
    """The run, and the indices of its states to show: a count of saved ones, or exactly those of the given times.

    States between saved times are put into the run: by its own method where ``tokens`` is a run that can say, else by
    the cubic through its neighbours. Layers lie at whole numbers only.
    """
    if times is None or isinstance(times, int | np.integer):
        return motion, motion.nearest(clock_times(motion, default if times is None else int(times), spacing))
    wanted = np.unique(np.atleast_1d(np.asarray(times, dtype=float)))
    first, last = motion.t[0], max(motion.t[-1], motion.end)
    slack = 1e-9 * max(1.0, abs(last))
    outside = ~((wanted >= first - slack) & (wanted <= last + slack))
    if wanted.size == 0 or outside.any():
        which = f"{wanted[outside][0]:g} was requested" if wanted.size else "none was given"
        raise InputError(f"Times to show lie between {first:g} and {last:g}, but {which}.")
    beyond = wanted > motion.t[-1] + slack  # of an unfinished run: its last state stands for them, and a note says so
    saved = motion.t[motion.nearest(wanted)]
    missing = wanted[~beyond & (np.abs(wanted[:, None] - saved).min(axis=1) > slack)]
    if missing.size:
        motion = _denser(motion, missing, tokens, run)
    return motion, motion.nearest(wanted)


def _denser(motion: Motion, times: Floats, tokens: Movable | None, run: int) -> Motion:
    """The run with further states between its saved ones."""
    if motion.clock == "layer":
        raise InputError(f"There is no state of layer {times[0]:g}: layers lie at whole numbers.")
    x = motion.at(times)
    reader: Any = getattr(tokens, "at", None)
    if callable(reader) and getattr(tokens, "dynamics", None) is not None:
        x, _ = one_run(np.asarray(reader(times).x, dtype=float), run)
    every, indices = np.concatenate([motion.t, times]), np.concatenate([motion.indices, motion.latest(times)])
    order = np.argsort(every, kind="stable")
    held = np.concatenate([motion.x, x])[order]
    return replace(motion, t=every[order], x=held, indices=np.asarray(indices)[order])
