"""Which arrays a run has, under which names and axes; the same for runs in the making and finished ones."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from metastable.solve.pieces import Piece
from metastable.store.describe import Parts
from metastable.store.folder import Checkpoint

Timed = dict[str, tuple[tuple[str, ...], tuple[int, ...], str]]
Fixed = dict[str, tuple[tuple[str, ...], np.ndarray]]
PART_OF_DYNAMICS = "dynamics."


def lay_out(
    times: np.ndarray, x: np.ndarray, dtype: str, charted: bool, parts: Parts | None
) -> tuple[dict[str, Any], Timed, Fixed]:
    """Attributes, arrays along time and fixed arrays of a run from tokens x (..., n, d)."""
    runs = tuple(f"run{k}" for k in range(x.ndim - 2))
    count = len(times)
    timed: Timed = {"x": (("time", *runs, "token", "coordinate"), (count, *x.shape), dtype)}
    if charted:
        timed["chart_y"] = (("time", *runs, "token", "direction"), (count, *x.shape), dtype)
        timed["chart_refs"] = (("time", *runs, "token"), (count, *x.shape[:-1]), "int64")
        timed["apart"] = (("time",), (count,), "float64")
    fixed: Fixed = {"time": (("time",), times), "x0": ((*runs, "token", "coordinate"), x)}
    attributes: dict[str, Any] = {"dynamics": None}
    if parts is not None:
        attributes = {"dynamics": parts.tree, "custom": parts.custom}
        for name, array in parts.arrays.items():
            axes = tuple(f"{name}.{k}" for k in range(array.ndim))
            fixed[PART_OF_DYNAMICS + name] = (axes, np.asarray(array, np.float64))
    return attributes, timed, fixed


def arrays_of_piece(pieces: Sequence[Piece]) -> dict[str, np.ndarray]:
    """The arrays along time that consecutive pieces bring."""
    arrays = {"x": np.concatenate([piece.x for piece in pieces])}
    charts = [piece.chart for piece in pieces if piece.chart is not None]
    if charts:
        arrays["chart_y"] = np.concatenate([chart[0] for chart in charts])
        arrays["chart_refs"] = np.concatenate([chart[1] for chart in charts])
        arrays["apart"] = np.concatenate([piece.apart for piece in pieces])
    return arrays


def piece_of_arrays(arrays: Mapping[str, np.ndarray], before: Checkpoint) -> Piece:
    """The reverse: everything up to a checkpoint as one piece."""
    chart = (arrays["chart_y"], arrays["chart_refs"]) if "chart_y" in arrays else None
    return Piece(
        0,
        arrays["x"],
        before.reached,
        dict(before.state),
        chart,
        arrays.get("apart", np.zeros(before.saved)),
        before.status,
        before.message,
        before.seconds,
    )
