"""The maps that move tokens: what attention reads is a normed token, so the norm's gain belongs to Q, K and V.

A layer of order "pre" (or "parallel") attends to n(x) = g * (C x / rms(C x)) + b, where C is the centring I - 11^T/d
of a LayerNorm (the identity for an RMSNorm). With the normed but unscaled token z = x / rms(C x),

    query  Q n(x) + q = (Q diag(g) C) z + (Q b + q),      key and value alike,
    move   O (V n(x) + v) + o = (O V diag(g) C) z + O (V b + v) + o:

the matrices of the theory are Q diag(g) C, K diag(g) C and O V diag(g) C, and the norm's bias goes into the maps'
biases. A layer of order "post" reads the token as it is, and its maps are those that it stores.

Rotary turns are not folded: query and key are turned by their own positions, so that the score of i and j is
<R^(i-j) Q z_i, K z_j>. The form Q^T K is the score at equal positions, i = j, where the turns cancel.
"""

from dataclasses import dataclass

import numpy as np

from metastable.models.families import BlockWeights, Norm


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

    @property
    def biased(self) -> bool:
        """True when some map has a bias."""
        return any(b is not None for b in (self.q_bias, self.k_bias, self.v_bias, self.o_bias))


def reads_normed(block: BlockWeights) -> bool:
    """Whether attention reads the token through the layer's norm (orders "pre" and "parallel")."""
    return block.order != "post"


def folded(block: BlockWeights) -> Maps:
    """The maps of a layer with its attention norm folded in.

    Examples
    --------
    >>> from metastable.models import load
    >>> maps = folded(load("smollm2").parts.block(0))  # doctest: +SKIP
    >>> maps.V.shape  # doctest: +SKIP
    (9, 64, 576)
    """
    norm = block.attention_norm if reads_normed(block) else None
    Q, q_bias = _through(block.Q, block.q_bias, norm)
    K, k_bias = _through(block.K, block.k_bias, norm)
    V, v_bias = _through(block.V, block.v_bias, norm)
    return Maps(Q, K, V, block.O, q_bias, k_bias, v_bias, block.o_bias, block.scale)


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
