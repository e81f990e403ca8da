"""Where tokens live: a geometry is three small functions, and what others may rely on.

``lift(weights, t, x)``        what queries and keys are computed from
``tangent(weights, t, x, u)``  the velocity that the pull u causes at x
``retract(x)``                 back onto the space after a step

| geometry    | state                     | lift     | tangent            | source                        |
|-------------|---------------------------|----------|--------------------|-------------------------------|
| euclidean   | x in R^d                  | x        | u                  | eq. (1) of the second paper   |
| rescaled    | z = e^{-tV} x             | e^{tV} z | u - V z            | eq. (4) of the second paper   |
| sphere      | x on S^{d-1}              | x        | u - <x,u>/|x|^2 x  | sec. 2.4 of the first paper   |

Normalisation schemes are geometries too. Attention sees the directions theta = x/|x| (``seen``), its sum a is turned
into what the stream gains (``gained``), and the norm r = |x| grows or is held:

| geometry          | scheme       | theta'                                  | r'               |
|-------------------|--------------|-----------------------------------------|------------------|
| sphere (post-ln)  | Post-LN      | P a                                     | 0                |
| pre-ln            | Pre-LN       | P a / r                                 | <theta, a>       |
| peri-ln           | Peri-LN      | P a / (r |a|)                           | <theta, a>/|a|   |
| ngpt              | nGPT         | P a / |a|                               | 0                |
| depth-scaled      | LayerNorm    | P a / (r sqrt(1+t))                     | <theta, a>/sqrt(1+t) |
|                   | scaling      |                                         |                  |
| mix-ln(T)         | Mix-LN       | Post-LN until t = T, Pre-LN after it    |                  |

Rescaled runs are held in a chart (`metastable.engines.chart.state`); the plain formula here, which `flow` uses, is
right for short times. Add a geometry: one object and one line in GEOMETRIES.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
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
    seen : function (t, x) -> x, optional
        What attention is made of: queries, keys and values. Norms before attention; tokens are compared by angle then.
    gained : function (t, a) -> u, optional
        The pull that attention's sum a causes: norms and factors after attention.
    layered : function (t, x) -> x, optional
        What ends a discrete layer, where it is not ``retract``.
    by_time : bool
        Whether any of these depends on t.
    unit_start : bool
        Tokens are projected onto the sphere at the start, though they may leave it.
    """

    tangent: Callable[[Any, Any, Any, Any], Any] = _free
    retract: Callable[[Any], Any] = _as_is
    lift: Callable[[Any, Any, Any], Any] = _stay
    name: str = "custom"
    fixed_norm: bool = False
    rescales: bool = False
    codimension: int = 0
    seen: Callable[[Any, Any], Any] | None = None
    gained: Callable[[Any, Any], Any] | None = None
    layered: Callable[[Any, Any], Any] | None = None
    by_time: bool = False
    unit_start: bool = False
    about: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        check_functions(self, ("tangent", "retract", "lift", "seen", "gained", "layered"))
        check_switches(self, ("fixed_norm", "rescales", "by_time", "unit_start"))
        check_numbers(self, ("codimension",), least=0.0)
        check_name(self)

    def __repr__(self) -> str:
        return self.name

    @property
    def angular(self) -> bool:
        """Whether tokens are compared by angle: they are unit vectors, or attention sees their directions only."""
        return self.fixed_norm or self.seen is not None

    def input(self, t: Array | float, x: Tokens) -> Tokens:
        """What attention is made of at time t."""
        return x if self.seen is None else self.seen(t, x)

    def dimension(self, d: int) -> int:
        """The dimension of the space of one token with d coordinates."""
        return d - self.codimension

    def holds_what_it_declares(self, d: int) -> bool:
        """Try the declarations on a few random tokens; the package's own parts are tried by its tests."""
        return any(self is part for part in _OWN) or _holds(self, d)


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
SPHERE = Geometry(project, unit, name="sphere", fixed_norm=True, codimension=1, about="x on the unit sphere: Post-LN.")

