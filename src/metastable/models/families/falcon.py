"""Falcon in all its forms: maps woven group by group, parallel blocks with one norm or two, rotary turns or ALiBi."""

from typing import Any

import numpy as np

from metastable.equation.positions import alibi
from metastable.models.families.projections import attention, woven
from metastable.models.families.rotary_decoder import turn_scale, turns
from metastable.models.families.shared import (
    Array,
    BlockWeights,
    Family,
    Norm,
    Positions,
    Tensors,
    feed_forward,
    layer_norm,
    numbered,
)


def block(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays."""
    path, heads = f"h.{l}", config.num_attention_heads
    shared = config.multi_query and not config.new_decoder_architecture
    groups = 1 if shared else config.num_kv_heads or heads
    made = woven(tensors, f"{path}.self_attention.query_key_value", heads, groups)
    first, second = _norms(tensors, config, path)
    inner, outer = f"{path}.mlp.dense_h_to_4h", f"{path}.mlp.dense_4h_to_h"
    parallel = config.new_decoder_architecture or config.parallel_attn
    return BlockWeights(
        **attention(tensors, made, f"{path}.self_attention.dense"),
        scale=_width(config) ** -0.5 * (1.0 if config.alibi else turn_scale(tensors, config)),
        order="parallel" if parallel else "pre",
        attention_norm=first,
        mlp_norm=second,
        mlp=feed_forward(tensors, inner, outer, config.activation),
    )


def _width(config: Any) -> int:
    return int(config.hidden_size // config.num_attention_heads)


def _norms(tensors: Tensors, config: Any, path: str) -> list[Norm]:
    """The norms of attention and MLP, under the names of the three forms."""
    for names in (("ln_attn", "ln_mlp"), ("input_layernorm", "post_attention_layernorm"), ("input_layernorm",) * 2):
        if all(f"{path}.{name}.weight" in tensors for name in names):
            return [layer_norm(tensors, f"{path}.{name}", config.layer_norm_epsilon) for name in names]
    raise KeyError(f"{path}.input_layernorm.weight")


def positions(tensors: Tensors, config: Any, l: int) -> Positions:
    """Rotary frequencies, or ALiBi: slope j over sqrt(k), rounded to bfloat16 before it is divided."""
    if not config.alibi:
        return turns(tensors, config)
    slopes, root = np.asarray(alibi(config.num_attention_heads).slopes), _width(config) ** -0.5

    def table(n: int) -> Array:
        row = _bfloat16(_bfloat16(slopes)[:, None] * np.arange(n)) * root  # (h, n), the same for every query
        return np.repeat(row[:, None, :], n, axis=1)

    return Positions("bias", table)


def _bfloat16(values: Array) -> Array:
    """Numbers rounded to the nearest of seven binary digits after the first, ties to even."""
    bits = np.asarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return rounded.astype(np.uint32).view(np.float32).astype(np.float64)


FAMILY = Family(
    name="falcon",
    layers=lambda config: numbered("h", config.num_hidden_layers),
    attention="self_attention",
    block=block,
    embedding=lambda tensors, config, rows: tensors.rows("word_embeddings.weight", rows),
    positions=positions,
    mask=lambda config, l: "causal",
    longest=lambda config: int(config.max_position_embeddings),
    norm="ln_f",
    final_norm=lambda tensors, config: layer_norm(tensors, "ln_f", config.layer_norm_epsilon),
)
