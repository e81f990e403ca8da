"""Llama and its kin (Mistral, Qwen2, SmolLM): pre-norm causal blocks, RMSNorm, rotary turns, grouped heads."""

from typing import TYPE_CHECKING, Any, overload

import numpy as np

from metastable.errors import InputError
from metastable.models.families.shared import (
    BlockWeights,
    Family,
    FeedForward,
    Positions,
    activation,
    bias_by_head,
    by_head,
    matrix,
    numbers,
    output_by_head,
    rms_norm,
)

if TYPE_CHECKING:
    from torch import nn


def layers(model: Any) -> "list[nn.Module]":
    """The layers in order."""
    return list(model.layers)


def attention(layer: Any) -> "nn.Module":
    """The attention module of a layer."""
    return layer.self_attn


def block(model: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays, every key and value head repeated for the queries it serves."""
    layer: Any = model.layers[l]
    att, config = layer.self_attn, model.config
    heads, groups = config.num_attention_heads, config.num_key_value_heads
    turn = float(getattr(model.rotary_emb, "attention_scaling", 1.0))  # multiplies queries and keys alike
    return BlockWeights(
        Q=by_head(matrix(att.q_proj.weight), heads),
        K=_expand(by_head(matrix(att.k_proj.weight), groups), heads),
        V=_expand(by_head(matrix(att.v_proj.weight), groups), heads),
        O=output_by_head(matrix(att.o_proj.weight), heads),
        q_bias=bias_by_head(numbers(att.q_proj.bias), heads),
        k_bias=_expand(bias_by_head(numbers(att.k_proj.bias), groups), heads),
        v_bias=_expand(bias_by_head(numbers(att.v_proj.bias), groups), heads),
        o_bias=numbers(att.o_proj.bias),
        scale=float(att.scaling) * turn**2,
        groups=groups,
        order="pre",
        attention_norm=rms_norm(layer.input_layernorm),
        mlp_norm=rms_norm(layer.post_attention_layernorm),
        mlp=_feed_forward(layer.mlp, config.hidden_act),
    )


@overload
def _expand(grouped: np.ndarray, heads: int) -> np.ndarray: ...
@overload
def _expand(grouped: np.ndarray | None, heads: int) -> np.ndarray | None: ...
def _expand(grouped: np.ndarray | None, heads: int) -> np.ndarray | None:
    """Key or value heads (g, ...) repeated to (h, ...): query head h uses group h // (heads / g)."""
    return None if grouped is None else np.repeat(grouped, heads // grouped.shape[0], axis=0)


def _feed_forward(mlp: Any, act: str) -> FeedForward:
    if mlp.gate_proj.bias is not None:
        raise InputError("This model has a bias on its MLP gate, which is not supported.")
    return FeedForward(
        matrix(mlp.up_proj.weight),
        matrix(mlp.down_proj.weight),
        numbers(mlp.up_proj.bias),
        numbers(mlp.down_proj.bias),
        matrix(mlp.gate_proj.weight),
        activation(act),
    )


def positions(model: Any) -> Positions:
    """The rotary frequencies the model turns its queries and keys by."""
    return Positions("rotary", matrix(model.rotary_emb.inv_freq))


def mask(model: Any) -> str:
    """Causal, or a causal window where every layer slides (Mistral)."""
    config = model.config
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    width: Any = getattr(config, "sliding_window", None)
    slides = config.model_type == "mistral" and width is not None
    if kinds == {"sliding_attention"} or slides:
        return f"window({int(width) - 1}, causal)"  # the library counts the token itself
    if kinds == {"full_attention"}:
        return "causal"
    raise InputError(f"The layers of this model mix {' and '.join(sorted(kinds))}, which is not supported.")


FAMILY = Family(
    name="llama",
    layers=layers,
    attention=attention,
    block=block,
    embedding=lambda model, rows: matrix(model.embed_tokens.weight[rows]),
    final_norm=lambda model: model.norm,
    positions=positions,
    mask=mask,
    longest=lambda model: int(model.config.max_position_embeddings),
)
