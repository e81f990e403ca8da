"""Whose noise: what is drawn in a step of an Euler-Maruyama run, sigma sqrt(h) P_x(xi).

| noise       | xi                                    | what it does                                              |
|-------------|---------------------------------------|-----------------------------------------------------------|
| independent | one vector for every token            | dissolves clusters beyond a threshold                     |
| common      | one vector for all tokens             | brings tokens together: distances shrink like             |
|             |                                       | e^{-(d-1) sigma^2 t/2} on the sphere, attention or not    |

A token by itself cannot tell them apart. Add one: one object and one line in NOISES.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from metastable.backend import Array, jax, jnp, structure
from metastable.equation.part_fields import check_functions, check_name, is_function
from metastable.errors import InputError, door, unknown

Draw = Callable[[Any, tuple[int, ...], Any], Any]


@door
@structure
@dataclass(frozen=True)
class Noise:
    """How the random vectors of a step are drawn.

    Parameters
    ----------
    draw : function (key, shape, dtype) -> array
        Standard normal vectors for tokens of that shape (..., n, d), from a key of ``jax.random``.
    independent : bool
        Every token has its own, independent of all others: infinitely many tokens then have a density that no chance
        moves.
    """

    draw: Draw
    name: str = "custom"
    independent: bool = False
    about: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        check_functions(self, ("draw",))
        check_name(self)

    def __repr__(self) -> str:
        return self.name


def _own(key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    return jax.random.normal(key, shape, dtype)


def _shared(key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    return jnp.broadcast_to(jax.random.normal(key, (*shape[:-2], 1, shape[-1]), dtype), shape)


INDEPENDENT = Noise(_own, "independent", independent=True, about="Every token has noise of its own.")
COMMON = Noise(_shared, "common", about="One noise moves all tokens.")

NOISES: dict[str, Noise] = {noise.name: noise for noise in (INDEPENDENT, COMMON)}


def resolve(noise: str | Noise | Draw) -> Noise:
    """The noise behind a name; a plain function draws noise of one's own."""
    if isinstance(noise, Noise):
        return noise
    if isinstance(noise, str):
        if noise not in NOISES:
            raise unknown("kind of noise", noise, NOISES)
        return NOISES[noise]
    if is_function(noise):
        return Noise(noise, getattr(noise, "__name__", "custom"))
    raise InputError(f"noise_kind must be a name ({', '.join(NOISES)}) or a Noise, not {type(noise).__name__}.")
