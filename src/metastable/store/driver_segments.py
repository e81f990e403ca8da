"""The driver as records see it. To be replaced by `metastable.solve.driver`, whose interface this is.

Records import `Segment`, `drive`, `collect` and `check_state` from here and know nothing else of how a run is made.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from metastable.solve import simulate as integrate
from metastable.solve.pieces import Piece, Plan
from metastable.solve.simulate import Until
from metastable.trajectory import Trajectory


@dataclass(frozen=True)
class Segment:
    """Saved tokens x (m, ..., n, d) from save number ``first`` on, and the state to go on from.

    ``extra`` holds further arrays whose first axis is time; ``state`` is what a checkpoint stores.
    """

    first: int
    x: np.ndarray
    reached: float
    state: Mapping[str, np.ndarray]
    extra: Mapping[str, np.ndarray] = field(default_factory=dict)
    status: str = "done"
    message: str = ""
    seconds: float = 0.0
    sums: Mapping[str, Any] | None = None


def drive(
    plan: Plan, x: np.ndarray, until: Until = None, checkpoint: Mapping[str, np.ndarray] | None = None
) -> Iterator[Segment]:
    """The segments of a plan, from tokens x or from the state of an earlier segment."""
    state = None if checkpoint is None else dict(checkpoint)
    for piece in integrate.run_pieces(plan, x, until, watched=True, state=state):
        extra = {}
        if piece.chart is not None:
            extra = {"chart_y": piece.chart[0], "chart_refs": piece.chart[1], "apart": piece.parted}
        yield Segment(
            piece.first,
            piece.x,
            piece.reached,
            piece.state,
            extra,
            piece.status,
            piece.message,
            piece.seconds,
            piece.sums,
        )


def collect(plan: Plan, segments: list[Segment]) -> Trajectory:
    """The Trajectory of a plan from all its segments."""
    pieces = []
    for s in segments:
        chart = (s.extra["chart_y"], s.extra["chart_refs"]) if "chart_y" in s.extra else None
        sums = None if s.sums is None else dict(s.sums)
        apart = s.extra.get("apart")
        pieces.append(Piece(s.first, s.x, s.reached, dict(s.state), chart, apart, s.status, s.message, s.seconds, sums))
    return integrate.collect(plan, pieces)


def check_state(plan: Plan, x: np.ndarray, state: Mapping[str, np.ndarray]) -> None:
    """Raise a ValueError for a state that cannot be this run's: numbers, tokens, two copies of tokens or references."""
    shapes = ((), x.shape, (2, *x.shape), (2, *x.shape[:-1]))
    for name, value in state.items():
        if value.shape not in shapes or value.dtype.kind not in "fiu":
            raise ValueError(f"its {name!r} does not belong to this run")
        if value.dtype.kind != "f" and value.ndim and not ((value >= 0) & (value < x.shape[-2])).all():
            raise ValueError(f"its {name!r} does not belong to this run")
    if "next" not in state or not 0 <= int(state["next"]) <= len(plan.times):
        raise ValueError("it does not belong to this run")
