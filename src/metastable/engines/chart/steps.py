"""Steps of the rescaled flow in its chart: fixed ones (the same as taken in z), discrete layers, adaptive ones.

Functions here are of one run; the engine runs them side by side. At every choice of references a copy of a run is
shaken by a few roundings (`metastable.solve.trust`), which tells how far its digits can be trusted.
"""

from functools import partial
from typing import NamedTuple

from metastable.backend import Array, jax, jnp
from metastable.engines.chart import references
from metastable.engines.chart import state as chart_state
from metastable.engines.chart.basis import Chart, contracting, flow, times_L
from metastable.equation.dynamics import Dynamics
from metastable.solve.methods import Method
from metastable.solve.stepping import hermite, rolled_step, solve


def layers(dyn: Dynamics, chart: Chart, t: Array, y: Array, refs: Array, h: Array) -> Array:
    """Remark 4, exactly: z_i + h sum_j P_ij R^{-1} V (z_j - z_i) with R = I + h V, scale moved on to t + h."""
    (s, excess), offsets = chart_state.pulls(dyn, chart, t, y, refs, y)
    down = contracting(chart)
    if not chart_state.sums_to_one(dyn, y.shape[-2]):  # x + h a V x in the scale of t + h: z + h R^{-1} V (a - 1) z
        s = s + excess * jnp.where(down, y, flow(chart, t, y))
    root = jnp.where(down, s + y, flow(chart, -(t + h), s))
    pull = jnp.where(chart_state.own(y, refs), root, offsets)
    return y + h * times_L(chart, pull)


class Stepped(NamedTuple):
    """The last step's two ends in the scale of its start, the state itself, its references, and the steps taken."""

    before: Array
    after: Array
    now: Array
    refs: Array
    k: Array


@partial(jax.jit, static_argnames=("method",))
def advance_fixed(
    dyn: Dynamics,
    chart: Chart,
    state: Stepped,
    shake: Array,
    counts: Array,
    thetas: Array,
    dt: Array,
    every: Array,
    method: Method,
) -> tuple[Stepped, tuple[Array, Array]]:
    """Fixed steps between stops, as `stepping.advance_fixed`; references are chosen anew every ``every`` steps.

    Returns the state and, for each stop, (y, refs).
    """

    def anew(y: Array, refs: Array, k: Array) -> tuple[Array, Array]:
        y, refs = references.refer(dyn, chart, k * dt, y, refs)
        return references.shaken(y, k, shake), refs

    def as_is(y: Array, refs: Array, k: Array) -> tuple[Array, Array]:
        return y, refs

    def step(state: Stepped) -> Stepped:
        k = state.k
        t = k * dt
        y, refs = jax.lax.cond(k % every == 0, anew, as_is, state.now, state.refs, k)
        if method.discrete:
            y = layers(dyn, chart, t, y, refs, dt)
            return Stepped(y, y, y, refs, k + 1)
        assert method.tableau is not None

        def slope(s: Array, w: Array) -> Array:
            return chart_state.frozen_velocity(dyn, chart, s, w, refs, t)

        w = rolled_step(method.tableau, slope, t, y, dt)  # with the scale frozen at t: the same step as taken in z
        return Stepped(y, w, chart_state.thaw(chart, dt, w, refs), refs, k + 1)

    def inside(state: Stepped, theta: Array) -> Array:
        t0 = (state.k - 1) * dt
        ends, times = jnp.stack([state.before, state.after]), jnp.stack([t0, t0 + dt])
        slopes = jax.lax.map(
            lambda end: chart_state.frozen_velocity(dyn, chart, end[0], end[1], state.refs, t0), (times, ends)
        )
        y = hermite(theta, dt, ends[0], slopes[0], ends[1], slopes[1])
        return chart_state.thaw(chart, theta * dt, y, state.refs)

    def stop(state: Stepped, requested: tuple[Array, Array]) -> tuple[Stepped, tuple[Array, Array]]:
        count, theta = requested
        state = jax.lax.fori_loop(0, count, lambda _, s: step(s), state)
        y = state.now
        if not method.discrete:
            y = jax.lax.cond(theta < 1, inside, lambda state, theta: state.now, state, theta)
        return state, (y, state.refs)

    return jax.lax.scan(stop, state, (counts, thetas))


class Reached(NamedTuple):
    """Where an adaptive segment ended, the states at its stops, and the largest score gap short of a tie at its end.

    When that gap is below -700, attention no longer changes.
    """

    y: Array
    refs: Array
    t: Array
    exhausted: Array
    saved: Array
    closest: Array


@partial(jax.jit, static_argnames=("method",))
def advance_adaptive(
    dyn: Dynamics,
    chart: Chart,
    y: Array,
    refs: Array,
    shake: Array,
    t0: Array,
    t1: Array,
    times: Array,
    rtol: Array,
    atol: Array,
    count: Array,
    method: Method,
) -> Reached:
    """One adaptive segment with references chosen at its start."""
    y, refs = references.refer(dyn, chart, t0, y, refs)
    y = references.shaken(y, count, shake)

    def f(t: Array, y: Array) -> Array:
        return chart_state.moving_velocity(dyn, chart, t, y, refs, t0)

    got = solve(f, y, t0, t1, times, rtol, atol, method)
    end = chart_state.settle(chart, got.t - t0, got.x, refs)
    saved = jax.vmap(lambda t, y: chart_state.settle(chart, t - t0, y, refs))(times, got.saved)
    closest = chart_state.closest_gap(dyn, chart, got.t, end, refs)
    return Reached(end, refs, got.t, got.exhausted, saved, closest)
