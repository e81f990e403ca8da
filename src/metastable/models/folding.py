"""The maps that move tokens: what attention reads is a normed token, so the norm's gain belongs to Q, K and V.

A layer of order "pre" (or "parallel") attends to n(x) = g * (C x / rms(C x)) + b, where C is the centring I - 11^T/d
of a LayerNorm (the identity for an RMSNorm). With the normed but unscaled token z = x / rms(C x),

    query  Q n(x) + q = (Q diag(g) C) z + (Q b + q),      key and value alike,
    move   O (V n(x) + v) + o = (O V diag(g) C) z + O (V b + v) + o:

the matrices of the theory are Q diag(g) C, K diag(g) C and O V diag(g) C, and the norm's bias goes into the maps'
biases. A gain on what attention gives (LayerScale) goes into O. A layer of order "post" reads the token as it is, and
its maps are those that it stores.

Rotary turns are not folded: query and key are turned by their own positions, so that the score of i and j is
<R^(i-j) Q z_i, K z_j>. The form Q^T K is the score at equal positions, i = j, where the turns cancel.
"""

from dataclasses import dataclass, replace

import numpy as np

from metastable.models.families import BlockWeights, Norm
from metastable.models.families.shared import HeadNorm


@dataclass(frozen=True, eq=False)
class Maps:
    """The maps of one layer that act on normed tokens: Q, K (h, k, d), V (h, v, d), O (h, d, v) and their biases."""

    Q: np.ndarray
    K: np.ndarray
    V: np.ndarray
    O: np.ndarray
    q_bias: np.ndarray | None
    k_bias: np.ndarray | None
    v_bias: np.ndarray | None
    o_bias: np.ndarray | None
    scale: float

    @property
    def heads(self) -> int:
        """The number of heads h."""
        return int(self.Q.shape[0])


def front_norm(block: BlockWeights) -> Norm | None:
    """The norm through which attention reads the token (orders "pre" and "parallel"), or None."""
    return None if block.order == "post" else block.attention_norm


def folded(block: BlockWeights) -> Maps:
    """The maps of a layer with the norm in front of attention folded in, and a gain behind it.

    Examples
    --------
    >>> from metastable.models import load
    >>> maps = folded(load("smollm2").parts.block(0))  # doctest: +SKIP
    >>> maps.V.shape  # doctest: +SKIP
    (9, 64, 576)
    """
    norm = front_norm(block)
    Q, q_bias = _through(block.Q, block.q_bias, norm)
    K, k_bias = _through(block.K, block.k_bias, norm)
    V, v_bias = _through(block.V, block.v_bias, norm)
    O, o_bias = block.O, block.o_bias
    if block.attention_out is not None and block.attention_out.kind == "scale":
        gain = block.attention_out.gain
        O, o_bias = gain[:, None] * O, None if o_bias is None else gain * o_bias
    return Maps(Q, K, V, O, q_bias, k_bias, v_bias, o_bias, block.scale)


def linear(block: BlockWeights) -> Maps:
    """The folded maps, where norms of queries, of keys and of what attention gives are taken as linear too.

    A norm of queries (Qwen3, OLMo 2) multiplies them by its gain over their root mean square; here that is the one of
    independent standard tokens, |Q|_F / sqrt(k). A norm of what attention gives (Gemma 2, OLMo 2) is its gain and
    centring alone, so that the moduli of O V are those before its division; signs and good triples do not depend on it.
    """
    maps = folded(block)
    if block.q_norm is not None:
        maps = replace(maps, Q=_head_normed(maps.Q, block.q_norm))
    if block.k_norm is not None:
        maps = replace(maps, K=_head_normed(maps.K, block.k_norm))
    out = block.attention_out
    if out is not None and out.kind != "scale":
        O = maps.O - maps.O.mean(axis=1, keepdims=True) if out.kind == "layer" else maps.O
        maps = replace(maps, O=out.gain[:, None] * O)
    return maps


def _through(W: np.ndarray, bias: np.ndarray | None, norm: Norm | None) -> tuple[np.ndarray, np.ndarray | None]:
    """W diag(g) C (h, k, d) and the bias W b + bias (h, k)."""
    if norm is None:
        return W, bias
    gained = W * norm.gain
    if norm.kind == "layer":
        gained = gained - gained.mean(axis=-1, keepdims=True)  # times I - 11^T/d from the right
    if norm.bias is None:
        return gained, bias
    added = W @ norm.bias
    return gained, added if bias is None else added + bias


def _head_normed(W: np.ndarray, norm: HeadNorm) -> np.ndarray:
    """gain * W over the root mean square that W z has for standard tokens z, for each head or all together."""
    axes = (0, 1) if norm.joint else (1,)
    W = W - W.mean(axis=axes, keepdims=True) if norm.kind == "layer" else W  # over what the norm averages
    square = (W**2).sum(axis=2, keepdims=True).mean(axis=axes, keepdims=True)
    return np.asarray(norm.gain[:, :, None] * W / np.sqrt(square + norm.eps))
