"""One step, and many: the compiled loops behind `flow` and the dense engine.

The state moves on the grid k * dt whatever is saved; times between grid points are read off the cubic Hermite
interpolant, which is of the fourth order too. With noise they are drawn from the Brownian bridge between the ends of
the step, so that every save has the right law.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from metastable.backend import Array, Tokens, is_traced, jax, jnp
from metastable.equation.attention import mix as dense_mix
from metastable.equation.dynamics import Dynamics, Mix
from metastable.equation.geometry import Geometry
from metastable.equation.masks import Layers
from metastable.equation.weights import Stack
from metastable.solve.methods import Adaptive, Method, Tableau

X = TypeVar("X", jax.Array, np.ndarray)
MOST_STEPS = 100_000  # of an adaptive method in one segment


def field(dyn: Dynamics, t: Array, x: Tokens, mix: Mix = dense_mix) -> Tokens:
    """The velocity; where norms are fixed it is carried off the sphere by |x| f(x/|x|).

    Stage points of a step leave the sphere; there the field is extended so that it commutes with scaling any one
    token. A Runge-Kutta step then moves directions alike whatever the norms, so retracting after each accepted step
    changes nothing but the norms, and the order of the method is kept.
    """
    if not dyn.geometry.fixed_norm:
        return dyn.velocity(t, x, mix)
    squared = (x**2).sum(axis=-1, keepdims=True)
    size = jnp.sqrt(jnp.where(squared > 0, squared, 1.0))
    return size * dyn.velocity(t, x / size, mix)


def explicit_step(tableau: Tableau, f: Callable[[Any, X], X], t: Any, x: X, h: Any) -> X:
    """x after a step h of an explicit Runge-Kutta scheme; arrays of JAX or of NumPy."""
    slopes: list[X] = []
    for row, node in zip(tableau.a, tableau.c):
        slopes.append(f(t + node * h if node else t, _ahead(x, h, row, slopes)))
    return _ahead(x, h, tableau.b, slopes)


def rolled_step(tableau: Tableau, f: Callable[[Array, Array], Array], t: Array, x: Array, h: Array) -> Array:
    """`explicit_step` as a loop over the stages: a costly velocity is compiled once, not once for every stage."""
    numbers, nodes = jnp.asarray(tableau.matrix(), x.dtype), jnp.asarray(tableau.c, x.dtype)

    def stage(i: Array, slopes: Array) -> Array:
        return slopes.at[i].set(f(t + nodes[i] * h, x + h * jnp.tensordot(numbers[i], slopes, 1)))

    slopes = jax.lax.fori_loop(0, tableau.stages, stage, jnp.zeros((tableau.stages, *x.shape), x.dtype))
    return x + h * jnp.tensordot(numbers[-1], slopes, 1)


def _ahead(x: X, h: Any, weights: tuple[float, ...], slopes: list[X]) -> X:
    used: list[Any] = [weight * slope for weight, slope in zip(weights, slopes) if weight != 0.0]
    out: X = x + h * sum(used[1:], used[0]) if used else x
    return out


class Stepped(NamedTuple):
    """The state of a fixed-step run: the last step's two ends and how many steps were taken.

    With noise ``before`` is the last known point of the step, at the fraction ``at`` of it.
    """

    before: Tokens
    now: Tokens
    k: Array
    at: Array


@partial(jax.jit, static_argnames=("method", "noisy", "between", "mix"))
def advance_fixed(
    dyn: Dynamics,
    state: Stepped,
    counts: Array,
    thetas: Array,
    dt: Array,
    key: Array,
    method: Method,
    noisy: bool,
    between: bool = True,
    mix: Mix = dense_mix,
) -> tuple[Stepped, Tokens]:
    """Before each stop take ``counts`` steps, then read the state at the fraction ``thetas`` of the last one.

    Returns the state and the tokens at the stops (m, ..., n, d). Without ``between`` all fractions are 1, which
    spares compiling what reads states inside a step.
    """

    def stop(state: Stepped, requested: tuple[Array, Array]) -> tuple[Stepped, Tokens]:
        count, theta = requested
        state = jax.lax.fori_loop(0, count, lambda _, s: step(dyn, s, dt, key, method, noisy, mix), state)
        if method.discrete or not between:
            return state, state.now
        stopped: tuple[Stepped, Tokens] = jax.lax.cond(
            theta < 1,
            lambda state: inside(dyn, state, theta, dt, key, noisy, mix),
            lambda state: (state, state.now),
            state,
        )
        return stopped

    return jax.lax.scan(stop, state, (counts, thetas))


def step(dyn: Dynamics, state: Stepped, dt: Array, key: Array, method: Method, noisy: bool, mix: Mix) -> Stepped:
    """The state after one more step of a fixed-step method."""
    x, k = state.now, state.k
    t = k * dt
    if method.discrete:
        moved = dyn.layer(t, x, dt, mix)
    else:
        assert method.tableau is not None
        last = _inside_step(dyn, t, dt)
        moved = explicit_step(method.tableau, lambda s, y: field(dyn, last(s), y, mix), t, x, dt)
    if noisy:  # sigma sqrt(h) P_x(xi), the Euler-Maruyama step
        kick = dyn.noise_kind.draw(jax.random.fold_in(key, k), x.shape, x.dtype)
        moved = moved + dyn.noise * jnp.sqrt(dt) * dyn.geometry.tangent(dyn.weights, t, x, kick)
    return Stepped(x, dyn.geometry.retract(moved), k + 1, jnp.zeros_like(state.at))


def _inside_step(dyn: Dynamics, t: Array, dt: Array) -> Callable[[Array], Array]:
    """Times of stages: the end of a step still belongs to the step where the equation changes at once.

    So do Mix-LN and what is given layer by layer, weights or masks. The last stages of a step that ends with a layer
    would else feel the next one, which makes every method one of the first order. A layer counts as begun 1e-9 of
    itself early (`Stack`), so that these stages stand a little further back.
    """
    layers = list(_layers(dyn))
    if not (layers or dyn.geometry.by_time):
        return lambda s: s
    back = jnp.asarray(1e-9 * dt)
    for layer in layers:
        back = jnp.maximum(back, 4e-9 * layer)
    return lambda s: jnp.minimum(s, t + dt - back)


def default_step(dyn: Dynamics, method: Method) -> float:
    """The method's step, or as much less as makes every layer, and Mix-LN's early part, a whole number of steps.

    Where a step goes across a change its error is of the first order, whatever the method.

    >>> from metastable.equation.weights import Weights
    >>> from metastable.solve.methods import METHODS
    >>> layered = Dynamics(Weights(V=Stack(np.ones((3, 1, 2, 2)), 0.25)))
    >>> [round(default_step(d, METHODS["rk4"]), 4) for d in (Dynamics(), layered, Dynamics(geometry="mix-ln(0.72)"))]
    [0.1, 0.0833, 0.09]
    """
    if method.discrete or method.adaptive:
        return method.default_dt
    found = [length for length in (*_layers(dyn), *_changes(dyn.geometry)) if not is_traced(length) and length > 0]
    shortest = min(found, default=method.default_dt)
    return float(shortest / np.ceil(shortest / method.default_dt - 1e-9))


def _changes(geometry: Geometry) -> list[float]:
    """When a geometry changes at once."""
    until = getattr(geometry.tangent, "until", None)
    return [] if until is None else [until]


def _layers(part: Any) -> Iterator[Any]:
    """How long a layer takes, of everything inside a part that is given by layers."""
    if isinstance(part, (Stack, Layers)):
        yield part.dt
    elif is_dataclass(part) and not isinstance(part, type):
        for f in fields(part):
            yield from _layers(getattr(part, f.name))


def inside(
    dyn: Dynamics, state: Stepped, theta: Array, dt: Array, key: Array, noisy: bool, mix: Mix
) -> tuple[Stepped, Tokens]:
    """The state and the tokens at the fraction ``theta`` of the last step."""
    t = (state.k - 1) * dt
    if noisy:
        left = 1.0 - state.at
        along = (theta - state.at) / left
        spread = dyn.noise * jnp.sqrt(dt * (theta - state.at) * (1.0 - theta) / left)
        place = jax.random.fold_in(jax.random.fold_in(key, state.k - 1), 1 + (theta * 2**30).astype(jnp.uint32))
        kick = dyn.noise_kind.draw(place, state.now.shape, state.now.dtype)
        across = dyn.geometry.tangent(dyn.weights, t, state.before, kick)
        x = dyn.geometry.retract(state.before + along * (state.now - state.before) + spread * across)
        return Stepped(x, state.now, state.k, theta), x
    ends, times = jnp.stack([state.before, state.now]), jnp.stack([t, _inside_step(dyn, t, dt)(t + dt)])
    slopes = jax.lax.map(lambda end: field(dyn, end[0], end[1], mix), (times, ends))
    return state, dyn.geometry.retract(hermite(theta, dt, ends[0], slopes[0], ends[1], slopes[1]))


def hermite(theta: Array, h: Array, x0: Array, v0: Array, x1: Array, v1: Array) -> Array:
    """The cubic through x0, x1 with slopes v0, v1, at the fraction theta of a step h."""
    s = theta - 1.0
    bump = theta * s * ((1.0 - 2.0 * theta) * (x1 - x0) + s * h * v0 + theta * h * v1)
    return (1.0 - theta) * x0 + theta * x1 + bump


# --- adaptive steps ---------------------------------------------------------------------------------------------


class Reached(NamedTuple):
    """Where an adaptive segment ended: its tokens, its time, whether steps ran out, and the tokens at the stops."""

    x: Tokens
    t: Array
    exhausted: Array
    saved: Tokens


@partial(jax.jit, static_argnames=("method", "mix"))
def advance_adaptive(
    dyn: Dynamics,
    x: Tokens,
    t0: Array,
    t1: Array,
    times: Array,
    rtol: Array,
    atol: Array,
    method: Method,
    mix: Mix = dense_mix,
) -> Reached:
    """From t0 to t1, with the dense output read at ``times``; stops beyond the time reached are inf."""
    retract = dyn.geometry.retract
    end = solve(lambda t, y: field(dyn, t, y, mix), x, t0, t1, times, rtol, atol, method)
    return Reached(retract(end.x), end.t, end.exhausted, retract(end.saved))


def solve(
    f: Callable[[Array, Any], Any],
    y: Array,
    t0: Array,
    t1: Array,
    times: Array,
    rtol: Array | float,
    atol: Array | float,
    method: Method,
) -> Reached:
    """y' = f(t, y) by a diffrax solver; y that is not finite stays at t0, where it would take all the steps."""
    import diffrax  # two seconds, which fixed steps need not wait for

    assert isinstance(method, Adaptive)
    sound = jnp.isfinite(y).all()
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, _: f(t, y)),
        method.solver(),
        t0,
        t1,
        None,
        jnp.where(sound, y, 0.0),
        saveat=diffrax.SaveAt(subs=[diffrax.SubSaveAt(ts=times), diffrax.SubSaveAt(t1=True)]),
        stepsize_controller=diffrax.PIDController(rtol=rtol, atol=atol, dtmin=1e-13 * jnp.maximum(1.0, jnp.abs(t1))),
        max_steps=MOST_STEPS,
        throw=False,
    )
    ok = sound & (solution.result == diffrax.RESULTS.successful)
    exhausted = sound & (solution.result == diffrax.RESULTS.max_steps_reached)
    there = sound & jnp.isfinite(solution.ts[1][0])
    reached = jnp.where(ok, t1, jnp.where(there, solution.ts[1][0], t0))
    x, saved = (jnp.where(sound, ys, jnp.nan) for ys in (solution.ys[1][0], solution.ys[0]))
    return Reached(x, reached, exhausted, saved)
