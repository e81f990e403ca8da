"""GPT-2: pre-norm causal blocks, absolute positions; maps are stored transposed and Q, K, V side by side."""

from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.models.families.shared import (
    BlockWeights,
    Family,
    FeedForward,
    Positions,
    activation,
    bias_by_head,
    by_head,
    layer_norm,
    matrix,
    numbers,
    output_by_head,
)

if TYPE_CHECKING:
    from torch import nn


def layers(model: Any) -> "list[nn.Module]":
    """The layers in order."""
    return list(model.h)


def attention(layer: Any) -> "nn.Module":
    """The attention module of a layer."""
    return layer.attn


def block(model: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays."""
    layer: Any = model.h[l]
    att, heads = layer.attn, layer.attn.num_heads
    Q, K, V = np.split(matrix(att.c_attn.weight).T, 3)  # (h k, d) each: Conv1D stores (in, out)
    q_bias, k_bias, v_bias = np.split(matrix(att.c_attn.bias), 3)
    return BlockWeights(
        Q=by_head(Q, heads),
        K=by_head(K, heads),
        V=by_head(V, heads),
        O=output_by_head(matrix(att.c_proj.weight).T, heads),
        q_bias=bias_by_head(q_bias, heads),
        k_bias=bias_by_head(k_bias, heads),
        v_bias=bias_by_head(v_bias, heads),
        o_bias=numbers(att.c_proj.bias),
        scale=_scale(model.config, att.head_dim, l),
        groups=heads,
        order="pre",
        attention_norm=layer_norm(layer.ln_1),
        mlp_norm=layer_norm(layer.ln_2),
        mlp=FeedForward(
            matrix(layer.mlp.c_fc.weight).T,
            matrix(layer.mlp.c_proj.weight).T,
            numbers(layer.mlp.c_fc.bias),
            numbers(layer.mlp.c_proj.bias),
            None,
            activation(model.config.activation_function),
        ),
    )


def _scale(config: Any, width: int, l: int) -> float:
    scale = width**-0.5 if config.scale_attn_weights else 1.0
    return scale / (l + 1) if config.scale_attn_by_inverse_layer_idx else scale


FAMILY = Family(
    name="gpt2",
    layers=layers,
    attention=attention,
    block=block,
    embedding=lambda model, rows: matrix(model.wte.weight[rows]),
    final_norm=lambda model: model.ln_f,
    positions=lambda model: Positions("embedded"),
    mask=lambda model: "causal",
    longest=lambda model: int(model.config.n_positions),
)
