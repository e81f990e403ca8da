"""What the chart of a rescaled run gets wrong beyond e^CAP, for its copies alike: it ends what is certified.

From there on scores between references are held in units of e^{2k}, those within a cluster in units of e^k, with
k = lambda t - CAP: attention is flatter than it is, may prefer the wrong one of two, and what tokens of different
references pull at one another is shrunk to nothing (`state.gathered`). Nothing of this matters where attention has
settled on tokens that are at one place by then, as it mostly has; in a slow direction it may not have.

So at every stop attention is computed again with both parts in one unit. Whatever may be attended to by either account,
and lies elsewhere than what is attended to most, is an error of the velocity; so is every pull between references.
Where numbers are too small to tell, a token may be attended to. Where attention changes sides for ever, because a
direction that grows also turns, this says nothing of the time between two looks, and nothing is certified.

Where V contracts, references are held as e^{tL} zeta, which underflows to 0 for run and copy alike: a coordinate that
is 0 by then, or nearly so, tells nothing of z.
"""

from typing import Any

import numpy as np

from metastable.backend import Array, jax, jnp
from metastable.engines.chart import state as chart_state
from metastable.engines.chart.basis import CAP, Chart, most_of_L, turns_and_grows
from metastable.engines.dense import cast
from metastable.equation.dynamics import Dynamics
from metastable.solve.plan import Plan

_ROOM = 20.0  # exponents that are left for far scores before they leave the range of floats
_TELLS = 1e-250  # differences of scores below it decide nothing


def hidden(plan: Plan, charts: list[Chart], times: np.ndarray, y: np.ndarray, refs: np.ndarray) -> np.ndarray:
    """By how much such pulls may move each run over its whole time, (m, runs), relatively; inf if that is unknown.

    States y (m, B, n, d) and references (m, B, n) are those at ``times`` (m,); ``charts`` has one for every run.
    """
    out = np.zeros((len(times), plan.originals))
    falls = np.array([-float(np.min(chart.grow)) for chart in charts[: plan.originals]])
    for run in np.flatnonzero(times.max(initial=0.0) * falls > CAP).tolist():
        late = np.flatnonzero(times * falls[run] > CAP)
        gone = _underflown(np.asarray(charts[run].grow), times[late], y[late, run], refs[late, run], plan.dtype)
        out[late, run] = np.where(gone, np.inf, 0.0)
    tops = np.array([float(chart.top) for chart in charts[: plan.originals]])
    for run in np.flatnonzero(times.max(initial=0.0) * tops > CAP).tolist():  # few runs go on for so long
        late = np.flatnonzero(times * tops[run] > CAP)
        if turns_and_grows(charts[run]):
            out[late, run] = np.inf
            continue
        places = np.resize(late, 1 << (len(late) - 1).bit_length())  # few lengths, so that few are compiled
        chart, late_times = cast(charts[run], plan.dtype), plan.number(times[places])
        pulls = _at_stops(cast(plan.model, plan.dtype), chart, late_times, y[places, run], refs[places, run])
        found = np.asarray(pulls, float)[: len(late)] * plan.t
        out[late, run] = np.maximum(out[late, run], np.where(np.isfinite(found), found, np.inf))
    return out


def _underflown(grow: np.ndarray, times: np.ndarray, y: np.ndarray, refs: np.ndarray, dtype: str) -> np.ndarray:
    """Whether a contracting direction of a run has lost its digits at the bottom of the range of floats, (m,).

    States y (m, n, d). A direction that was 0 from the start counts as lost too, once it could be.
    """
    refs = refs[..., None]
    offsets = np.where(refs == np.arange(y.shape[-2])[:, None], 0.0, y)
    largest = np.abs(np.take_along_axis(y, refs, axis=-2) + offsets).max(axis=-2)  # of e^{tL} zeta, (m, d)
    least = float(np.finfo(dtype).tiny) / float(np.finfo(dtype).eps)
    gone = np.where(largest == 0.0, -grow * times[:, None] > 2.0 * CAP, largest < least)
    return np.asarray((gone & (grow < 0.0)).any(axis=-1))


@jax.jit
def _at_stops(dyn: Any, chart: Any, times: Any, y: Any, refs: Any) -> Any:
    return jax.lax.map(lambda stop: uncertain_pull(dyn, chart, *stop), (times, y, refs))


def uncertain_pull(dyn: Dynamics, chart: Chart, t: Array, y: Array, refs: Array) -> Array:
    """By how much velocities may be wrong at most, relative to the size of each direction."""
    Z = chart_state.scaled_tokens(chart, t, y, refs)

    def some(rows: Array | None) -> Array:
        queries: Array = jnp.arange(y.shape[-2]) if rows is None else rows
        P, best = _may_attend(dyn, chart, t, y, refs, queries)
        cross = jnp.where(refs[queries][:, None] == refs, 0.0, P)

        def along(z: Array) -> Array:
            astray: Array = (P * jnp.abs(z - z[best][:, None])).sum(axis=-1)
            shrunk: Array = (cross * jnp.abs(z - z[queries][:, None])).sum(axis=-1)
            return astray + shrunk

        by_direction: Array = jax.lax.map(along, Z.T)
        return by_direction.T

    pull = most_of_L(chart, chart_state.by_rows(dyn, y, some).max(axis=-2))
    size = jnp.abs(Z).max(axis=-2)
    return jnp.where(pull == 0.0, 0.0, pull / size).max()


def _may_attend(dyn: Dynamics, chart: Chart, t: Array, y: Array, refs: Array, queries: Array) -> tuple[Array, Array]:
    """The most that each query may attend to each token, (m, n), and what it attends to most, (m,)."""
    P = chart_state.attention_of(dyn, chart, t, y, refs, queries)
    if not dyn.normalise.shift_invariant:
        return P, jnp.argmax(P, axis=-1)
    n, k = y.shape[-2], chart.top * t - CAP
    seen = dyn.mask.rows(queries, n)
    far, near = chart_state.score_parts(chart, t, y, refs, queries)
    whole = far * jnp.exp(jnp.minimum(k, _ROOM)) + near
    whole = whole if seen is None else jnp.where(seen, whole, -jnp.inf)
    best = jnp.argmax(whole, axis=-1)
    far, near = (a - jnp.take_along_axis(a, best[:, None], axis=-1) for a in (far, near))
    alike = refs == refs[best][:, None]
    unsure = jnp.abs(jnp.where(alike, near, far)) < _TELLS  # what underflows in a score could be as large
    unsure = unsure | ((k > _ROOM) & (far > 0.0))  # it is the best only because far scores are not enlarged further
    gaps = jnp.minimum(0.0, far * jnp.exp(jnp.minimum(k, _ROOM)) + near) * jnp.exp(jnp.minimum(k, CAP))
    W = chart_state.weights_of(dyn, chart, gaps if seen is None else jnp.where(seen, gaps, -jnp.inf), seen)
    W = jnp.where(unsure if seen is None else unsure & seen, 1.0, W)
    return jnp.maximum(P, W), best
