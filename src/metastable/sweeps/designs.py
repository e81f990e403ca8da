"""Designs: which runs a sweep has. A grid of axes; drawn parameters share one axis, ``sample``.

A design is never listed run by run. A `Box` is a product of axes whose runs are numbered: the first axis is the
slowest. A larger design minus a smaller one is a few boxes, so a sweep that is extended keeps the runs it has, with
their numbers, and gets new boxes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from metastable.errors import InputError, unknown
from metastable.sweeps.axes import Drawn, Value, Values, outside, plain, restored

SAMPLE = "sample"  # the axis of drawn parameters
DESIGNS = ("grid", "random", "latin")


@dataclass(frozen=True)
class Draws:
    """Drawn parameters: sample k is a function of the design's seed and k (of the number of samples too: "latin")."""

    design: str
    seed: int
    count: int
    ranges: Mapping[str, Drawn]

    def columns(self, samples: np.ndarray) -> dict[str, np.ndarray]:
        """The values of every drawn parameter at the numbered samples."""
        if self.design == "latin":
            u = _latin(self.seed, self.count, len(self.ranges))[samples]
        else:
            u = np.array([np.random.default_rng([self.seed, int(k)]).random(len(self.ranges)) for k in samples])
        u = u.reshape(len(samples), len(self.ranges))
        return {name: drawn.at(u[:, k]) for k, (name, drawn) in enumerate(self.ranges.items())}


@lru_cache(maxsize=4)
def _latin(seed: int, count: int, d: int) -> np.ndarray:
    from scipy.stats import qmc

    return np.asarray(qmc.LatinHypercube(d=d, rng=np.random.default_rng(seed)).random(count))


@dataclass(frozen=True)
class Design:
    """Axes by name, the slowest first, and what is drawn (None in a plain grid)."""

    axes: Mapping[str, Values]
    draws: Draws | None = None

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return math.prod(len(values) for values in self.axes.values())

    @property
    def names(self) -> list[str]:
        """Every parameter that varies, drawn ones included."""
        return [name for name in self.axes if name != SAMPLE] + list(self.draws.ranges if self.draws else ())

    def plain(self) -> dict[str, Any]:
        """The design as JSON holds it."""
        found: dict[str, Any] = {"axes": {name: plain(values) for name, values in self.axes.items()}}
        if self.draws:
            drawn = {name: plain(values) for name, values in self.draws.ranges.items()}
            found |= {"design": self.draws.design, "design_seed": self.draws.seed, "drawn": drawn}
        return found


def restored_design(stored: Mapping[str, Any]) -> Design:
    """The inverse of `Design.plain`."""
    axes: dict[str, Any] = {name: restored(values) for name, values in stored["axes"].items()}
    if "drawn" not in stored:
        return Design(axes)
    ranges: dict[str, Any] = {name: restored(values) for name, values in stored["drawn"].items()}
    return Design(axes, Draws(stored["design"], int(stored["design_seed"]), len(axes[SAMPLE]), ranges))


def make_design(axes: Mapping[str, Values | Drawn], design: str, samples: int | None, seed: int) -> Design:
    """The design of axes of which some may be drawn."""
    if design not in DESIGNS:
        raise unknown("design", design, DESIGNS)
    drawn = {name: values for name, values in axes.items() if isinstance(values, Drawn)}
    listed: dict[str, Values] = {name: v for name, v in axes.items() if not isinstance(v, Drawn)}
    if not drawn:
        if samples is not None or design != "grid":
            raise InputError("samples and design are for parameters with low and high; here every value is listed.")
        return Design(listed)
    if samples is None or samples < 1:
        raise InputError(f"{', '.join(drawn)} would be drawn: say how many times with samples, a whole number >= 1.")
    how = "random" if design == "grid" else design
    return Design({SAMPLE: range(samples), **listed}, Draws(how, seed, samples, drawn))


@dataclass(frozen=True)
class Box:
    """A product of axes; run k of it has the values that the digits of k choose."""

    axes: Mapping[str, Values]

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return math.prod(len(values) for values in self.axes.values())

    def columns(self, runs: np.ndarray) -> dict[str, list[Value]]:
        """The values of every axis at the numbered runs."""
        places = np.unravel_index(runs, [len(values) for values in self.axes.values()])
        return {name: [values[k] for k in place.tolist()] for (name, values), place in zip(self.axes.items(), places)}


def new_boxes(design: Design, before: Design | None) -> list[Box]:
    """The runs of a design that an earlier one did not have; refused unless all of the earlier one's are in it.

    With old values O and new values N of each axis, N1 x N2 minus O1 x O2 is (N1 - O1) x N2 and O1 x (N2 - O2).

    >>> [dict(b.axes) for b in new_boxes(Design({"a": (1, 2), "b": (5, 6)}), Design({"a": (1,), "b": (5,)}))]
    [{'a': (2,), 'b': (5, 6)}, {'a': (1,), 'b': (6,)}]
    """
    if before is None:
        return [Box(design.axes)]
    for name, there in before.axes.items():
        if missing := outside(there, design.axes[name]):
            raise InputError(
                f"The sweep there has runs that this one leaves out ({name} = {missing[0]!r}); "
                "give at least its values, or choose another folder."
            )
    if before.draws and before.draws.design == "latin" and before.draws.count != len(design.axes[SAMPLE]):
        raise InputError("A Latin hypercube cannot be extended: all its samples change; choose another folder.")
    found = []
    names = list(design.axes)
    for k, name in enumerate(names):
        fresh = outside(design.axes[name], before.axes[name])
        old = {other: before.axes[other] for other in names[:k]}
        box = Box({**old, name: fresh, **{other: design.axes[other] for other in names[k + 1 :]}})
        found += [box] if len(fresh) else []
    return found
