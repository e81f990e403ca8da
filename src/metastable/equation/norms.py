"""Norms of tokens, of queries and of keys, and gains: functions of the coordinates of each token alone.

Every array may be a ``Stack`` (one entry per layer) or a function of time.
"""

from dataclasses import dataclass
from typing import Any

from metastable.backend import jnp, register
from metastable.equation.part_fields import check_numbers
from metastable.equation.short_forms import part_line
from metastable.equation.weights import Stack, Timed, checked_value
from metastable.errors import InputError, door

Array = Any
Part = Any


def check_fields(part: Any, ranks: dict[str, int]) -> None:
    """Make finite arrays with so many axes, or functions of time, of the named fields of a part; None stays None."""
    for name, rank in ranks.items():
        value = getattr(part, name)
        if value is None:
            continue
        if callable(value):
            object.__setattr__(part, name, value if isinstance(value, (Stack, Timed)) else Timed(value, rank))
            continue
        array = checked_value(name, value, rank)
        if array.ndim != rank:
            raise InputError(f"{name} must have {rank} axes, but its shape is {array.shape}.")
        object.__setattr__(part, name, array)


@door
@register
@dataclass(frozen=True, repr=False)
class LayerNorm:
    """gain * (x - mean) / sqrt(variance + eps) + bias, over the coordinates of each token.

    >>> import numpy as np
    >>> np.asarray(LayerNorm()(np.array([[1.0, 3.0]]))).tolist()
    [[-1.0, 1.0]]
    """

    gain: Part = None
    bias: Part = None
    eps: float = 0.0

    __repr__ = part_line

    def __post_init__(self) -> None:
        check_fields(self, {"gain": 1, "bias": 1})
        check_numbers(self, ("eps",), least=0.0)

    def __call__(self, x: Array) -> Array:
        centred = x - jnp.mean(x, axis=-1, keepdims=True)
        scaled = _over_root(centred, jnp.mean(centred**2, axis=-1, keepdims=True) + self.eps)
        return _affine(scaled, self.gain, self.bias)


@door
@register
@dataclass(frozen=True, repr=False)
class RMSNorm:
    """gain * x / sqrt(mean square + eps); with ``unit=True`` the mean is a sum: x / |x|, the papers' sphere."""

    gain: Part = None
    bias: Part = None
    eps: float = 0.0
    unit: bool = False

    __repr__ = part_line

    def __post_init__(self) -> None:
        check_fields(self, {"gain": 1, "bias": 1})
        check_numbers(self, ("eps",), least=0.0)

    def __call__(self, x: Array) -> Array:
        square = jnp.sum(x**2, axis=-1, keepdims=True) * (1.0 if self.unit else 1.0 / jnp.shape(x)[-1])
        return _affine(_over_root(x, square + self.eps), self.gain, self.bias)


@door
@register
@dataclass(frozen=True, repr=False)
class HeadNorm:
    """A norm of queries or keys (..., h, n, k), before positions turn them: gain * q / sqrt(mean square + eps) + bias.

    Parameters
    ----------
    gain, bias : arrays (k,) or (h, k), optional
        One for all heads, or one for each.
    eps : float
    centred : bool
        Take the mean out first (LayerNorm) or not (RMSNorm).
    joint : bool
        Mean and mean square over all heads of a token together (OLMo 2), or of each head by itself (Qwen3, Gemma 3).

    Examples
    --------
    >>> import numpy as np
    >>> q = np.array([[[3.0, 4.0]], [[0.0, 5.0]]])                          # two heads, one token
    >>> np.asarray(HeadNorm(joint=True)(q)).round(4).tolist()
    [[[0.8485, 1.1314]], [[0.0, 1.4142]]]
    """

    gain: Part = None
    bias: Part = None
    eps: float = 0.0
    centred: bool = False
    joint: bool = False

    __repr__ = part_line

    def __post_init__(self) -> None:
        check_fields(self, {"gain": 2, "bias": 2})
        check_numbers(self, ("eps",), least=0.0)

    def __call__(self, q: Array) -> Array:
        axes = (-3, -1) if self.joint else (-1,)
        q = q - jnp.mean(q, axis=axes, keepdims=True) if self.centred else q
        scaled = _over_root(q, jnp.mean(q**2, axis=axes, keepdims=True) + self.eps)
        gain, bias = (None if a is None else jnp.asarray(a, q.dtype)[:, None, :] for a in (self.gain, self.bias))
        return _affine(scaled, gain, bias)  # (..., h, n, k)


@door
@register
@dataclass(frozen=True, repr=False)
class Scale:
    """gain * x, a factor for every coordinate (LayerScale): what a sublayer adds is made small or large by it."""

    gain: Part

    __repr__ = part_line

    def __post_init__(self) -> None:
        check_fields(self, {"gain": 1})

    def __call__(self, x: Array) -> Array:
        return x * self.gain


def _over_root(x: Array, square: Array) -> Array:
    return x / jnp.sqrt(jnp.where(square > 0, square, 1.0))  # a constant token has no direction: it maps to the bias


def _affine(scaled: Array, gain: Array | None, bias: Array | None) -> Array:
    scaled = scaled if gain is None else scaled * gain
    return scaled if bias is None else scaled + bias
