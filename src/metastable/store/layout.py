"""Which arrays a run has, under which names and axes; the same for unfinished runs and finished ones.

Here and in `recorder` records meet the driver: a segment's arrays go to disk under these names and come back as one
segment.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from metastable.errors import InputError
from metastable.solve.plan import Plan
from metastable.solve.segments import Fate, Segment
from metastable.store.arrays_on_disk import Axes
from metastable.store.checkpoint import Checkpoint
from metastable.store.describe import Parts
from metastable.trajectory import Trajectory

Arrays = dict[str, tuple[Axes, np.ndarray]]
PART_OF_DYNAMICS = "dynamics."
# axes after time, of arrays along time besides the tokens; others get numbered axes
_AXES: dict[str, Axes] = {
    "chart_y": ("token", "direction"),
    "chart_refs": ("token",),
    "attention": ("head", "query", "key"),
    "apart": (),
}


def fixed_arrays(times: np.ndarray, x0: np.ndarray, parts: Parts | None) -> tuple[dict[str, Any], Arrays]:
    """Attributes and arrays that do not depend on time, of a run from tokens x0 (..., n, d)."""
    arrays: Arrays = {"time": (("time",), times), "x0": ((*_runs(x0.ndim - 2), "token", "coordinate"), x0)}
    if parts is None:
        return {"dynamics": None}, arrays
    for name, array in parts.arrays.items():
        axes = tuple(f"{name}.{k}" for k in range(array.ndim))
        arrays[PART_OF_DYNAMICS + name] = (axes, np.asarray(array, np.float64))
    return {"dynamics": parts.tree, "custom": parts.custom}, arrays


def segment_arrays(plan: Plan, segments: Sequence[Segment]) -> Arrays:
    """The arrays along time of consecutive segments, with the ensemble's own axes."""
    names = {"x": [s.x for s in segments]} | {name: [s.extra[name] for s in segments] for name in segments[0].extra}
    if plan.certified:
        names["apart"] = [s.apart for s in segments]
    arrays = {}
    for name, parts in names.items():
        whole = np.concatenate(parts)
        arrays[name] = whole.reshape(len(whole), *plan.shape, *whole.shape[2:])
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


def restored_segment(plan: Plan, arrays: Mapping[str, np.ndarray], before: Checkpoint) -> Segment:
    """Everything up to a checkpoint as one segment."""
    fixed = ("time", "x0", "attention")
    wanted = {"x"} | ({"apart"} if plan.certified else set())
    wanted |= {"chart_y", "chart_refs"} if plan.model.geometry.rescales else set()
    if not wanted <= set(arrays):
        raise ValueError(f"its array {min(wanted - set(arrays))!r} is missing")
    along = {n: a for n, a in arrays.items() if n not in fixed and not n.startswith(PART_OF_DYNAMICS)}
    flat = {name: a.reshape(len(a), plan.runs, *a.shape[1 + len(plan.shape) :]) for name, a in along.items()}
    x, apart = flat.pop("x"), flat.pop("apart", np.zeros((before.saved, plan.runs)))
    fate = Fate(before.saved, before.status, before.message)
    fates = {} if before.status == "done" else dict.fromkeys(range(plan.runs), fate)
    off = np.asarray(before.state["driver.missed"])
    return Segment(0, x, before.reached, dict(before.state), flat, apart, fates, off, before.seconds)


def check_fit(arrays: Mapping[str, np.ndarray]) -> None:
    """Refuse arrays that cannot be those of one run."""
    shapes = {name: array.shape for name, array in arrays.items()}
    times, x = shapes.get("time", ()), shapes.get("x", ())
    expected = {"chart_y": x, "chart_refs": x[:-1], "apart": x[:-2], "x0": x[1:]}
    fits = len(times) == 1 and len(x) >= 3 and x[:1] == times
    fits = fits and all(shapes[name] == shape for name, shape in expected.items() if name in shapes)
    if not fits or ("chart_y" in shapes) != ("chart_refs" in shapes):
        raise InputError("its arrays do not fit each other")


def check_state(state: Mapping[str, np.ndarray], plan: Plan) -> None:
    """Refuse a state that cannot be this run's: numbers, and tokens and references of the runs and their copies."""
    most, n, d = 3 * plan.runs, plan.n, plan.d  # a run and at most two copies
    for name, value in state.items():
        lead = value.shape[:1]
        fits = value.shape in ((), lead, (*lead, n), (*lead, n, d)) and all(k <= most for k in lead)
        if not fits or value.dtype.kind not in "fiub":
            raise ValueError(f"its {name!r} does not belong to this run")
        if value.dtype.kind in "iu" and value.ndim and not ((value >= 0) & (value < n)).all():
            raise ValueError(f"its {name!r} does not belong to this run")
    if not 0 <= int(state["next"]) <= len(plan.times):
        raise ValueError("it does not belong to this run")