# --- normalisation schemes ------------------------------------------------------------------------------------------


def _direction(t: Array, x: Tokens) -> Tokens:
    return unit(x)


def _over_depth(t: Array, a: Tokens) -> Tokens:
    return a / jnp.sqrt(1.0 + t)


def _before(t: Array, until: float) -> Array:
    """t < until, where a step of the grid that meets ``until`` up to rounding counts as not before it."""
    return jnp.asarray(t) < until * (1.0 - 4e-15)


@dataclass(frozen=True)
class _Until:
    """Post-LN until t = ``until``: the pull is projected, and carried to tokens of norm r by that factor."""

    until: float

    def __call__(self, weights: Weights, t: Array, x: Tokens, u: Tokens) -> Tokens:
        size = jnp.sqrt((x**2).sum(axis=-1, keepdims=True))
        return jnp.where(_before(t, self.until), size * project(weights, t, x, u), u)


@dataclass(frozen=True)
class _UnitUntil:
    """The layers of the same: a layer that begins before ``until`` ends with a norm."""

    until: float

    def __call__(self, t: Array, x: Tokens) -> Tokens:
        return jnp.where(_before(t, self.until), unit(x), x)


def mix_ln(until: float | str) -> Geometry:
    """Mix-LN: Post-LN until t = ``until``, Pre-LN after it.

    >>> mix_ln(2)
    mix-ln(2)
    """
    try:
        number = float(until)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"Mix-LN needs the time of its change, a number >= 0, not {until!r}.") from error
    if not 0.0 <= number < np.inf:
        raise InputError(f"Mix-LN needs the time of its change, a finite number >= 0, not {until!r}.")
    name = f"mix-ln({np.format_float_positional(number, trim='-')})"
    return Geometry(
        _Until(number), seen=_direction, layered=_UnitUntil(number), name=name, by_time=True, unit_start=True
    )


PRE_LN = Geometry(seen=_direction, name="pre-ln", about="Pre-LN: x' = a of the directions x/|x|; norms grow.")
PERI_LN = Geometry(
    seen=_direction, gained=_direction, name="peri-ln", about="Peri-LN: x' = a/|a|, norms before and after attention."
)
NGPT = Geometry(
    project, unit, gained=_direction, name="ngpt", fixed_norm=True, codimension=1,
    about="nGPT: on the unit sphere, with attention's output normalised.",
)  # fmt: skip
DEPTH_SCALED = Geometry(
    seen=_direction, gained=_over_depth, name="depth-scaled", by_time=True,
    about="LayerNorm scaling: Pre-LN with x' = a/sqrt(1+t).",
)  # fmt: skip
_SWITCH = 4.0
MIX_LN = replace(
    mix_ln(_SWITCH), name="mix-ln", about=f"Mix-LN: Post-LN until t = {_SWITCH:g}, or mix-ln(T), then Pre-LN."
)

_OWN = (SPHERE, EUCLIDEAN, RESCALED, PRE_LN, PERI_LN, MIX_LN, NGPT, DEPTH_SCALED)
GEOMETRIES: dict[str, Geometry] = {space.name: space for space in _OWN}
_ALSO = {"post-ln": SPHERE}
_MIX = re.compile(r"mix-ln\(\s*([-+.\deE]+)\s*\)")


def resolve(geometry: str | Geometry) -> Geometry:
    """The geometry behind a name, or the one given."""
    if isinstance(geometry, Geometry):
        return geometry
    if not isinstance(geometry, str):
        raise InputError(
            f"geometry must be a name ({', '.join(GEOMETRIES)}) or a Geometry object, not {type(geometry).__name__}."
        )
    found = _MIX.fullmatch(geometry)
    if found:
        return mix_ln(found[1])
    known = GEOMETRIES | _ALSO
    if geometry not in known:
        raise unknown("geometry", geometry, [*known, "mix-ln(2)"])
    return known[geometry]
