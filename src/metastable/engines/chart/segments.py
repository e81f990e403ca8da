"""The pieces of a rescaled run in its chart (`metastable.engines.chart.state`), by fixed and by adaptive steps."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from metastable.backend import jax, jnp
from metastable.engines.chart import basis as rescaled_chart
from metastable.engines.chart import state as rescaled
from metastable.engines.chart import steps as rescaled_steps
from metastable.engines.chart.kernel_runs import Saved, State, advance, basis, start, tokens
from metastable.equation.dynamics import Dynamics
from metastable.solve import pieces
from metastable.solve.methods import METHODS
from metastable.solve.pieces import Piece, Plan

Array = Any


def fixed(plan: Plan, z: Array, watched: bool, state: Any) -> Iterator[Piece]:
    dyn, chart = _chart(plan, z, plan.dt if plan.method == "layers" else None)
    if plan.summation == "exact":
        yield from _by_kernels(plan, chart, z, watched, state)
        return
    steps_at, theta = pieces.grid(plan)
    y, refs = _two_copies(chart, z)
    stand, first = rescaled_steps.Stepped(y, y, y, refs, np.asarray(0), plan.number(0.0)), 0
    if state is not None:
        stand = rescaled_steps.Stepped(*(jnp.asarray(state[name]) for name in rescaled_steps.Stepped._fields))
        first = int(state["next"])
    every = rescaled_steps.refer_every(float(chart.top), plan.dt)
    for span in pieces.spans(len(plan.times), watched, first):
        start, end, _ = span
        wanted = pieces.requests(steps_at, plan.number(theta), span, int(stand.k))
        stand, (y, refs, apart) = rescaled_steps.advance_fixed(
            dyn, chart, stand, *wanted, plan.number(plan.dt), every, plan.method
        )
        m = end - start
        charted = (np.asarray(y)[:m], np.asarray(refs)[:m])
        z_saved = rescaled.tokens_at(chart, plan.number(plan.times[start:end]), *charted)
        reached = float(plan.times[end - 1])
        yield Piece(start, np.asarray(z_saved), reached, pieces.stored(stand, end), charted, np.asarray(apart)[:m])


def _by_kernels(plan: Plan, chart: Any, z: np.ndarray, watched: bool, state: Any) -> Iterator[Piece]:
    """The same by kernels, whose members are each run and, right after it, its shaken copy."""
    steps_at, theta = pieces.grid(plan)
    first, worst, lead = 0, 0.0, z.shape[:-2]
    if state is None:
        y, refs = (a.reshape(-1, *a.shape[len(lead) :]) for a in rescaled.start(chart, z))
        members = start(np.repeat(y, 2, axis=0), np.repeat(refs, 2, axis=0))
    else:
        first, worst = int(state["next"]), float(state["worst"])
        arrays = [np.array(state[name]) for name in State._fields[:-1]]
        members = State(*arrays, int(state["k"]))  # type: ignore[arg-type, call-arg]
    bases = [basis(chart)] * len(members.now)
    for begin, end, _ in pieces.spans(len(plan.times), watched, first):
        counts = np.diff(steps_at[begin:end], prepend=members.k)
        members, saved = two_by_two(plan, bases, members, counts, theta[begin:end])
        found = np.maximum.accumulate(np.maximum(apart(saved.zeta).max(axis=1), worst))
        worst = found[-1]
        y, refs, zeta = (a[:, ::2].reshape(len(a), *lead, *a.shape[2:]) for a in saved)
        kept = {"next": np.asarray(end), "worst": np.asarray(worst)}
        kept |= {name: np.array(value) for name, value in members._asdict().items()}
        yield Piece(begin, tokens(zeta, np.asarray(chart.S)), float(plan.times[end - 1]), kept, (y, refs), found)


def two_by_two(plan: Plan, bases: Any, members: State, counts: np.ndarray, theta: np.ndarray) -> tuple[State, Saved]:
    """Advance each run and its shaken copy."""
    layer = plan.dt if plan.method == "layers" else 0.0
    tableau = METHODS[plan.method].tableau.matrix()  # type: ignore[union-attr]
    shakes = np.tile([0.0, 2 * np.finfo(np.float64).eps], len(bases) // 2)
    bounds = pieces.bounds(plan, members.now.shape[-2])
    return advance(bases, members, counts, theta, plan.dt, tableau, layer, *bounds, shakes)


def apart(zeta: np.ndarray) -> np.ndarray:
    """How far each run and its copy are apart, relative to the spread of each direction, (m, B)."""
    one, two = zeta[:, ::2], zeta[:, 1::2]
    with np.errstate(all="ignore"):
        size = np.abs(one).max(axis=-2, keepdims=True)
        gap = np.abs(one - two) / np.where(size > 0, size, 1.0)
    return np.where(np.isfinite(gap), gap, np.inf).max(axis=(-2, -1))


def _chart(plan: Plan, z: Array, layer: float | None) -> tuple[Dynamics, Any]:
    chart = rescaled_chart.chart_of(plan.dynamics, z.shape[-1], z.shape[-2], layer)
    cast = jax.tree_util.tree_map(lambda a: a if np.asarray(a).dtype.kind == "i" else plan.number(a), chart)
    return plan.dynamics, cast


def _two_copies(chart: Any, z: Array) -> tuple[Array, Array]:
    y, refs = rescaled.start(chart, z)
    return np.stack([y, y]), np.stack([refs, refs])


def adaptive(plan: Plan, z: Array, state: Any) -> Iterator[Piece]:
    dyn, chart = _chart(plan, z, None)
    y, refs = _two_copies(chart, z)
    shortest = min(plan.t, 0.5 / max(float(chart.top), 1e-300))
    at: dict[str, Any] = {"t": 0.0, "next": 0, "length": shortest, "count": 0, "worst": 0.0}
    if state is not None:
        y, refs = jnp.asarray(state["y"]), jnp.asarray(state["refs"])
        at = {name: state[name].item() for name in at}
    elif plan.times[0] == 0.0:
        at["next"] = 1
        yield Piece(
            0, np.asarray(z)[None], 0.0, _kept(y, refs, at), (np.asarray(y[:1]), np.asarray(refs[:1])), np.zeros(1)
        )
    while at["next"] < len(plan.times):
        t0, first = at["t"], at["next"]
        t1 = plan.t if t0 + 1.5 * at["length"] >= plan.t else t0 + at["length"]
        end, times = pieces.asked(plan, t0, t1, first)
        numbers = (plan.number(v) for v in (t0, t1, times, plan.rtol, plan.atol, at["count"], at["worst"]))
        y, refs, reached, worst, (saved, apart), closest = rescaled_steps.advance_adaptive(
            dyn, chart, y, refs, *numbers, plan.method, pieces.MOST_STEPS
        )
        length = 2.0 * at["length"] if float(closest) < -700.0 else shortest
        at = {"t": t1, "next": end, "length": length, "count": at["count"] + 1, "worst": float(worst)}
        m = end - first
        refs0 = jnp.broadcast_to(refs[0], (len(times), *refs[0].shape))
        z_saved = np.asarray(rescaled.tokens_at(chart, plan.number(times), saved, refs0)[:m])
        charted = (np.asarray(saved)[:m], np.asarray(refs0)[:m])
        piece = Piece(first, z_saved, float(reached), _kept(y, refs, at), charted, np.asarray(apart)[:m])
        yield piece if float(reached) >= plan.number(t1) else pieces.stalled(plan, piece)


def _kept(y: Array, refs: Array, at: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.asarray(value) for name, value in {"y": y, "refs": refs, **at}.items()}
