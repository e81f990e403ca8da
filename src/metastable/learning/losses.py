"""LOSSES: how far tokens are from where they should be, as one number. Add one: a function and a line in the table."""

from collections.abc import Callable
from typing import Any

from metastable.backend import Array, Tokens, jnp
from metastable.errors import InputError, unknown

Loss = Callable[[Tokens, Tokens], Any]  # tokens and targets (T, ..., n, d) -> a number

_TINY = 1e-24  # under square roots, whose slope at 0 is infinite


def squared(x: Tokens, y: Tokens) -> Array:
    """The mean of |x_i - y_i|^2 over tokens, runs and times; on the sphere 2 - 2 <x_i, y_i>."""
    return jnp.square(x - y).sum(axis=-1).mean()


def cosine(x: Tokens, y: Tokens) -> Array:
    """The mean of 1 - cos(x_i, y_i): directions alone count."""
    lengths = jnp.square(x).sum(axis=-1) * jnp.square(y).sum(axis=-1)
    return (1.0 - (x * y).sum(axis=-1) / jnp.sqrt(lengths + _TINY)).mean()


def cloud(x: Tokens, y: Tokens) -> Array:
    """The energy distance 2 E|x_i - y_j| - E|x_i - x_j| - E|y_i - y_j| of two clouds: which token is where is free.

    It is zero for equal clouds only, and the clouds may have different numbers of tokens.
    """
    return (2.0 * _mean_distance(x, y) - _own_distance(x) - _own_distance(y)).mean()


def _mean_distance(x: Tokens, y: Tokens) -> Array:
    apart = x[..., :, None, :] - y[..., None, :, :]  # (..., n, m, d)
    return jnp.sqrt(jnp.square(apart).sum(axis=-1) + _TINY).mean(axis=(-2, -1))


def _own_distance(x: Tokens) -> Array:
    """Of tokens to each other. A token's distance from itself is left out of the slope: compiled code may round its two
    places differently, and their difference, however small, has a slope of 1."""
    itself = jnp.eye(x.shape[-2], dtype=bool)
    square = jnp.square(x[..., :, None, :] - x[..., None, :, :]).sum(axis=-1)
    apart = jnp.sqrt(jnp.where(itself, 1.0, square) + _TINY)
    return jnp.where(itself, 0.0, apart).mean(axis=(-2, -1))


LOSSES: dict[str, Loss] = {"squared": squared, "cosine": cosine, "cloud": cloud}
UNPAIRED: tuple[Loss, ...] = (cloud,)  # targets may have another number of tokens


def loss_of(given: Any) -> Loss:
    """The loss behind a name, or a function of one's own."""
    if isinstance(given, str):
        if given not in LOSSES:
            raise unknown("loss", given, LOSSES)
        return LOSSES[given]
    if not callable(given):
        raise InputError(f"loss must be a name or a function of tokens and targets, not {type(given).__name__}.")
    chosen: Loss = given
    return chosen
