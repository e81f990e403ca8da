"""The pieces of a rescaled run in its chart (`metastable.engines.chart.state`), by fixed and by adaptive steps."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from metastable.backend import jax, jnp
from metastable.engines.chart import basis as rescaled_chart
from metastable.engines.chart import state as rescaled
from metastable.engines.chart import steps as rescaled_steps
from metastable.equation.dynamics import Dynamics
from metastable.solve import pieces
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
    """The same by `fast.charted`, whose arrays have runs in front of the two copies, (B, 2, n, d)."""
    from metastable.engines.chart import kernel_runs as charted

    steps_at, theta = pieces.grid(plan)
    first, lead = 0, z.shape[:-2]
    if state is None:
        y, refs = _two_copies(chart, z)
        state = {"before": y, "after": y, "now": y, "refs": refs, "k": 0, "worst": 0.0}
    else:
        first = int(state["next"])
    stand = charted.standing(state, lead)
    ways, charts = charted.Ways(plan.dt, plan.method, plan.dynamics.mask_name == "causal"), [charted.basis(chart)]
    for start, end, _ in pieces.spans(len(plan.times), watched, first):
        counts = np.diff(steps_at[start:end], prepend=stand.k)
        stand, saved = charted.advance(charts, stand, counts, theta[start:end], ways)
        y, refs, zeta = (a.reshape(len(a), *lead, *a.shape[2:]) for a in saved[:3])
        kept = {"next": np.asarray(end), **charted.kept(stand, lead)}
        tokens = charted.tokens(zeta, np.asarray(chart.S))
        yield Piece(start, tokens, float(plan.times[end - 1]), kept, (y, refs), saved.apart.max(axis=1))


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
