"""How strongly token i looks at token j, before normalisation.

A score is a function ``(q, k, beta) -> (..., h, m, n)`` of queries (..., h, m, k) and keys (..., h, n, k), with
its *pull*: ``"value"`` moves a token by V x_j (the papers), ``"difference"`` by V (x_j - x_i) (opinion dynamics and
mean-shift). Positions enter as a bias added to the scores or as a rotation of queries and keys.
Add a score: one function and one line in SCORES.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from metastable.backend import jnp, register
from metastable.errors import InputError, unknown

Array = Any


@dataclass(frozen=True)
class Score:
    """A score function and what it pulls a token by."""

    function: Callable[[Array, Array, Array], Array]
    pull: str = "value"

    def __call__(self, q: Array, k: Array, beta: Array) -> Array:
        return self.function(q, k, beta)


def dot(q: Array, k: Array, beta: Array) -> Array:
    """beta <Q x_i, K x_j>: the papers' score."""
    return jnp.einsum("...mk,...nk->...mn", q * beta, k)


def squared_distance(q: Array, k: Array) -> Array:
    """|q_i - k_j|^2 without cancellation for close points, (..., h, m, n)."""
    gap = q[..., :, None, :] - k[..., None, :, :]  # (..., h, m, n, k)
    return (gap**2).sum(axis=-1)


def gaussian(q: Array, k: Array, beta: Array) -> Array:
    """-beta |Q x_i - K x_j|^2: mean-shift with a Gaussian kernel of variance 1/(2 beta)."""
    return -beta * squared_distance(q, k)


def bounded(q: Array, k: Array, beta: Array) -> Array:
    """0 within distance 1/sqrt(beta) and -inf beyond: Hegselmann-Krause bounded confidence."""
    return jnp.where(beta * squared_distance(q, k) <= 1.0, 0.0, -jnp.inf)


def distance(phi: Callable[[Array], Array]) -> Score:
    """Krause's model with weights phi(beta |x_i - x_j|^2), for example ``distance(lambda r: jnp.exp(-r))``."""
    return Score(lambda q, k, beta: jnp.log(phi(beta * squared_distance(q, k))), pull="difference")


SCORES: dict[str, Score] = {
    "dot": Score(dot),
    "distance": Score(gaussian, pull="difference"),
    "bounded": Score(bounded, pull="difference"),
}


def resolve(score: str | Score | Callable[[Array, Array, Array], Array]) -> Score:
    """The score behind a name; a plain function counts as one that pulls by values."""
    if isinstance(score, Score):
        return score
    if callable(score):
        return Score(score)
    if score not in SCORES:
        raise unknown("score", score, SCORES)
    return SCORES[score]


# --- positions -------------------------------------------------------------------------------------------------


@register
@dataclass(frozen=True)
class Bias:
    """An additive score bias: ``table`` (h, n, n) or (n, n) by absolute positions i, j."""

    table: Array

    def __post_init__(self) -> None:
        table = np.asarray(self.table, dtype=float)
        if table.ndim not in (2, 3) or table.shape[-1] != table.shape[-2]:
            raise InputError(f"A position bias has shape (heads, n, n) or (n, n), not {table.shape}.")
        if not np.isfinite(table).all():
            raise InputError("A position bias must be finite; use a mask to hide tokens.")
        object.__setattr__(self, "table", table[None] if table.ndim == 2 else table)

    def rotate(self, q: Array, rows: Array) -> Array:
        return q

    def bias(self, rows: Array, columns: Array) -> Array:
        return self.table[:, rows[:, None], columns[None, :]]  # (h, m, n)


@register
@dataclass(frozen=True)
class Relative:
    """A bias that depends on j - i only: ``table`` (h, 2n - 1), entry n - 1 + (j - i) (T5; ALiBi)."""

    table: Array

    def rotate(self, q: Array, rows: Array) -> Array:
        return q

    def bias(self, rows: Array, columns: Array) -> Array:
        middle = (self.table.shape[-1] - 1) // 2
        return jnp.asarray(self.table)[:, middle + columns[None, :] - rows[:, None]]  # (h, m, n)


def alibi(n: int, heads: int = 1) -> Relative:
    """ALiBi: -slope |i - j| with slopes 2^{-8 (h+1) / heads}.

    >>> alibi(3).table.tolist()
    [[-0.0078125, -0.00390625, -0.0, -0.00390625, -0.0078125]]
    """
    slopes = 2.0 ** (-8.0 * np.arange(1, heads + 1) / heads)
    return Relative(-slopes[:, None] * np.abs(np.arange(1 - n, n)))


@register
@dataclass(frozen=True)
class Rotary:
    """Rotary positions (Llama): queries and keys turned by position times ``frequencies``, halves paired.

    Coordinate c is paired with c + k/2, as Llama's weights expect.
    """

    frequencies: Array

    def rotate(self, q: Array, rows: Array) -> Array:
        half = q.shape[-1] // 2
        angle = rows[:, None] * jnp.asarray(self.frequencies)[None, :]  # (m, k/2)
        cos, sin = jnp.cos(angle), jnp.sin(angle)
        a, b = q[..., :half], q[..., half:]
        return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    def bias(self, rows: Array, columns: Array) -> Array | None:
        return None


def rotary(width: int, base: float = 10000.0) -> Rotary:
    """Rotary positions for heads of ``width`` coordinates, frequencies base^{-2c/width}."""
    if width % 2:
        raise InputError(f"Rotary positions need an even head width, not {width}.")
    return Rotary(np.exp(-math.log(base) * np.arange(0, width, 2) / width))


Position = Bias | Relative | Rotary
