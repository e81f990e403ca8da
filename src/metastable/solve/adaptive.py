"""Adaptive steps: diffrax solvers behind plain names."""

from functools import partial
from typing import Any

import diffrax

from metastable.backend import jax, jnp
from metastable.equation import geometry as geometries
from metastable.equation.dynamics import Dynamics
from metastable.solve.steps import field

Array = Any

SOLVERS: dict[str, Any] = {
    "tsit5": diffrax.Tsit5,
    "dopri8": diffrax.Dopri8,
}


@partial(jax.jit, static_argnames=("method", "most"))
def advance(
    dyn: Dynamics,
    x: Array,
    t0: Array,
    t1: Array,
    times: Array,
    rtol: Array,
    atol: Array,
    method: str,
    most: int,
) -> tuple[Array, Array, Array, Array]:
    """From t0 to t1, with the dense output read at ``times``.

    Returns the state reached, the time reached (short of t1 when the run could not go on), the saved states and the
    number of steps. States asked for beyond the time reached are inf.
    """
    retract = geometries.resolve(dyn.geometry).retract
    end, saved, steps = solve(lambda t, y: field(dyn, t, y), x, t0, t1, times, rtol, atol, method, most)
    return retract(end[1]), end[0], retract(saved), steps


def solve(
    f: Any, y: Array, t0: Array, t1: Array, times: Array, rtol: Array, atol: Array, method: str, most: int
) -> tuple[tuple[Array, Array], Array, Array]:
    """((time, state) reached, dense output at ``times``, steps) of y' = f(t, y)."""
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, _: f(t, y)),
        SOLVERS[method](),
        t0,
        t1,
        None,
        y,
        saveat=diffrax.SaveAt(subs=[diffrax.SubSaveAt(ts=times), diffrax.SubSaveAt(t1=True)]),
        stepsize_controller=diffrax.PIDController(rtol=rtol, atol=atol, dtmin=1e-13 * jnp.maximum(1.0, jnp.abs(t1))),
        max_steps=most,
        throw=False,
    )
    ok = solution.result == diffrax.RESULTS.successful
    reached = jnp.where(ok, t1, jnp.where(jnp.isfinite(solution.ts[1][0]), solution.ts[1][0], t0))
    return (reached, solution.ys[1][0]), solution.ys[0], solution.stats["num_steps"]
