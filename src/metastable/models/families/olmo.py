"""OLMo: Llama with norms that have no gain (1), or with norms after the sublayers and of queries and keys (2, 3)."""

from dataclasses import replace
from typing import Any

import numpy as np

from metastable.models.families import llama
from metastable.models.families.projections import expand
from metastable.models.families.rotary_decoder import (
    gated_mlp,
    head_width,
    layered_mask,
    llama_attention,
    turn_scale,
    turns,
)
from metastable.models.families.shared import BlockWeights, HeadNorm, Norm, Tensors, rms_norm


def block(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l of OLMo 1."""
    return BlockWeights(
        **llama_attention(tensors, config, l),
        scale=head_width(config) ** -0.5 * turn_scale(tensors, config),
        order="pre",
        attention_norm=plain_norm(config),
        mlp_norm=plain_norm(config),
        mlp=gated_mlp(tensors, l, config.hidden_act),
    )


def plain_norm(config: Any) -> Norm:
    """LayerNorm without gain or bias."""
    return Norm("layer", np.ones(config.hidden_size), None, 1e-5)


def block_2(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l of OLMo 2: nothing is normed before a sublayer, everything after it."""
    path, eps = f"layers.{l}", config.rms_norm_eps
    heads, groups = config.num_attention_heads, config.num_key_value_heads
    return BlockWeights(
        **llama_attention(tensors, config, l),
        scale=head_width(config) ** -0.5 * turn_scale(tensors, config),
        order="pre",
        attention_norm=None,
        mlp_norm=None,
        attention_out=rms_norm(tensors, f"{path}.post_attention_layernorm", eps),
        mlp_out=rms_norm(tensors, f"{path}.post_feedforward_layernorm", eps),
        q_norm=_joint(tensors, f"{path}.self_attn.q_norm", heads, heads, eps),
        k_norm=_joint(tensors, f"{path}.self_attn.k_norm", groups, heads, eps),
        mlp=gated_mlp(tensors, l, config.hidden_act),
    )


def _joint(tensors: Tensors, path: str, count: int, heads: int, eps: float) -> HeadNorm:
    """A norm over all heads; heads that are repeated for their queries leave its mean square as it is."""
    gain = tensors[f"{path}.weight"].reshape(count, -1)
    return HeadNorm("rms", expand(gain, heads), None, float(eps), joint=True)


def block_3(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l of OLMo 3: OLMo 2 with turns by the layer's kind."""
    turned = turn_scale(tensors, config, config.layer_types[l])
    return replace(block_2(tensors, config, l), scale=head_width(config) ** -0.5 * turned)


FAMILY = llama.FAMILY._replace(
    name="olmo",
    block=block,
    final_norm=lambda tensors, config: plain_norm(config),
    refuses=lambda config: (
        "" if config.clip_qkv is None else "This OLMo clips its queries, keys and values (clip_qkv)."
    ),
)
SECOND = llama.FAMILY._replace(name="olmo2", block=block_2)
THIRD = SECOND._replace(
    name="olmo3",
    block=block_3,
    positions=lambda tensors, config, l: turns(tensors, config, config.layer_types[l]),
    mask=layered_mask,
)
