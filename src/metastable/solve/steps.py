"""Fixed steps: euler, rk4, layers. A step is a function ``(dynamics, t, x, h, key) -> x`` of order one or four.

The state moves on the grid k * dt whatever is saved; times between grid points are read off the cubic Hermite
interpolant, which is of the fourth order too. Add a method: one function and one line in STEPS.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from metastable.backend import jax, jnp
from metastable.equation import geometry as geometries
from metastable.equation.dynamics import Dynamics

Array = Any


def field(dyn: Dynamics, t: Array, x: Array) -> Array:
    """The velocity, carried off the sphere by |x| f(x/|x|).

    Stage points of a step leave the sphere; there the field is extended so that it commutes with scaling any one
    token. A Runge-Kutta step then moves directions alike whatever the norms, so retracting after each accepted step
    changes nothing but the norms, and the order of the method is kept.
    """
    if dyn.geometry_name != "sphere":
        return dyn.velocity(t, x)
    size = jnp.sqrt((x**2).sum(axis=-1, keepdims=True))
    y = x / jnp.where(size > 0, size, 1.0)
    pull = dyn.pull(t, y)
    return size * pull - (size * (y * pull).sum(axis=-1, keepdims=True)) * y  # |y| = 1, or 0 where size is 0


def euler(dyn: Dynamics, t: Array, x: Array, h: Array, key: Array) -> Array:
    """x + h f(t, x), order 1; with noise the Euler-Maruyama step x + h f + sigma sqrt(h) P_x(xi)."""
    moved = x + h * field(dyn, t, x)
    if isinstance(dyn.noise, float) and dyn.noise == 0.0:
        return moved
    kick = jax.random.normal(key, x.shape, x.dtype)
    tangent = geometries.resolve(dyn.geometry).tangent
    return moved + dyn.noise * jnp.sqrt(h) * tangent(dyn.weights, t, x, kick)


def rk4(dyn: Dynamics, t: Array, x: Array, h: Array, key: Array) -> Array:
    """The classical Runge-Kutta step, order 4; attention is computed anew at each of its four stages."""
    k1 = field(dyn, t, x)
    k2 = field(dyn, t + h / 2, x + h / 2 * k1)
    k3 = field(dyn, t + h / 2, x + h / 2 * k2)
    k4 = field(dyn, t + h, x + h * k3)
    return x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def layers(dyn: Dynamics, t: Array, x: Array, h: Array, key: Array) -> Array:
    """One discrete layer of strength h: Remark 1 of the second paper, A.1 of the first."""
    return dyn.layer(t, x, h)


STEPS: dict[str, Callable[[Dynamics, Array, Array, Array, Array], Array]] = {
    "euler": euler,
    "rk4": rk4,
    "layers": layers,
}


class Stepped(NamedTuple):
    """Where a fixed-step run stands: the last step's two ends, and how many steps were taken."""

    before: Array
    now: Array
    k: Array


@partial(jax.jit, static_argnames=("method", "noisy", "between"))
def advance(
    dyn: Dynamics,
    state: Stepped,
    counts: Array,
    thetas: Array,
    dt: Array,
    key: Array,
    method: str,
    noisy: bool,
    between: bool = True,
) -> tuple[Stepped, Array]:
    """Before each save take ``counts`` steps, then read the state at the fraction ``thetas`` of the last one.

    Returns where the run stands and the saved states (m, ..., n, d). Without ``between`` all fractions are 1, which
    spares compiling what reads states inside a step.
    """
    retract = geometries.resolve(dyn.geometry).retract
    quiet = dyn if noisy else _without_noise(dyn)

    def step(state: Stepped) -> Stepped:
        x, k = state.now, state.k
        moved = STEPS[method](quiet, k * dt, x, dt, jax.random.fold_in(key, k) if noisy else key)
        return Stepped(x, retract(moved), k + 1)

    def inside(state: Stepped, theta: Array) -> Array:
        ends, times = jnp.stack([state.before, state.now]), jnp.stack([state.k - 1, state.k]) * dt
        slopes = jax.lax.map(lambda end: field(quiet, end[0], end[1]), (times, ends))
        return retract(hermite(theta, dt, ends[0], slopes[0], ends[1], slopes[1]))

    def save(state: Stepped, asked: tuple[Array, Array]) -> tuple[Stepped, Array]:
        count, theta = asked
        state = jax.lax.fori_loop(0, count, lambda _, s: step(s), state)
        if method == "layers" or not between:
            return state, state.now
        return state, jax.lax.cond(theta < 1, inside, lambda state, theta: state.now, state, theta)

    return jax.lax.scan(save, state, (counts, thetas))


def hermite(theta: Array, h: Array, x0: Array, v0: Array, x1: Array, v1: Array) -> Array:
    """The cubic through x0, x1 with slopes v0, v1, at the fraction theta of a step h."""
    s = theta - 1.0
    bump = theta * s * ((1.0 - 2.0 * theta) * (x1 - x0) + s * h * v0 + theta * h * v1)
    return (1.0 - theta) * x0 + theta * x1 + bump


def _without_noise(dyn: Dynamics) -> Dynamics:
    calm = object.__new__(Dynamics)
    for name, value in vars(dyn).items():
        object.__setattr__(calm, name, 0.0 if name == "noise" else value)
    return calm
