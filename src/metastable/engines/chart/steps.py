"""Steps of the rescaled flow in its chart: fixed ones (the same as taken in z), discrete layers, adaptive ones.

States carry two copies on a leading axis: the run, and the run with a few roundings of noise (`rescaled.shaken`).
"""

from functools import partial
from typing import Any, NamedTuple

from metastable.backend import jax, jnp
from metastable.engines.chart import state as chart_of_z
from metastable.engines.chart.basis import Chart, contracting, flow, times_L
from metastable.equation.dynamics import Dynamics
from metastable.solve.steps import hermite

Array = Any


# the classical methods as (fraction of the step, weight) per stage; each stage starts from the one before
TABLEAUS = {
    "euler": ((0.0,), (1.0,)),
    "rk4": ((0.0, 0.5, 0.5, 1.0), (1 / 6, 1 / 3, 1 / 3, 1 / 6)),
}


def refer_every(top: float, dt: float) -> int:
    """Steps between two choices of references: a quarter of the time in which the fastest direction grows e-fold."""
    return max(1, int(0.25 / max(top * dt, 1e-3)))


def runge_kutta(method: str, dyn: Dynamics, chart: Chart, t: Array, y: Array, refs: Array, h: Array) -> Array:
    """A fixed step of order 1 or 4 with the scale frozen at t, which makes it the same step as taken in z."""
    fractions, weights = (jnp.asarray(row, y.dtype) for row in TABLEAUS[method])

    def stage(carry: tuple[Array, Array], row: tuple[Array, Array]) -> tuple[tuple[Array, Array], None]:
        total, slope = carry
        slope = chart_of_z.frozen_velocity(dyn, chart, t + row[0] * h, y + row[0] * h * slope, refs, t)
        return (total + row[1] * slope, slope), None

    zero = jnp.zeros_like(y)
    (total, _), _ = jax.lax.scan(stage, (zero, zero), (fractions, weights))
    return y + h * total


def layers(dyn: Dynamics, chart: Chart, t: Array, y: Array, refs: Array, h: Array) -> Array:
    """Remark 4, exactly: z_i + h sum_j P_ij R^{-1} V (z_j - z_i) with R = I + h V, scale moved on to t + h."""
    s = chart_of_z.gathered(dyn, chart, t, y, refs)
    down = contracting(chart)
    root = jnp.where(down, s + y, flow(chart, -(t + h), s))
    pull = jnp.where(chart_of_z.own(y, refs), root, s - chart_of_z.gather(s, refs))
    return y + h * times_L(chart, pull)


class Stepped(NamedTuple):
    """Where a charted run stands: the last step's two ends in the scale of its start, the state, references, steps
    taken, and how far the two copies have been apart so far."""

    before: Array
    after: Array
    now: Array
    refs: Array
    k: Array
    worst: Array


@partial(jax.jit, static_argnames=("method",))
def advance_fixed(
    dyn: Dynamics,
    chart: Chart,
    state: Stepped,
    counts: Array,
    thetas: Array,
    dt: Array,
    every: Array,
    method: str,
) -> tuple[Stepped, tuple[Array, Array, Array]]:
    """Fixed steps between saves, as `steps.advance`; references are chosen anew every ``every`` steps.

    Returns where the run stands and, for each save, (y, refs, disagreement of the two copies).
    """

    def anew(y: Array, refs: Array, worst: Array, k: Array) -> tuple[Array, Array, Array]:
        worst = jnp.maximum(worst, chart_of_z.disagreement(chart, k * dt, y, refs))
        y, refs = chart_of_z.refer(dyn, chart, k * dt, y, refs)
        return chart_of_z.shaken(y, k), refs, worst

    def as_is(y: Array, refs: Array, worst: Array, k: Array) -> tuple[Array, Array, Array]:
        return y, refs, worst

    def step(state: Stepped) -> Stepped:
        k = state.k
        y, refs, worst = jax.lax.cond(k % every == 0, anew, as_is, state.now, state.refs, state.worst, k)
        if method == "layers":
            y = layers(dyn, chart, k * dt, y, refs, dt)
            return Stepped(y, y, y, refs, k + 1, worst)
        w = runge_kutta(method, dyn, chart, k * dt, y, refs, dt)
        return Stepped(y, w, chart_of_z.thaw(chart, dt, w, refs), refs, k + 1, worst)

    def inside(state: Stepped, theta: Array) -> Array:
        t0 = (state.k - 1) * dt
        ends, times = jnp.stack([state.before, state.after]), jnp.stack([t0, t0 + dt])
        slopes = jax.lax.map(
            lambda end: chart_of_z.frozen_velocity(dyn, chart, end[0], end[1], state.refs, t0), (times, ends)
        )
        y = hermite(theta, dt, ends[0], slopes[0], ends[1], slopes[1])
        return chart_of_z.thaw(chart, theta * dt, y, state.refs)

    def save(state: Stepped, asked: tuple[Array, Array]) -> tuple[Stepped, tuple[Array, Array, Array]]:
        count, theta = asked
        state = jax.lax.fori_loop(0, count, lambda _, s: step(s), state)
        y = state.now
        if method != "layers":
            y = jax.lax.cond(theta < 1, inside, lambda state, theta: state.now, state, theta)
        apart = chart_of_z.disagreement(chart, (state.k - 1 + theta) * dt, y, state.refs)
        return state, (y[0], state.refs[0], jnp.maximum(state.worst, apart))

    return jax.lax.scan(save, state, (counts, thetas))


@partial(jax.jit, static_argnames=("method", "most"))
def advance_adaptive(
    dyn: Dynamics,
    chart: Chart,
    y: Array,
    refs: Array,
    t0: Array,
    t1: Array,
    times: Array,
    rtol: Array,
    atol: Array,
    count: Array,
    worst: Array,
    method: str,
    most: int,
) -> tuple[Array, Array, Array, Array, tuple[Array, Array], Array]:
    """One adaptive segment with fixed references.

    Returns the state reached, its references, the time reached, how far the two copies have been apart so far, the
    saves (y, disagreement) and the largest score gap short of a tie at the end (when it is below -700, attention no
    longer changes).
    """
    from metastable.solve.adaptive import solve

    y, refs = chart_of_z.refer(dyn, chart, t0, y, refs)
    y = chart_of_z.shaken(y, count)

    def f(t: Array, y: Array) -> Array:
        return chart_of_z.moving_velocity(dyn, chart, t, y, refs, t0)

    (reached, end), saved, _ = solve(f, y, t0, t1, times, rtol, atol, method, most)
    end = chart_of_z.settle(chart, reached - t0, end, refs)
    saved = jax.vmap(lambda t, y: chart_of_z.settle(chart, t - t0, y, refs))(times, saved)
    apart = jax.vmap(lambda t, y: chart_of_z.disagreement(chart, t, y, refs))(times, saved)
    closest = chart_of_z.closest_gap(dyn, chart, reached, end, refs)
    apart = jnp.maximum(worst, apart)
    worst = jnp.maximum(worst, chart_of_z.disagreement(chart, reached, end, refs))
    return end, refs, reached, worst, (saved[:, 0], apart), closest
