"""What a family file provides: functions of (tensors, config) that give one layer's weights as plain arrays.

``tensors`` are the weights by the library's own names, relative to the base model; ``config`` is an object whose
attributes are the entries of ``config.json``. Neither needs PyTorch, so one file serves a loaded model and a file.
What they give is registered with JAX, so that a compiled step takes a layer's weights as its argument.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from metastable.backend import register
from metastable.errors import InputError

Array = np.ndarray
Config: TypeAlias = Any  # a ``transformers`` configuration, or any object with the same attributes


class Tensors(Mapping[str, Array]):
    """Weights by name, as float64 arrays that are made when asked for and not kept; ``get`` gives None for none."""

    def rows(self, name: str, rows: slice) -> Array:
        """Some rows of a large table; what reads from a file or a float32 module widens only these."""
        return self[name][rows]

    def spaced(self, name: str, most: int) -> tuple[tuple[int, ...], Array]:
        """The shape of a tensor and about ``most`` evenly spaced numbers of it; only these need to be widened."""
        values = self[name]
        return values.shape, values.ravel()[:: max(1, values.size // most)]


@register
@dataclass(frozen=True)
class Norm:
    """LayerNorm ("layer"), RMSNorm ("rms") or a gain alone ("scale"): gain (d,), bias (d,) or None, and epsilon."""

    kind: str
    gain: Array
    bias: Array | None
    eps: float


@register
@dataclass(frozen=True)
class HeadNorm:
    """A norm of queries or keys: gain (1, k) for all heads or (h, k), bias alike or None.

    ``kind`` is "layer" or "rms"; ``joint`` says that mean and mean square are taken over all heads of a token together.
    """

    kind: str
    gain: Array
    bias: Array | None
    eps: float
    joint: bool = False


@register
@dataclass(frozen=True)
class FeedForward:
    """W_out act(W_in x + b_in) + b_out; with a gate, W_out (act(gate x + b_gate) * (W_in x + b_in)) + b_out."""

    W_in: Array
    W_out: Array
    b_in: Array | None
    b_out: Array | None
    gate: Array | None
    activation: str
    b_gate: Array | None = None


@register
@dataclass(frozen=True)
class Experts:
    """Several gated MLPs, of which a router (e, d) chooses the ``top`` for each token.

    W_in and gate are (e, m, d), W_out is (e, d, m); see `metastable.equation.blocks.Experts`.
    """

    router: Array
    W_in: Array
    W_out: Array
    gate: Array
    activation: str
    top: int
    normalised: bool = True


@register
@dataclass(frozen=True)
class Cross:
    """A decoder's attention to its encoder's last states: maps as in ``BlockWeights``, and a norm of who looks."""

    Q: Array
    K: Array
    V: Array
    O: Array
    scale: float
    norm: Norm


@register
@dataclass(frozen=True)
class BlockWeights:
    """One transformer layer.

    Q, K (h, k, d), V (h, v, d), O (h, d, v): token x has query Q_h x + q_bias_h, and attention adds
    sum_h O_h (sum_j A^h_ij (V_h x_j + v_bias_h)) + o_bias. Scores are ``scale`` times query . key. Grouped key
    and value heads are repeated, so that every head has its own; ``groups`` says how many there were.

    ``order`` is that of `metastable.equation.blocks`; ``attention_out`` and ``mlp_out`` are applied to what a sublayer
    gives before it is added; ``q_norm`` and ``k_norm`` to queries and keys before positions turn them; with a ``cap``
    c a score s becomes c tanh(s / c). ``cross`` is what a decoder adds between attention and MLP.
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
    attention_norm: Norm | None
    mlp_norm: Norm | None
    mlp: FeedForward | Experts
    attention_out: Norm | None = None
    mlp_out: Norm | None = None
    q_norm: HeadNorm | None = None
    k_norm: HeadNorm | None = None
    cap: float | None = None
    cross: Cross | None = None

    @property
    def heads(self) -> int:
        """The number of query heads h."""
        return int(self.Q.shape[0])


@dataclass(frozen=True)
class Positions:
    """How positions enter the scores of a layer.

    ``kind`` is "embedded" (added to the tokens, nothing left for the scores), "rotary" (``table`` is the frequencies
    (m,) of the first 2m coordinates; ``interleaved`` pairs neighbours, otherwise c and c + m), "relative" (``table`` is
    the bias by j - i, (h, 2n - 1)) or "bias" ((h, n, n)). A table may be a function of n giving it.
    """

    kind: str
    table: Any = None
    interleaved: bool = False


EMBEDDED = Positions("embedded")


