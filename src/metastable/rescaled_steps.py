"""Steps of the rescaled flow in its chart: fixed ones (the same as taken in z), discrete layers, adaptive ones.

States carry two copies on a leading axis: the run, and the run with a few roundings of noise (`rescaled.shaken`).
"""

from functools import partial
from typing import Any

from metastable import rescaled as chart_of_z
from metastable.compute import jax, jnp
from metastable.dynamics import Dynamics
from metastable.rescaled import Chart
from metastable.steps import hermite

Array = Any


def euler(dyn: Dynamics, chart: Chart, t: Array, y: Array, refs: Array, h: Array) -> Array:
    """z + h z', order 1."""
    return y + h * chart_of_z.frozen_velocity(dyn, chart, t, y, refs, t)


def rk4(dyn: Dynamics, chart: Chart, t: Array, y: Array, refs: Array, h: Array) -> Array:
    """The classical step, order 4; the scale stays frozen at t, so this is the step in z."""

    def f(s: Array, w: Array) -> Array:
        return chart_of_z.frozen_velocity(dyn, chart, s, w, refs, t)

    k1 = f(t, y)
    k2 = f(t + h / 2, y + h / 2 * k1)
    k3 = f(t + h / 2, y + h / 2 * k2)
    k4 = f(t + h, y + h * k3)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def layers(dyn: Dynamics, chart: Chart, t: Array, y: Array, refs: Array, h: Array) -> Array:
    """Remark 4, exactly: z_i + h sum_j P_ij R^{-1} V (z_j - z_i) with R = I + h V, scale moved on to t + h."""
    s, _ = chart_of_z.gathered(dyn, chart, t, y, refs, t)
    down = chart_of_z.contracting(chart)
    root = jnp.where(down, s + y, chart_of_z.flow(chart, -(t + h), s))
    pull = jnp.where(chart_of_z.own(y, refs), root, s - chart_of_z.gather(s, refs))
    return y + h * chart_of_z.times_L(chart, pull)


@partial(jax.jit, static_argnames=("method",))
def advance_fixed(
    dyn: Dynamics,
    chart: Chart,
    state: tuple[Array, Array, Array],
    counts: Array,
    thetas: Array,
    dt: Array,
    every: Array,
    key: Array,
    method: str,
) -> tuple[tuple[Array, Array, Array], tuple[Array, Array, Array]]:
    """Fixed steps between saves, as `steps.advance`; references are chosen anew every ``every`` steps.

    Returns the state and, for each save, (y, refs, disagreement of the two copies).
    """

    def ready(y: Array, refs: Array, k: Array) -> tuple[Array, Array]:
        def anew(y: Array, refs: Array) -> tuple[Array, Array]:
            y, refs = chart_of_z.refer(dyn, chart, k * dt, y, refs)
            return chart_of_z.shaken(y, refs, jax.random.fold_in(key, k)), refs

        return jax.lax.cond(k % every == 0, anew, lambda y, refs: (y, refs), y, refs)

    def step(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        y, refs, k = carry
        y, refs = ready(y, refs, k)
        if method == "layers":
            return layers(dyn, chart, k * dt, y, refs, dt), refs, k + 1
        w = {"euler": euler, "rk4": rk4}[method](dyn, chart, k * dt, y, refs, dt)
        return chart_of_z.thaw(chart, dt, w, refs), refs, k + 1

    def between(carry: tuple[Array, Array, Array], theta: Array) -> tuple[Array, Array]:
        y, refs, k = carry
        y, refs = ready(y, refs, k)
        t = k * dt
        w = {"euler": euler, "rk4": rk4}[method](dyn, chart, t, y, refs, dt)
        v0 = chart_of_z.frozen_velocity(dyn, chart, t, y, refs, t)
        v1 = chart_of_z.frozen_velocity(dyn, chart, t + dt, w, refs, t)
        inside = hermite(theta, dt, y, v0, w, v1)
        return chart_of_z.thaw(chart, theta * dt, inside, refs), refs

    def save(carry: Any, asked: tuple[Array, Array]) -> tuple[Any, tuple[Array, Array, Array]]:
        count, theta = asked
        carry = jax.lax.fori_loop(0, count, lambda _, c: step(c), carry)
        y, refs = carry[0], carry[1]
        if method != "layers":
            y, refs = jax.lax.cond(theta > 0, between, lambda c, theta: (c[0], c[1]), carry, theta)
        t = (carry[2] + theta) * dt
        return carry, (y[0], refs[0], chart_of_z.disagreement(chart, t, y, refs))

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
    key: Array,
    method: str,
    most: int,
) -> tuple[Array, Array, Array, tuple[Array, Array], Array]:
    """One adaptive segment with fixed references.

    Returns the state reached, its references, the time reached, the saves (y, disagreement) and the largest score
    gap short of a tie at the end (when it is below -700, attention no longer changes).
    """
    from metastable.adaptive import solve

    y, refs = chart_of_z.refer(dyn, chart, t0, y, refs)
    y = chart_of_z.shaken(y, refs, key)
    f = partial(chart_of_z.offset_velocity, dyn, chart)
    end, saved, _ = solve(lambda t, y: f(t, y, refs), y, t0, t1, times, rtol, atol, method, most)
    apart = jax.vmap(lambda t, y: chart_of_z.disagreement(chart, t, y, refs))(times, saved)
    _, gaps = chart_of_z.attention(dyn, chart, end[0], end[1], refs, end[0])
    closest = jnp.where(gaps == 0.0, -jnp.inf, gaps).max()
    return end[1], refs, end[0], (saved[:, 0], apart), closest
