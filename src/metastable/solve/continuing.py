"""Going on with a run that is over, and reading it between its saved times.

A run that was just made holds its `Ending`: the plan and the state in which the driver left it, from which it goes on
with the digits of a run that never stopped. A run that was read from a record, or stopped early, is made again from its
first tokens, which gives the same digits at the price of the whole run.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from metastable.backend import ready
from metastable.engines import dense
from metastable.engines.interface import Stops
from metastable.equation.attention import mix as dense_mix
from metastable.errors import InputError
from metastable.solve.checks import check_steps, number_of_saves, real, save_times
from metastable.solve.driver import drive
from metastable.solve.flow import steps_to
from metastable.solve.memory import check_plan
from metastable.solve.methods import METHODS
from metastable.solve.plan import Ending, Plan, make_plan
from metastable.solve.segments import Segment
from metastable.solve.simulate import collect
from metastable.solve.trust import with_copies
from metastable.trajectory import Trajectory

_SETTINGS = ("method", "dt", "t", "rtol", "atol", "seed", "dtype", "engine", "trust")


def extend(run: Trajectory, t: float, save: Any = None) -> Trajectory:
    """The run carried on to the later time ``t``; what `Trajectory.extend` calls."""
    longer = _extended(run, t, save)
    return replace(longer, provenance={**run.provenance, **longer.provenance})  # also where its tokens came from


def _extended(run: Trajectory, t: float, save: Any) -> Trajectory:
    plan, x = plan_of(run, "extend")
    horizon, last = real("t", t, above=0.0), float(run.t[-1])
    if horizon <= last:
        raise InputError(f"This run reaches t = {last:g} already; extend takes a later time, not {horizon:g}.")
    check_steps(horizon, plan.dt, plan.method)
    later = _later_times(run, plan, horizon, save)
    longer = replace(plan, times=np.concatenate([run.t, later]), t=horizon)
    check_plan(longer)
    if run.ending is None or with_copies(longer).runs != with_copies(plan).runs:  # a longer run may need more copies
        return collected(longer, x, list(drive(longer, x, reported=False)))
    state = run.ending.state
    return collected(longer, x, [_so_far(run, longer, state), *drive(longer, x, checkpoint=state, reported=False)])


def at(run: Trajectory, times: Any) -> Trajectory:
    """The run at any times within it, by the method's own dense output; what `Trajectory.at` calls."""
    wanted = _wanted(run, times)
    places = np.searchsorted(run.t, wanted)
    saved = np.abs(run.t[np.minimum(places, len(run) - 1)] - wanted) <= 1e-12 * max(1.0, float(run.t[-1]))
    if saved.all():
        return run[places]
    if run.dynamics is None or run.provenance.get("discrete"):
        run.moved_by("state between saved times")
        raise InputError("Tokens exist only at whole layers; run.t are those that were saved.")
    plan, x = plan_of(run, "at", start=False)
    if plan.noisy or plan.method.adaptive or plan.model.geometry.rescales:
        plan, x = plan_of(run, "at")
        union = np.union1d(run.t[run.t <= wanted[-1]], wanted)
        denser = replace(plan, times=union)
        again = collected(denser, x, list(drive(denser, x, reported=False)))
        got = again[np.minimum(np.searchsorted(again.t, wanted), len(again) - 1)]
        made = {**run.provenance, **got.provenance}
        return replace(got, status=run.status, message=run.message, valid_until=run.valid_until, provenance=made)
    tokens = np.stack([run.x[k] if ok else _inside(run, plan, s) for k, ok, s in zip(places, saved, wanted)])
    return replace(run, t=wanted, x=tokens, chart=None, kept_attention=None, ending=None)


# --- what a run was made by ------------------------------------------------------------------------------------------


def plan_of(run: Trajectory, verb: str, start: bool = True) -> tuple[Plan, np.ndarray]:
    """The plan of a run and its first tokens (B, n, d); ``start`` where the tokens at t = 0 are needed."""
    ready()  # `at` takes steps of its own
    dynamics, made = run.moved_by(f"way to {verb} them"), run.provenance
    if run.ending is not None:
        return run.ending.plan, run.ending.x
    lacking = [name for name in _SETTINGS if name not in made]
    if lacking:
        raise InputError(
            f"This run does not say how it was made ({', '.join(lacking)}), so {verb} cannot go on with it."
        )
    if made["method"] not in METHODS:
        raise InputError(f"This run was made by a method of one's own, {made['method']!r}; use simulate again.")
    if start and run.t[0] != 0.0:
        raise InputError(
            f"This part of a run begins at t = {run.t[0]:g} without what came before; {verb} the whole run."
        )
    settings = {name: made[name] for name in _SETTINGS}
    plan, x = make_plan(dynamics, run.x[0], save=[float(made["t"])], **settings)
    return replace(plan, numbers=np.ravel(made["run"]) if "run" in made else None), x


