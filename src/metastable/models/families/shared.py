"""What a family file provides: one layer's weights as plain arrays, in the convention of ``Weights``."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from metastable.errors import InputError

if TYPE_CHECKING:
    import torch
    from torch import nn

Array = np.ndarray


@dataclass(frozen=True)
class Norm:
    """LayerNorm ("layer") or RMSNorm ("rms") with its gain (d,), bias (d,) or None, and epsilon."""

    kind: str
    gain: Array
    bias: Array | None
    eps: float


@dataclass(frozen=True)
class FeedForward:
    """W_out act(W_in x + b_in) + b_out; with a gate, W_out (act(gate x) * (W_in x + b_in)) + b_out."""

    W_in: Array
    W_out: Array
    b_in: Array | None
    b_out: Array | None
    gate: Array | None
    activation: str


@dataclass(frozen=True)
class BlockWeights:
    """One transformer layer.

    Q, K (h, k, d), V (h, v, d), O (h, d, v): token x has query Q_h x + q_bias_h, and attention adds
    sum_h O_h (sum_j A^h_ij (V_h x_j + v_bias_h)) + o_bias. Scores are ``scale`` times query . key. Grouped key
    and value heads are repeated, so that every head has its own; ``groups`` says how many there were.
    """

    Q: Array
    K: Array
    V: Array
    O: Array
    q_bias: Array | None
    k_bias: Array | None
    v_bias: Array | None
    o_bias: Array | None
    scale: float
    groups: int
    order: str
    attention_norm: Norm
    mlp_norm: Norm
    mlp: FeedForward

    @property
    def heads(self) -> int:
        """The number of query heads h."""
        return int(self.Q.shape[0])


@dataclass(frozen=True)
class Positions:
    """How positions enter the scores.

    ``kind`` is "embedded" (added to the tokens, nothing left for the scores), "rotary" (``table`` is the
    frequencies, (k/2,)) or "relative" (``table(n)`` is the bias by j - i, (h, 2n - 1)).
    """

    kind: str
    table: Any = None


class Family(NamedTuple):
    """Where a kind of model keeps its parts. All functions take the torch module that ``load`` returns."""

    name: str
    layers: "Callable[[nn.Module], list[nn.Module]]"  # the modules whose outputs are the hidden states, in order
    attention: "Callable[[nn.Module], nn.Module]"  # of one layer: the module that returns the attention map
    block: "Callable[[nn.Module, int], BlockWeights]"  # of layer l
    embedding: "Callable[[nn.Module, slice], Array]"  # (rows, d): tokens of the vocabulary in the model's own space
    final_norm: "Callable[[nn.Module], nn.Module | None]"  # applied after the last layer, or None
    positions: "Callable[[nn.Module], Positions]"
    mask: "Callable[[nn.Module], str]"  # "full", "causal" or "window(w, causal)"
    longest: "Callable[[nn.Module], int]"  # the most tokens that the model can take
    shares: bool = False  # layers may be one and the same module


def numbers(tensor: "torch.Tensor | None") -> Array | None:
    """A float64 copy of a tensor as a NumPy array; None stays None."""
    return None if tensor is None else matrix(tensor)


def matrix(tensor: "torch.Tensor") -> Array:
    """A float64 copy of a tensor that is always there."""
    import torch

    return np.asarray(tensor.detach().to(torch.float64).cpu().numpy())


def by_head(weight: Array, heads: int) -> Array:
    """Rows (h k, d) of a query, key or value map as (h, k, d)."""
    return weight.reshape(heads, -1, weight.shape[-1])


def output_by_head(weight: Array, heads: int) -> Array:
    """Columns (d, h v) of an output map as (h, d, v)."""
    return weight.reshape(weight.shape[0], heads, -1).transpose(1, 0, 2)


def bias_by_head(bias: Array | None, heads: int) -> Array | None:
    """A bias (h k,) as (h, k)."""
    return None if bias is None else bias.reshape(heads, -1)


def layer_norm(module: Any) -> Norm:
    """A torch LayerNorm as plain numbers."""
    return Norm("layer", matrix(module.weight), numbers(module.bias), float(module.eps))


def rms_norm(module: Any) -> Norm:
    """An RMSNorm of ``transformers`` as plain numbers."""
    return Norm("rms", matrix(module.weight), None, float(module.variance_epsilon))


# Names of the library -> names of metastable.equation.blocks.ACTIVATIONS
_ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
    "linear": "identity",
}


def activation(name: object) -> str:
    """The simulator's name of an activation function."""
    if name not in _ACTIVATIONS:
        raise InputError(f"The activation {name!r} is not known; known are {', '.join(_ACTIVATIONS)}.")
    return _ACTIVATIONS[str(name)]
