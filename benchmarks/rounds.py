"""Rounds: every engine in turn, again and again, until the ratios of their times have settled.

A machine has slow phases that last longer than a call. Times of one round belong to the same phase, so what is judged
is the ratio of two engines in the same round: its median over the rounds, with the quartiles as its spread.
"""

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

_ROUND = 0.15  # seconds that an engine repeats itself for in a round
_PAUSE = 0.02  # seconds for the threads of the engine before to fall asleep
_FEWEST = 5  # rounds of every engine, unless it is very slow
_MOST = 60  # rounds of a case
_SLOW = 40.0  # seconds of timing per engine and case after which it is left out of further rounds
_BUDGET = 150.0  # seconds of timing per case
_SETTLED = 0.025  # standard error of the median ratio, as a share of it

Times = dict[int, float]  # round -> seconds


class Spread(NamedTuple):
    """A ratio over the rounds."""

    median: float
    low: float  # quartiles
    high: float
    rounds: int

    def __str__(self) -> str:
        if self.rounds < 2:
            return f"{self.median:.3g}"
        return f"{self.median:.3g} ({self.low:.3g} to {self.high:.3g})"


def ratio(one: Times, other: Times) -> Spread | None:
    """The time of one engine over that of another in the same rounds; None where they share none."""
    common = [one[k] / other[k] for k in sorted(one.keys() & other.keys())]
    if not common:
        return None
    low, median, high = np.quantile(common, [0.25, 0.5, 0.75])
    return Spread(float(median), float(low), float(high), len(common))


def settled(times: Mapping[str, Times], ours: str) -> bool:
    """Whether the ratio of every engine to ours is known well enough."""
    found = [ratio(theirs, times[ours]) for name, theirs in times.items() if name != ours] if ours in times else []
    return all(
        s is not None and s.rounds >= _FEWEST and (s.high - s.low) / s.rounds**0.5 <= _SETTLED * s.median for s in found
    )


def interleaved(
    ask: Mapping[str, Callable[[float], float]], ours: str, quick: bool, say: Callable[[str], None]
) -> dict[str, Times]:
    """Times of every engine, by round; ``ask[name](seconds)`` is its best time of a round."""
    times: dict[str, Times] = {name: {} for name in ask}
    spent = dict.fromkeys(ask, 0.0)
    for number in range(2 if quick else _MOST):
        for name in list(ask)[:: 1 if number % 2 else -1]:  # to and fro: none always follows the same other
            if number and spent[name] * (number + 1) / number > _SLOW and len(times[name]) > 1:
                continue
            time.sleep(_PAUSE)
            started = time.perf_counter()
            times[name][number] = ask[name](_ROUND)
            spent[name] += time.perf_counter() - started
        awake = {name: t for name, t in times.items() if number in t}
        if number + 1 >= _FEWEST and (settled(awake, ours) or sum(spent.values()) > _BUDGET):
            break
    say(f"  {number + 1} rounds")
    return times
