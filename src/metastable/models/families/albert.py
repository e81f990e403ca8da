"""ALBERT: one post-norm block, shared by every layer, after a factorised embedding."""

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
    """The inner layers in the order they run: groups share the depth evenly, as the model divides it."""
    groups, depth = model.encoder.albert_layer_groups, model.config.num_hidden_layers
    chosen = [groups[int(i / (depth / len(groups)))] for i in range(depth)]
    return [layer for group in chosen for layer in group.albert_layers]


def attention(layer: Any) -> "nn.Module":
    """The attention module of a layer."""
    return layer.attention


def block(model: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays."""
    layer: Any = layers(model)[l]
    att, heads = layer.attention, layer.attention.num_attention_heads
    return BlockWeights(
        Q=by_head(matrix(att.query.weight), heads),
        K=by_head(matrix(att.key.weight), heads),
        V=by_head(matrix(att.value.weight), heads),
        O=output_by_head(matrix(att.dense.weight), heads),
        q_bias=bias_by_head(numbers(att.query.bias), heads),
        k_bias=bias_by_head(numbers(att.key.bias), heads),
        v_bias=bias_by_head(numbers(att.value.bias), heads),
        o_bias=numbers(att.dense.bias),
        scale=att.attention_head_size**-0.5,
        groups=heads,
        order="post",
        attention_norm=layer_norm(att.LayerNorm),
        mlp_norm=layer_norm(layer.full_layer_layer_norm),
        mlp=FeedForward(
            matrix(layer.ffn.weight),
            matrix(layer.ffn_output.weight),
            numbers(layer.ffn.bias),
            numbers(layer.ffn_output.bias),
            None,
            activation(model.config.hidden_act),
        ),
    )


def embedding(model: Any, rows: slice) -> np.ndarray:
    """Word embeddings (rows, e) mapped into the hidden space (rows, d), without bias."""
    words, mapping = model.embeddings.word_embeddings.weight, model.encoder.embedding_hidden_mapping_in.weight
    return np.asarray(matrix(words[rows]) @ matrix(mapping).T)


FAMILY = Family(
    name="albert",
    layers=layers,
    attention=attention,
    block=block,
    embedding=embedding,
    final_norm=lambda model: None,
    positions=lambda model: Positions("embedded"),
    mask=lambda model: "full",
    longest=lambda model: int(model.config.max_position_embeddings),
    shares=True,
)
