"""Where tokens live: a geometry is three small functions, and what others may rely on.

``lift(weights, t, x)``        what queries and keys are computed from
``tangent(weights, t, x, u)``  the velocity that the pull u causes at x
``retract(x)``                 back onto the space after a step

| geometry    | state                     | lift     | tangent            | source                        |
|-------------|---------------------------|----------|--------------------|-------------------------------|
| euclidean   | x in R^d                  | x        | u                  | eq. (1) of the second paper   |
| rescaled    | z = e^{-tV} x             | e^{tV} z | u - V z            | eq. (4) of the second paper   |
| sphere      | x on S^{d-1}              | x        | u - <x,u>/|x|^2 x  | sec. 2.4 of the first paper   |

Rescaled runs are held in a chart (`metastable.engines.chart.state`); the plain formula here, which `flow` uses, is
right for short times. Add a geometry: one object and one line in GEOMETRIES.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from metastable.backend import Array, Tokens, jax, jnp, structure
from metastable.equation.part_fields import check_functions, check_name, check_numbers, check_switches
from metastable.equation.weights import Weights
from metastable.errors import InputError, door, unknown


def _stay(weights: Weights, t: Array, x: Tokens) -> Tokens:
    return x


def _free(weights: Weights, t: Array, x: Tokens, u: Tokens) -> Tokens:
    return u


def _as_is(x: Tokens) -> Tokens:
    return x


@door
@structure
@dataclass(frozen=True)
class Geometry:
    """A space of tokens.

    Parameters
    ----------
    tangent : function (weights, t, x, u) -> velocity
    retract : function x -> x
    lift : function (weights, t, x) -> y
    fixed_norm : bool
        Tokens are unit vectors: they are projected at the start, compared by angle, and steps commute with scaling.
    rescales : bool
        The state is z = e^{-tV} x, so that chart engines hold it.
    codimension : int
        The coordinates of a token minus the dimension of its space.
    """

    tangent: Callable[[Any, Any, Any, Any], Any] = _free
    retract: Callable[[Any], Any] = _as_is
    lift: Callable[[Any, Any, Any], Any] = _stay
    name: str = "custom"
    fixed_norm: bool = False
    rescales: bool = False
    codimension: int = 0
    about: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        check_functions(self, ("tangent", "retract", "lift"))
        check_switches(self, ("fixed_norm", "rescales"))
        check_numbers(self, ("codimension",), least=0.0)
        check_name(self)

    def __repr__(self) -> str:
        return self.name

    def dimension(self, d: int) -> int:
        """The dimension of the space of one token with d coordinates."""
        return d - self.codimension

    def holds_what_it_declares(self, d: int) -> bool:
        """Try the declarations on a few random tokens; the package's own parts are tried by its tests."""
        return any(self is part for part in (EUCLIDEAN, RESCALED, SPHERE)) or _holds(self, d)


@lru_cache(maxsize=64)
def _holds(space: Geometry, d: int) -> bool:
    rng = np.random.default_rng(0)
    x, u = jnp.asarray(rng.normal(size=(2, 4, d)))
    if space.fixed_norm and not np.allclose((space.retract(x) ** 2).sum(axis=-1), 1.0, rtol=1e-9):
        return False
    if not space.rescales:
        return True
    weights = Weights(V=rng.normal(size=(d, d)) / d)  # the chart computes eq. (4) itself, whatever is written here
    mine, known = (
        (part.lift(weights, 0.3, x), part.tangent(weights, 0.3, x, u), part.retract(x)) for part in (space, RESCALED)
    )
    return all(np.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in zip(mine, known))


def unit(x: Tokens) -> Tokens:
    """x / |x| per token; a token at 0, which has no direction, stays there."""
    squared = (x**2).sum(axis=-1, keepdims=True)
    return x / jnp.sqrt(jnp.where(squared > 0, squared, 1.0))


def project(weights: Weights, t: Array, x: Tokens, u: Tokens) -> Tokens:
    """P_x(u) = u - <x,u>/|x|^2 x."""
    squared = (x**2).sum(axis=-1, keepdims=True)
    along = (x * u).sum(axis=-1, keepdims=True) / jnp.where(squared > 0, squared, 1.0)
    return u - along * x


def _value_matrix(weights: Weights, d: int) -> Array:
    V = jnp.eye(d) if weights.V is None else jnp.asarray(weights.V)[0]
    return V if weights.O is None else jnp.asarray(weights.O)[0] @ V


def _unscale(weights: Weights, t: Array, z: Tokens) -> Tokens:
    grown: Array = jax.scipy.linalg.expm(t * _value_matrix(weights, z.shape[-1]))
    return z @ grown.T.astype(z.dtype)


def _rescaled_tangent(weights: Weights, t: Array, z: Tokens, u: Tokens) -> Tokens:
    return u - z @ _value_matrix(weights, z.shape[-1]).T.astype(z.dtype)


EUCLIDEAN = Geometry(name="euclidean", about="x in R^d: eq. (1) of the second paper.")
RESCALED = Geometry(
    _rescaled_tangent, lift=_unscale, name="rescaled", rescales=True, about="z = e^{-tV} x in R^d: eq. (4)."
)
SPHERE = Geometry(project, unit, name="sphere", fixed_norm=True, codimension=1, about="x on the unit sphere.")

GEOMETRIES: dict[str, Geometry] = {space.name: space for space in (SPHERE, EUCLIDEAN, RESCALED)}


def resolve(geometry: str | Geometry) -> Geometry:
    """The geometry behind a name, or the one given."""
    if isinstance(geometry, Geometry):
        return geometry
    if not isinstance(geometry, str):
        raise InputError(
            f"geometry must be a name ({', '.join(GEOMETRIES)}) or a Geometry object, not {type(geometry).__name__}."
        )
    if geometry not in GEOMETRIES:
        raise unknown("geometry", geometry, GEOMETRIES)
    return GEOMETRIES[geometry]
