"""What an engine answers: can it, at what cost, where does a run start, and how does it go on to the next stops.

An engine never saves, stops, warns, cuts, checkpoints or judges trust: `metastable.solve.driver` does, for all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from metastable.solve.plan import Plan

_STEPS_ALONE = 8  # of a run and its copies between two comparisons

State = Mapping[str, np.ndarray]  # what a checkpoint stores, as it is; runs are the first axis of whatever has one


@dataclass(frozen=True)
class Stops:
    """Where to go next: times, and for fixed steps how they are reached.

    ``counts`` (m,) steps before each stop and ``thetas`` (m,) the fraction of the last step at which it lies; adaptive
    methods go to ``end`` and read the stops on the way. ``saves`` (m,) says which stops are saved; at the others a run
    and its copies are compared, and tokens need not be worked out where something else is compared.
    """

    times: np.ndarray
    end: float
    counts: np.ndarray
    thetas: np.ndarray
    saves: np.ndarray

    def __len__(self) -> int:
        return len(self.times)


@dataclass(frozen=True)
class Saved:
    """What an engine brings from its stops.

    ``x`` (m, B, n, d) tokens; ``reached`` (B,) the time to which each run came; ``exhausted`` (B,) whether an adaptive
    method ran out of steps; ``extra`` further arrays (m, B, ...) that belong to the run, such as its chart;
    ``compared`` coordinates (m, B, n, d) by which copies of a run are compared, where x itself is not the best; x need
    not hold copies then if lengths in both are the same (orthogonal coordinates); ``hidden`` (m, runs) by how much the
    engine itself may be off by then, relatively, where copies cannot tell.
    """

    x: np.ndarray
    reached: np.ndarray
    exhausted: np.ndarray
    extra: Mapping[str, np.ndarray] = field(default_factory=dict)
    compared: np.ndarray | None = None
    notes: Mapping[str, object] = field(default_factory=dict)
    hidden: np.ndarray | None = None


class Engine(Protocol):
    """How sums over tokens are made, and steps with them; what is usual need not be said by who derives from it."""

    name: str
    about: str

    def supports(self, plan: Plan) -> str | None:
        """The reason why the engine cannot run a plan, or None."""

    def cost(self, plan: Plan) -> float:
        """Seconds that the plan may take."""

    def least(self, plan: Plan) -> float:
        """Seconds that it will take at least, known without loading or measuring anything."""
        return 0.0

    def start(self, plan: Plan, x: np.ndarray) -> State:
        """The state at t = 0 from tokens (B, n, d)."""

    def advance(self, plan: Plan, state: State, stops: Stops) -> tuple[State, Saved]:
        """Exactly to the given stops, and nothing else."""

    def pace(self, plan: Plan) -> float:
        """The time between two comparisons of a run with its copies.

        A symmetric start falls to one of two sides; a copy that falls to the same side has parted only for as long as
        both fall, log(1e-6) over a rate, which is tens of steps where steps follow the motion.
        """
        return min(plan.t / 64, _STEPS_ALONE * plan.dt)

    def span(self, plan: Plan, state: State) -> float:
        """The longest time that an adaptive method should go at once from here."""
        return float("inf")
