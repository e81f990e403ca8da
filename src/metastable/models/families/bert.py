"""BERT and RoBERTa: post-norm blocks, absolute positions, biases everywhere."""

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
    return list(model.encoder.layer)


def attention(layer: Any) -> "nn.Module":
    """The attention module of a layer."""
    return layer.attention.self


def block(model: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays."""
    layer: Any = model.encoder.layer[l]
    att, heads = layer.attention.self, layer.attention.self.num_attention_heads
    return BlockWeights(
        Q=by_head(matrix(att.query.weight), heads),
        K=by_head(matrix(att.key.weight), heads),
        V=by_head(matrix(att.value.weight), heads),
        O=output_by_head(matrix(layer.attention.output.dense.weight), heads),
        q_bias=bias_by_head(numbers(att.query.bias), heads),
        k_bias=bias_by_head(numbers(att.key.bias), heads),
        v_bias=bias_by_head(numbers(att.value.bias), heads),
        o_bias=numbers(layer.attention.output.dense.bias),
        scale=att.attention_head_size**-0.5,
        groups=heads,
        order="post",
        attention_norm=layer_norm(layer.attention.output.LayerNorm),
        mlp_norm=layer_norm(layer.output.LayerNorm),
        mlp=FeedForward(
            matrix(layer.intermediate.dense.weight),
            matrix(layer.output.dense.weight),
            numbers(layer.intermediate.dense.bias),
            numbers(layer.output.dense.bias),
            None,
            activation(model.config.hidden_act),
        ),
    )


def embedding(model: Any, rows: slice) -> np.ndarray:
    """Word embeddings (rows, d)."""
    return matrix(model.embeddings.word_embeddings.weight[rows])


def longest(model: Any) -> int:
    """RoBERTa numbers positions from the padding index + 1, which costs it the first places of the table."""
    first = model.config.pad_token_id + 1 if model.config.model_type == "roberta" else 0
    return int(model.config.max_position_embeddings) - first


FAMILY = Family(
    name="bert",
    layers=layers,
    attention=attention,
    block=block,
    embedding=embedding,
    final_norm=lambda model: None,
    positions=lambda model: Positions("embedded"),
    mask=lambda model: "causal" if model.config.is_decoder else "full",
    longest=longest,
)