class Family(NamedTuple):
    """Where a kind of model keeps its parts.

    ``layers(config)`` are the module paths of the layers in the order they run ("encoder.layer.0", ...); a path that
    occurs again is one block used again. ``attention`` is the path, inside a layer, of the module that returns the
    attention map, and ``norm`` the path of the norm after the last layer ("" for none): hooks are put there.
    """

    name: str
    layers: Callable[[Config], list[str]]
    attention: str
    block: Callable[[Tensors, Config, int], BlockWeights]  # of layer l
    embedding: Callable[[Tensors, Config, slice], Array]  # (rows, d): the vocabulary in the model's own space
    positions: Callable[[Tensors, Config, int], Positions]  # of layer l
    mask: Callable[[Config, int], str]  # of layer l: "full", "causal" or "window(w, causal)"
    longest: Callable[[Config], int]  # the most tokens that the model can take
    norm: str = ""
    final_norm: Callable[[Tensors, Config], Norm | None] = lambda tensors, config: None  # what is at ``norm``
    input_norm: Callable[[Tensors, Config], Norm | None] = lambda tensors, config: None  # the tokens' own, at layer 0
    shares: bool = False  # layers may be one and the same block, which can be applied again
    refuses: Callable[[Config], str] = lambda config: ""  # why such a model is not done exactly, in a sentence
    decoders: bool = True  # whether it also reads the decoder of an encoder-decoder, cross-attention left out
    start: Callable[[Tensors, Config, Sequence[int], bool], Array] | None = None  # layer 0 of a text: see `Parts.start`


def numbered(path: str, count: int) -> list[str]:
    """The paths of a list of modules.

    >>> numbered("encoder.layer", 2)
    ['encoder.layer.0', 'encoder.layer.1']
    """
    return [f"{path}.{i}" for i in range(count)]


def by_head(weight: Array, heads: int) -> Array:
    """Rows (h k, d) of a query, key or value map as (h, k, d)."""
    return weight.reshape(heads, -1, weight.shape[-1])


def output_by_head(weight: Array, heads: int) -> Array:
    """Columns (d, h v) of an output map as (h, d, v)."""
    return weight.reshape(weight.shape[0], heads, -1).transpose(1, 0, 2)


def bias_by_head(bias: Array | None, heads: int) -> Array | None:
    """A bias (h k,) as (h, k)."""
    return None if bias is None else bias.reshape(heads, -1)


def looked_up(tensors: Tensors, name: str, ids: Sequence[int]) -> Array:
    """Rows of a table, one for each id, (n, e); only these are widened."""
    return np.concatenate([tensors.rows(name, slice(i, i + 1)) for i in map(int, ids)])


def normed(norm: Norm, x: Array) -> Array:
    """A norm applied to tokens (n, d)."""
    x = x - x.mean(axis=-1, keepdims=True) if norm.kind == "layer" else x
    x = norm.gain * x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + norm.eps)
    return x if norm.bias is None else x + norm.bias


def layer_norm(tensors: Tensors, path: str, eps: float) -> Norm:
    """The LayerNorm at a path."""
    return Norm("layer", tensors[f"{path}.weight"], tensors.get(f"{path}.bias"), float(eps))


def rms_norm(tensors: Tensors, path: str, eps: float, offset: float = 0.0) -> Norm:
    """The RMSNorm at a path; Gemma keeps its gains less 1, the ``offset``."""
    return Norm("rms", tensors[f"{path}.weight"] + offset, None, float(eps))


def feed_forward(tensors: Tensors, first: str, last: str, act: object, gate: str = "") -> FeedForward:
    """The MLP whose maps are at the paths ``first``, ``last`` and, where it is gated, ``gate``."""
    return FeedForward(
        tensors[f"{first}.weight"],
        tensors[f"{last}.weight"],
        tensors.get(f"{first}.bias"),
        tensors.get(f"{last}.bias"),
        tensors[f"{gate}.weight"] if gate else None,
        activation(act),
        tensors.get(f"{gate}.bias") if gate else None,
    )


# Names of the library -> names of metastable.equation.blocks.ACTIVATIONS
_ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_accurate": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
    "linear": "identity",
    "quick_gelu": "quick_gelu",
}


_SAID = ("hidden_act", "hidden_activation", "activation_function", "activation", "dense_act_fn")


def unknown_activation(config: Config) -> str:
    """Why the activation that a configuration names is not one of the simulator's; empty where it is."""
    said = [getattr(config, name, None) for name in _SAID]
    unknown = [name for name in said if isinstance(name, str) and name not in _ACTIVATIONS]
    return f"The activation {unknown[0]!r} of its MLP is not known here." if unknown else ""


def activation(name: object) -> str:
    """The simulator's name of an activation function."""
    if name not in _ACTIVATIONS:
        raise InputError(f"The activation {name!r} is not known; known are {', '.join(_ACTIVATIONS)}.")
    return _ACTIVATIONS[str(name)]