def collected(plan: Plan, x: np.ndarray, segments: list[Segment]) -> Trajectory:
    """One Trajectory from the segments of a plan, ready to go on."""
    made: Trajectory = collect(plan, [replace(s, state={}) for s in segments], stacklevel=5)
    if made.status != "done":
        return made
    return replace(made, ending=Ending(plan, x, segments[-1].state))


def _so_far(run: Trajectory, plan: Plan, state: Mapping[str, np.ndarray]) -> Segment:
    """What is there already, as a segment of the longer run."""
    count, runs = len(run), plan.runs
    known = np.inf if run.valid_until is None else run.valid_until
    apart = np.broadcast_to((run.t > known)[:, None], (count, runs)).astype(float)
    extra = {} if run.chart is None else dict(zip(("chart_y", "chart_refs"), run.chart))
    flat = {name: a.reshape(count, runs, *a.shape[1 + len(plan.shape) :]) for name, a in extra.items()}
    seconds = float(run.provenance.get("seconds", 0.0))
    x = run.x.reshape(count, runs, plan.n, plan.d)
    return Segment(0, x, float(run.t[-1]), state, flat, apart, {}, state["driver.missed"], seconds)


def _later_times(run: Trajectory, plan: Plan, horizon: float, save: Any) -> np.ndarray:
    last = float(run.t[-1])
    layer = plan.dt if plan.method.discrete else None
    if save is None:
        gap = last - float(run.t[-2]) if len(run) > 1 else horizon - last
        count = number_of_saves(max(1, round((horizon - last) / gap)))
        save = last + (horizon - last) * np.arange(1, count + 1) / count
        save = np.unique(np.floor(save / layer + 1e-9)) * layer if layer else save
    elif isinstance(save, (int, np.integer)) and not isinstance(save, bool):
        save = last + (horizon - last) * np.arange(1, number_of_saves(int(save)) + 1) / int(save)
    times = save_times(save, horizon, layer)
    if times[0] <= last:
        raise InputError(f"Later save times must lie beyond t = {last:g}, which this run reaches, not at {times[0]:g}.")
    return times


# --- between saved times ---------------------------------------------------------------------------------------------


def _wanted(run: Trajectory, times: Any) -> np.ndarray:
    try:
        wanted = np.atleast_1d(np.asarray(times, float))
    except (TypeError, ValueError) as error:
        raise InputError(f"A run is read at a time, or at several, not at {times!r}.") from error
    if wanted.ndim != 1 or not wanted.size or not np.isfinite(wanted).all() or (np.diff(wanted) <= 0).any():
        raise InputError("Times must be finite and increase.")
    if not len(run):
        raise InputError("This run has no saved times.")
    slack = 1e-12 * max(1.0, float(run.t[-1]))
    if wanted[0] < run.t[0] - slack or wanted[-1] > run.t[-1] + slack:
        raise InputError(
            f"This run reaches from t = {run.t[0]:g} to {run.t[-1]:g}, so it cannot be read at "
            f"{wanted[0] if wanted[0] < run.t[0] else wanted[-1]:g}; run.extend(t) carries it on."
        )
    return wanted


def _inside(run: Trajectory, plan: Plan, t: float) -> np.ndarray:
    """Tokens at a time between saves: whole steps from the last save on the grid, then the step's own cubic."""
    steps, thetas = steps_to(run.t, plan.dt)
    before = np.flatnonzero((run.t < t) & (thetas == 1.0))
    if not len(before):
        raise InputError(f"No saved time before t = {t:g} lies on the grid of steps; read the whole run instead.")
    start, (goal, theta) = int(before[-1]), steps_to(np.array([t]), plan.dt)
    x, k = run.x[start].reshape(plan.runs, plan.n, plan.d), int(steps[start])
    state = {"before": x, "now": x, "k": np.asarray(k), "at": plan.number(0.0)}
    stops = Stops(np.array([t]), t, goal - k, theta, np.ones(1, bool))
    after = dense.advance(plan, state, stops, dense_mix)[1].x[0]
    return np.asarray(after.reshape(run.x.shape[1:]))
