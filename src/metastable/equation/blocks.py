"""What a transformer block adds to attention: MLP, LayerNorm or RMSNorm, residual (appendix A.1 of the first paper).

    order "post" (A.1, BERT, ALBERT):   u = norm_1(x + r attn(x)),   z = norm_2(u + r mlp(u))
    order "pre"  (GPT-2, Llama, T5):    u = x + r attn(norm_1(x)),   z = u + r mlp(norm_2(u))

Every array may be a ``Stack`` (one entry per layer) or a function of time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from metastable.backend import jax, jnp, register
from metastable.equation.weights import Stack, Timed, checked_value, varies
from metastable.errors import InputError, unknown

Array = Any
Part = Any

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda a: jnp.maximum(a, 0.0),
    "gelu": lambda a: jax.nn.gelu(a, approximate=False),
    "gelu_tanh": lambda a: jax.nn.gelu(a, approximate=True),
    "silu": jax.nn.silu,
    "tanh": jnp.tanh,
    "identity": lambda a: a,
}


def _check_fields(part: Any, ranks: dict[str, int]) -> None:
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


@register
@dataclass(frozen=True)
class LayerNorm:
    """gain * (x - mean) / sqrt(variance + eps) + bias, over the coordinates of each token.

    >>> import numpy as np
    >>> np.asarray(LayerNorm()(np.array([[1.0, 3.0]]))).tolist()
    [[-1.0, 1.0]]
    """

    gain: Part = None
    bias: Part = None
    eps: float = 0.0

    def __post_init__(self) -> None:
        _check_fields(self, {"gain": 1, "bias": 1})

    def __call__(self, x: Array) -> Array:
        centred = x - jnp.mean(x, axis=-1, keepdims=True)
        return _affine(self, centred, jnp.mean(centred**2, axis=-1, keepdims=True) + self.eps)


@register
@dataclass(frozen=True)
class RMSNorm:
    """gain * x / sqrt(mean square + eps); with ``unit=True`` the mean is a sum: x / |x|, the papers' sphere."""

    gain: Part = None
    bias: Part = None
    eps: float = 0.0
    unit: bool = False

    def __post_init__(self) -> None:
        _check_fields(self, {"gain": 1, "bias": 1})

    def __call__(self, x: Array) -> Array:
        square = jnp.sum(x**2, axis=-1, keepdims=True) * (1.0 if self.unit else 1.0 / jnp.shape(x)[-1])
        return _affine(self, x, square + self.eps)


def _affine(norm: LayerNorm | RMSNorm, x: Array, square: Array) -> Array:
    scaled = x / jnp.sqrt(jnp.where(square > 0, square, 1.0))  # a constant token has no direction: it maps to the bias
    scaled = scaled if norm.gain is None else scaled * norm.gain
    return scaled if norm.bias is None else scaled + norm.bias


@register
@dataclass(frozen=True)
class MLP:
    """W_out act(W_in x + b_in) + b_out, with W_in (m, d), W_out (d, m); ``gate`` (m, d) multiplies as in Llama.

    With a gate: W_out (act(gate x) * (W_in x + b_in)) + b_out.
    """

    W_in: Part
    W_out: Part
    b_in: Part = None
    b_out: Part = None
    gate: Part = None
    activation: str | Callable[[Array], Array] = "relu"

    def __post_init__(self) -> None:
        if not callable(self.activation) and self.activation not in ACTIVATIONS:
            raise unknown("activation", self.activation, ACTIVATIONS)
        _check_fields(self, {"W_in": 2, "W_out": 2, "b_in": 1, "b_out": 1, "gate": 2})

    def __call__(self, x: Array) -> Array:
        act = self.activation if callable(self.activation) else ACTIVATIONS[self.activation]
        hidden = x @ jnp.asarray(self.W_in).T  # (..., n, m)
        hidden = hidden if self.b_in is None else hidden + self.b_in
        hidden = act(hidden) if self.gate is None else act(x @ jnp.asarray(self.gate).T) * hidden
        out = hidden @ jnp.asarray(self.W_out).T  # (..., n, d)
        return out if self.b_out is None else out + self.b_out


@register
@dataclass(frozen=True)
class Block:
    """The parts around attention; see the module's first lines for the two orders.

    Parameters
    ----------
    mlp : MLP, optional
    attention_norm, mlp_norm : LayerNorm, RMSNorm or any function of tokens, optional
    order : {"post", "pre"}
        Where the norms stand.
    residual : float
        Strength r of what attention and MLP add to the token.
    """

    mlp: Part = None
    attention_norm: Part = None
    mlp_norm: Part = None
    order: str = "post"
    residual: float = 1.0

    def __post_init__(self) -> None:
        if self.order not in ("post", "pre"):
            raise unknown("order of norms", self.order, ["post", "pre"])

    @property
    def time_dependent(self) -> bool:
        """True when some array is a function of time."""
        return varies(self)

    @property
    def has_norms(self) -> bool:
        """True when a norm stands before or after attention or MLP."""
        return self.attention_norm is not None or self.mlp_norm is not None

    def layer(self, attend: Callable[[Array], Array], x: Array) -> Array:
        """One whole layer x -> z, where ``attend`` is the attention of this layer."""
        first, second = self.attention_norm or _same, self.mlp_norm or _same
        if self.order == "post":
            u = first(x + self.residual * attend(x))
            return second(u if self.mlp is None else u + self.residual * self.mlp(u))
        u = x + self.residual * attend(first(x))
        return u if self.mlp is None else u + self.residual * self.mlp(second(u))

    def pull(self, attend: Callable[[Array], Array], x: Array) -> Array:
        """The layer's increment per unit of time, for continuous dynamics (order "pre", or no norms)."""
        first, second = self.attention_norm or _same, self.mlp_norm or _same
        added = attend(first(x))
        return self.residual * (added if self.mlp is None else added + self.mlp(second(x)))


def _same(x: Array) -> Array:
    return x
