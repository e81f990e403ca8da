"""One layer of a model as particles on the unit sphere: what rungs 0 to 2 of the ladder are made of.

A particle y = x/|x| represents a token of length r, the model's own typical length at that layer: the median norm of
the tokens that enter it, measured on the texts (a median, because a few tokens may be a hundred times longer). Its
attention reads the token x itself (order "post") or the normed token (orders "pre" and "parallel"). With the norm's
gain and centring C folded into the maps (``metastable.models.folding``), both are s y up to the norm's own direction,

    s = r                                     order "post": the token as it is,
    s = sqrt(d) r / sqrt(a^2 + d eps)         otherwise: x over the root mean square of C x, a the median of |C x|,

so queries, keys and values are s Q y + q, s K y + k and s V y + v. The layer's step x + sum_j A_ij O (s V y_j + v) + o
with x = r y has the direction of

    y_i + (1/r) ( sum_h sum_j A^h_ij O_h (s V_h y_j + v_h) + o ),
    A^h = softmax( scale <s Q_h y_i + q_h, s K_h y_j + k_h> ),

which is put back on the sphere. To first order in 1/r the particle moves by the part of attention that is tangent at
y, divided by r: long tokens turn slowly. In a post-norm model s = r, and O V moves particles as it stands.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from metastable.backend import register
from metastable.equation.blocks import RMSNorm
from metastable.equation.dynamics import Dynamics
from metastable.models.families import BlockWeights, Positions
from metastable.models.families.shared import HeadNorm
from metastable.models.folding import folded, front_norm
from metastable.models.layer_parts import network


class Length(NamedTuple):
    """Typical length of the tokens that enter a layer: ``token`` of x, ``centred`` of x without its mean coordinate."""

    token: float
    centred: float


def typical_lengths(x: np.ndarray) -> list[Length]:
    """The median norms of tokens x (layers, ..., n, d), a `Length` for each layer.

    >>> typical_lengths(np.array([[[3.0, 4.0], [6.0, 8.0], [0.0, 5.0]]]))[0].token
    5.0
    """
    return [Length(_median_norm(v), _median_norm(v - v.mean(axis=-1, keepdims=True))) for v in x]


def _median_norm(x: np.ndarray) -> float:
    return float(np.median(np.linalg.norm(np.asarray(x, dtype=np.float64), axis=-1)))


def one_length(lengths: Sequence[Length]) -> Length:
    """One length for all layers, the median: what a shared block needs to be one autonomous system."""
    return Length(*(float(np.median(values)) for values in zip(*lengths)))


def read_length(block: BlockWeights, length: Length) -> float:
    """s: how long the token is that attention's folded maps act on."""
    norm = front_norm(block)
    if norm is None:
        return length.token
    d = block.Q.shape[-1]
    inside = length.centred if norm.kind == "layer" else length.token
    found: float = d**0.5 * length.token / (inside**2 + d * norm.eps) ** 0.5  # lengths may be traced
    return found


def sphere(
    blocks: Sequence[BlockWeights],
    lengths: Sequence[Length],
    positions: Sequence[Positions],
    masks: Sequence[str],
    heads: slice = slice(None),
    biases: bool = True,
) -> Dynamics:
    """The layers of a model for particles on the unit sphere that represent tokens of the given lengths."""
    made = [particle_block(b, length, heads, biases) for b, length in zip(blocks, lengths)]
    return on_sphere(network(made, positions, masks, with_mlp=False))


def on_sphere(layers: Dynamics) -> Dynamics:
    """Layers of `particle_block` with particles put back on the sphere; a norm of what attention gives stays."""
    assert layers.block is not None
    if layers.block.attention_out is None:
        return replace(layers, geometry="sphere", block=None)
    return replace(layers, block=replace(layers.block, attention_norm=RMSNorm(unit=True)))


def particle_block(
    block: BlockWeights, length: Length, heads: slice = slice(None), biases: bool = True
) -> BlockWeights:
    """A layer whose maps act on particles: s in Q, K and V, 1/r in what attention gives, no norms of tokens.

    A norm of what attention gives (Gemma 2, OLMo 2) stays; its gain and bias are divided by r.
    """
    maps, s, r = folded(block), read_length(block, length), length.token
    out = block.attention_out if block.attention_out is not None and block.attention_out.kind != "scale" else None
    shrink = 1.0 if out is not None else 1.0 / r
    joint = block.q_norm is not None and block.q_norm.joint
    chosen = slice(None) if joint else heads  # a norm over all heads needs them all: the others then give nothing
    on = np.zeros((len(maps.O), 1, 1), maps.O.dtype)
    on[heads] = 1.0
    return replace(
        block,
        Q=s * maps.Q[chosen],
        K=s * maps.K[chosen],
        V=s * maps.V[chosen],
        O=(shrink * on * maps.O)[chosen],
        q_bias=_some(maps.q_bias, chosen, biases),
        k_bias=_some(maps.k_bias, chosen, biases),
        v_bias=_some(maps.v_bias, chosen, biases),
        o_bias=None if maps.o_bias is None or not biases else shrink * maps.o_bias,
        order="post",
        attention_norm=None,
        mlp_norm=None,
        attention_out=None if out is None else replace(out, gain=out.gain / r, bias=_over(out.bias, r)),
        mlp_out=None,
        q_norm=_of_heads(block.q_norm, chosen),
        k_norm=_of_heads(block.k_norm, chosen),
    )


def _some(bias: np.ndarray | None, heads: slice, wanted: bool) -> np.ndarray | None:
    return bias[heads] if bias is not None and wanted else None


def _over(bias: np.ndarray | None, length: float) -> np.ndarray | None:
    return None if bias is None else bias / length


def _of_heads(norm: HeadNorm | None, heads: slice) -> HeadNorm | None:
    """A norm of queries or keys for some heads; one gain for all stays."""
    if norm is None or len(norm.gain) == 1:
        return norm
    return replace(norm, gain=norm.gain[heads], bias=None if norm.bias is None else norm.bias[heads])


@register
@dataclass(frozen=True)
class LongToken:
    """A sublayer of the model for particles y: out(sublayer(norm(r y))) / r, as it would move a token of length r."""

    sublayer: Any
    norm: Any
    out: Any
    length: Any  # a number, or a traced one

    def __call__(self, y: Any) -> Any:
        x = self.length * y
        added = self.sublayer(x if self.norm is None else self.norm(x))
        return (added if self.out is None else self.out(added)) / self.length
