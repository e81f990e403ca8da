"""Which arrays a run has, under which names and axes; the same for unfinished runs and finished ones.

Here and in `recorder` records meet the driver: a segment's arrays go to disk under these names and come back as one
segment.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from metastable.errors import InputError
from metastable.solve.pieces import Piece as Segment
from metastable.store.arrays_on_disk import Axes
from metastable.store.checkpoint import Checkpoint
from metastable.store.describe import Parts
from metastable.trajectory import Trajectory

Arrays = dict[str, tuple[Axes, np.ndarray]]
PART_OF_DYNAMICS = "dynamics."
# axes after time, of arrays along time besides the tokens; others get numbered axes
_AXES = {"chart_y": ("token", "direction"), "chart_refs": ("token",), "attention": ("head", "query", "key")}


def fixed_arrays(times: np.ndarray, x0: np.ndarray, parts: Parts | None) -> tuple[dict[str, Any], Arrays]:
    """Attributes and arrays that do not depend on time, of a run from tokens x0 (..., n, d)."""
    arrays: Arrays = {"time": (("time",), times), "x0": ((*_runs(x0.ndim - 2), "token", "coordinate"), x0)}
    if parts is None:
        return {"dynamics": None}, arrays
    for name, array in parts.arrays.items():
        axes = tuple(f"{name}.{k}" for k in range(array.ndim))
        arrays[PART_OF_DYNAMICS + name] = (axes, np.asarray(array, np.float64))
    return {"dynamics": parts.tree, "custom": parts.custom}, arrays


def segment_arrays(segments: Sequence[Segment]) -> Arrays:
    """The arrays along time of consecutive segments."""
    arrays = {"x": np.concatenate([segment.x for segment in segments])}
    charts = [segment.chart for segment in segments if segment.chart is not None]
    if charts:
        arrays["chart_y"] = np.concatenate([chart[0] for chart in charts])
        arrays["chart_refs"] = np.concatenate([chart[1] for chart in charts])
        arrays["apart"] = np.concatenate([segment.apart for segment in segments])
    return _with_axes(arrays)


def trajectory_arrays(run: Trajectory) -> Arrays:
    """The arrays along time of a finished run."""
    arrays = {"x": np.asarray(run.x)}
    if run.chart is not None:
        arrays |= {"chart_y": np.asarray(run.chart[0]), "chart_refs": np.asarray(run.chart[1])}
    if run.kept_attention is not None:
        arrays["attention"] = np.asarray(run.kept_attention)
    return _with_axes(arrays)


def _with_axes(arrays: Mapping[str, np.ndarray]) -> Arrays:
    runs = _runs(arrays["x"].ndim - 3)
    found: Arrays = {"x": (("time", *runs, "token", "coordinate"), arrays["x"])}
    for name, array in arrays.items():
        if name in _AXES:
            found[name] = (("time", *runs, *_AXES[name]), array)
        elif name != "x":
            found[name] = (("time", *(f"{name}.{k}" for k in range(1, array.ndim))), array)
    return found


def _runs(count: int) -> Axes:
    return tuple(f"run{k}" for k in range(count))


def restored_segment(arrays: Mapping[str, np.ndarray], before: Checkpoint) -> Segment:
    """Everything up to a checkpoint as one segment."""
    chart = (arrays["chart_y"], arrays["chart_refs"]) if "chart_y" in arrays else None
    return Segment(
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


def check_fit(arrays: Mapping[str, np.ndarray]) -> None:
    """Refuse arrays that cannot be those of one run."""
    shapes = {name: array.shape for name, array in arrays.items()}
    times, x = shapes.get("time", ()), shapes.get("x", ())
    expected = {"chart_y": x, "chart_refs": x[:-1], "apart": times, "x0": x[1:]}
    fits = len(times) == 1 and len(x) >= 3 and x[:1] == times
    fits = fits and all(shapes[name] == shape for name, shape in expected.items() if name in shapes)
    if not fits or ("chart_y" in shapes) != ("chart_refs" in shapes):
        raise InputError("its arrays do not fit each other")


def check_state(state: Mapping[str, np.ndarray], tokens: tuple[int, ...], count: int) -> None:
    """Refuse a state that cannot be this run's: it holds numbers, tokens, and two copies of tokens and references."""
    shapes = ((), tokens, (2, *tokens), (2, *tokens[:-1]))
    for name, value in state.items():
        if value.shape not in shapes or value.dtype.kind not in "fiu":
            raise ValueError(f"its {name!r} does not belong to this run")
        if value.dtype.kind != "f" and value.ndim and not ((value >= 0) & (value < tokens[-2])).all():
            raise ValueError(f"its {name!r} does not belong to this run")
    if not 0 <= int(state["next"]) <= count:
        raise ValueError("it does not belong to this run")
