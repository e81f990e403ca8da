"""Where tokens live: a geometry is three small functions.

``lift(weights, t, x)``        what queries and keys are computed from
``tangent(weights, t, x, u)``  the velocity that the pull u causes at x
``retract(x)``                 back onto the space after a step

| geometry    | state                     | lift     | tangent            | source                        |
|-------------|---------------------------|----------|--------------------|-------------------------------|
| euclidean   | x in R^d                  | x        | u                  | eq. (1) of the second paper   |
| rescaled    | z = e^{-tV} x             | e^{tV} z | u - V z            | eq. (4) of the second paper   |
| sphere      | x on S^{d-1}              | x        | u - <x,u>/|x|^2 x  | sec. 2.4 of the first paper   |

Long rescaled runs go through the chart in `metastable.engines.chart.state`; the plain formula here is right for short times.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from metastable.backend import jax, jnp
from metastable.equation.weights import Weights
from metastable.errors import unknown

Array = Any


class Geometry(NamedTuple):
    """The three functions of a space of tokens."""

    lift: Callable[[Weights, Array, Array], Array]
    tangent: Callable[[Weights, Array, Array, Array], Array]
    retract: Callable[[Array], Array]


def _stay(weights: Weights, t: Array, x: Array) -> Array:
    return x


def _free(weights: Weights, t: Array, x: Array, u: Array) -> Array:
    return u


def _as_is(x: Array) -> Array:
    return x


def unit(x: Array) -> Array:
    """x / |x| per token; a token at 0, which has no direction, stays there."""
    squared = (x**2).sum(axis=-1, keepdims=True)
    return x / jnp.sqrt(jnp.where(squared > 0, squared, 1.0))


def project(weights: Weights, t: Array, x: Array, u: Array) -> Array:
    """P_x(u) = u - <x,u>/|x|^2 x."""
    squared = (x**2).sum(axis=-1, keepdims=True)
    along = (x * u).sum(axis=-1, keepdims=True) / jnp.where(squared > 0, squared, 1.0)
    return u - along * x


def _value_matrix(weights: Weights, d: int) -> Array:
    V = jnp.eye(d) if weights.V is None else jnp.asarray(weights.V)[0]
    return V if weights.O is None else jnp.asarray(weights.O)[0] @ V


def _unscale(weights: Weights, t: Array, z: Array) -> Array:
    return z @ jax.scipy.linalg.expm(t * _value_matrix(weights, z.shape[-1])).T.astype(z.dtype)


def _rescaled_tangent(weights: Weights, t: Array, z: Array, u: Array) -> Array:
    return u - z @ _value_matrix(weights, z.shape[-1]).T.astype(z.dtype)


GEOMETRIES: dict[str, Geometry] = {
    "euclidean": Geometry(_stay, _free, _as_is),
    "rescaled": Geometry(_unscale, _rescaled_tangent, _as_is),
    "sphere": Geometry(_stay, project, unit),
}


def resolve(geometry: str | Geometry) -> Geometry:
    """The geometry behind a name, or the one given."""
    if isinstance(geometry, Geometry):
        return geometry
    if geometry not in GEOMETRIES:
        raise unknown("geometry", geometry, GEOMETRIES)
    return GEOMETRIES[geometry]
