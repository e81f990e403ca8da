"""How strongly token i looks at token j, before normalisation.

A score is a function ``(q, k, beta) -> (..., h, m, n)`` of queries (..., h, m, k) and keys (..., h, n, k), with
its *pull*: ``"value"`` moves a token by V x_j (the papers), ``"difference"`` by V (x_j - x_i) (opinion dynamics and
mean-shift). Add a score: one object and one line in SCORES.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from metastable.backend import Array, Scores, jnp, structure
from metastable.equation.part_fields import check_functions, check_name, is_function
from metastable.errors import InputError, door, unknown


@door
@structure
@dataclass(frozen=True)
class Score:
    """A score function and what it pulls a token by.

    Parameters
    ----------
    score : function (q, k, beta) -> (..., h, m, n)
        Written with ``jax.numpy``.
    pull : {"value", "difference"}
    is_dot : bool
        Whether it is beta <q, k>: expansions, kernels and the rescaled flow rely on it.
    """

    score: Callable[[Any, Any, Any], Any]
    pull: str = "value"
    name: str = "custom"
    is_dot: bool = False
    about: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        check_name(self)
        check_functions(self, ("score",))
        if self.pull not in ("value", "difference"):
            raise unknown("pull of a score", self.pull, ["value", "difference"])

    def __repr__(self) -> str:
        return self.name

    def holds_what_it_declares(self) -> bool:
        """Try on a few random queries and keys whether it is the dot product that it declares to be."""
        return self is DOT or _holds(self)

    def __call__(self, q: Array, k: Array, beta: Array) -> Scores:
        out: Scores = self.score(q, k, beta)
        return out


@lru_cache(maxsize=64)
def _holds(part: Score) -> bool:
    if not part.is_dot:
        return True
    q, k = np.random.default_rng(0).normal(size=(2, 1, 4, 3))
    found = np.asarray(part.score(jnp.asarray(q), jnp.asarray(k), jnp.asarray(1.5)))
    return found.shape == (1, 4, 4) and bool(np.allclose(found, 1.5 * q @ np.swapaxes(k, -1, -2), rtol=1e-12))


def dot(q: Array, k: Array, beta: Array) -> Scores:
    """beta <Q x_i, K x_j>: the papers' score."""
    return jnp.einsum("...mk,...nk->...mn", q * beta, k)


def squared_distance(q: Array, k: Array) -> Scores:
    """|q_i - k_j|^2 without cancellation for close points, (..., h, m, n)."""
    gap = q[..., :, None, :] - k[..., None, :, :]  # (..., h, m, n, k)
    return (gap**2).sum(axis=-1)


def gaussian(q: Array, k: Array, beta: Array) -> Scores:
    """-beta |Q x_i - K x_j|^2: mean-shift with a Gaussian kernel of variance 1/(2 beta)."""
    return -beta * squared_distance(q, k)


def bounded(q: Array, k: Array, beta: Array) -> Scores:
    """0 within distance 1/sqrt(beta) and -inf beyond: Hegselmann-Krause bounded confidence."""
    return jnp.where(beta * squared_distance(q, k) <= 1.0, 0.0, -jnp.inf)


@door
def distance(phi: Callable[[Array], Array]) -> Score:
    """Krause's model with weights phi(beta |x_i - x_j|^2), for example ``distance(lambda r: jnp.exp(-r))``."""
    return Score(lambda q, k, beta: jnp.log(phi(beta * squared_distance(q, k))), pull="difference")


@dataclass(frozen=True)
class _Capped:
    """Compared by its number, so that two equal scores share compiled code."""

    cap: float

    def __call__(self, q: Array, k: Array, beta: Array) -> Scores:
        return self.cap * jnp.tanh(dot(q, k, beta) / self.cap)


@door
def capped(cap: float | str) -> Score:
    """c tanh(beta <Q x_i, K x_j> / c): scores that stay within -c and c (Gemma 2).

    >>> capped(50)
    capped(50)
    """
    try:
        number = float(cap)
    except (TypeError, ValueError) as error:
        raise InputError(f"A cap of scores must be a number > 0, not {cap!r}.") from error
    if not 0.0 < number < np.inf:
        raise InputError(f"A cap of scores must be a finite number > 0, not {cap!r}.")
    return Score(_Capped(number), name=f"capped({np.format_float_positional(number, trim='-')})")


DOT = Score(dot, name="dot", is_dot=True, about="beta <Q x_i, K x_j>: the papers' score.")
DISTANCE = Score(
    gaussian,
    pull="difference",
    name="distance",
    about="-beta |Q x_i - K x_j|^2: mean-shift with a Gaussian kernel of variance 1/(2 beta).",
)
BOUNDED = Score(
    bounded,
    pull="difference",
    name="bounded",
    about="0 within distance 1/sqrt(beta) and -inf beyond: Hegselmann-Krause bounded confidence.",
)

SCORES: dict[str, Score] = {score.name: score for score in (DOT, DISTANCE, BOUNDED)}
_CAPPED = re.compile(r"capped\(\s*([-+.\deE]+)\s*\)")


def resolve(score: str | Score | Callable[[Any, Any, Any], Any]) -> Score:
    """The score behind a name ("dot", "capped(50)"); a plain function counts as one that pulls by values."""
    if isinstance(score, Score):
        return score
    if isinstance(score, str) and score in SCORES:
        return SCORES[score]
    found = _CAPPED.fullmatch(score) if isinstance(score, str) else None
    if found:
        return capped(found[1])
    if is_function(score):
        return Score(score, name=getattr(score, "__name__", "custom"))
    raise unknown("score", score, [*SCORES, "capped(50)"])
