"""T5, encoder and decoder: pre-norm blocks, RMSNorm, relative position bias, no score scale, no biases."""

from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.models.families.shared import (
    BlockWeights,
    Family,
    FeedForward,
    Positions,
    activation,
    by_head,
    matrix,
    output_by_head,
    rms_norm,
)

if TYPE_CHECKING:
    from torch import nn


def layers(model: Any) -> "list[nn.Module]":
    """The layers of the stack in order."""
    return list(model.block)


def attention(layer: Any) -> "nn.Module":
    """The self-attention module of a layer."""
    return layer.layer[0].SelfAttention


def block(model: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays; a decoder's cross-attention is left out."""
    layer: Any = model.block[l].layer
    att, heads = layer[0].SelfAttention, model.config.num_heads
    return BlockWeights(
        Q=by_head(matrix(att.q.weight), heads),
        K=by_head(matrix(att.k.weight), heads),
        V=by_head(matrix(att.v.weight), heads),
        O=output_by_head(matrix(att.o.weight), heads),
        q_bias=None,
        k_bias=None,
        v_bias=None,
        o_bias=None,
        scale=1.0,
        groups=heads,
        order="pre",
        attention_norm=rms_norm(layer[0].layer_norm),
        mlp_norm=rms_norm(layer[-1].layer_norm),
        mlp=_feed_forward(layer[-1].DenseReluDense, model.config),
    )


def _feed_forward(mlp: Any, config: Any) -> FeedForward:
    gated = config.is_gated_act
    return FeedForward(
        matrix((mlp.wi_1 if gated else mlp.wi).weight),
        matrix(mlp.wo.weight),
        None,
        None,
        matrix(mlp.wi_0.weight) if gated else None,
        activation(config.dense_act_fn),
    )


def positions(model: Any) -> Positions:
    """The bias that the first layer computes and every layer adds, by the offset j - i."""
    att = model.block[0].layer[0].SelfAttention

    def table(n: int) -> np.ndarray:
        import torch

        with torch.no_grad():
            bias = matrix(att.compute_bias(n, n)[0])  # (h, n, n)
        # row 0 holds offsets 0 .. n-1, column 0 holds 0 .. -(n-1)
        return np.concatenate([bias[:, :0:-1, 0], bias[:, 0, :]], axis=1)  # (h, 2n - 1)

    return Positions("relative", table)


FAMILY = Family(
    name="t5",
    layers=layers,
    attention=attention,
    block=block,
    embedding=lambda model, rows: matrix(model.get_input_embeddings().weight[rows]),
    final_norm=lambda model: model.final_layer_norm,
    positions=positions,
    mask=lambda model: "causal" if model.is_decoder else "full",
    longest=lambda model: int(getattr(model.config, "n_positions", None) or 512),
)
