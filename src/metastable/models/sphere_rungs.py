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
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from metastable.backend import register
from metastable.equation.weights import Weights
from metastable.models.families import BlockWeights
from metastable.models.folding import folded, reads_normed


class Length(NamedTuple):
    """Typical length of the tokens that enter a layer: ``token`` of x, ``centred`` of x without its mean coordinate."""

    token: float
    centred: float


def typical_lengths(x: np.ndarray) -> list[Length]:
    """The median norms of tokens x (layers, ..., n, d), a `Length` for each layer.

    >>> typical_lengths(np.array([[[3.0, 4.0], [6.0, 8.0], [0.0, 5.0]]]))[0].token
    5.0
    """
    centred = x - x.mean(axis=-1, keepdims=True)
    axes = tuple(range(1, x.ndim - 1))
    token, inner = (np.median(np.linalg.norm(v, axis=-1), axis=axes) for v in (x, centred))
    return [Length(float(r), float(a)) for r, a in zip(token, inner)]


def one_length(lengths: Sequence[Length]) -> Length:
    """One length for all layers, the median: what a shared block needs to be one autonomous system."""
    return Length(*(float(np.median(values)) for values in zip(*lengths)))


def read_length(block: BlockWeights, length: Length) -> float:
    """s: how long the token is that attention's folded maps act on."""
    norm = block.attention_norm if reads_normed(block) else None
    if norm is None:
        return length.token
    d = block.Q.shape[-1]
    inside = length.centred if norm.kind == "layer" else length.token
    return float(np.sqrt(d) * length.token / np.sqrt(inside**2 + d * norm.eps))


def sphere_weights(
    block: BlockWeights, length: Length, scale: float = 1.0, heads: slice = slice(None), biases: bool = True
) -> Weights:
    """The maps of one layer for particles on the unit sphere; queries are multiplied by ``scale`` besides."""
    maps, s, r = folded(block), read_length(block, length), length.token
    found: dict[str, Any] = {
        "Q": scale * s * maps.Q[heads],
        "K": s * maps.K[heads],
        "V": s * maps.V[heads],
        "O": maps.O[heads] / r,
    }
    if biases:
        for name in ("q_bias", "k_bias", "v_bias"):
            bias = getattr(maps, name)
            found[name] = None if bias is None else (scale if name == "q_bias" else 1.0) * bias[heads]
        found["o_bias"] = None if maps.o_bias is None else maps.o_bias / r
    return Weights(**found)


@register
@dataclass(frozen=True)
class LongToken:
    """A sublayer of the model for particles y: sublayer(norm(r y)) / r, as it would move a token of length r."""

    sublayer: Any
    norm: Any
    length: float

    def __call__(self, y: Any) -> Any:
        x = self.length * y
        return self.sublayer(x if self.norm is None else self.norm(x)) / self.length
