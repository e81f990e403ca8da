"""Cohere 1 and 2 (Command R): parallel blocks with one norm, interleaved rotary turns; the second in windows only."""

from typing import Any

import numpy as np

from metastable.models.families import llama
from metastable.models.families.projections import expand
from metastable.models.families.rotary_decoder import (
    gated_mlp,
    head_width,
    layered_mask,
    llama_attention,
    sliding,
    turn_scale,
    turns,
)
from metastable.models.families.shared import BlockWeights, HeadNorm, Positions, Tensors, layer_norm


def block(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays."""
    path, eps, heads = f"layers.{l}", config.layer_norm_eps, config.num_attention_heads
    norm = layer_norm(tensors, f"{path}.input_layernorm", eps)
    q_gain, k_gain = (tensors.get(f"{path}.self_attn.{name}.weight") for name in ("q_norm", "k_norm"))
    return BlockWeights(
        **llama_attention(tensors, config, l),
        scale=head_width(config) ** -0.5 * (turn_scale(tensors, config) if _turned(config, l) else 1.0),
        order="parallel",
        attention_norm=norm,
        mlp_norm=norm,
        mlp=gated_mlp(tensors, l, config.hidden_act),
        q_norm=None if q_gain is None else HeadNorm("layer", q_gain, None, float(eps)),
        k_norm=None if k_gain is None else HeadNorm("layer", expand(k_gain, heads), None, float(eps)),
    )


def _turned(config: Any, l: int) -> bool:
    """Cohere 2 turns queries and keys where it slides."""
    return config.model_type != "cohere2" or sliding(config, l)


def positions(tensors: Tensors, config: Any, l: int) -> Positions:
    """The rotary frequencies, 0 where the layer does not turn."""
    if _turned(config, l):
        return turns(tensors, config, interleaved=True)
    return Positions("rotary", np.zeros(head_width(config) // 2), interleaved=True)


FAMILY = llama.FAMILY._replace(
    name="cohere",
    block=block,
    positions=positions,
    mask=layered_mask,
    final_norm=lambda tensors, config: layer_norm(tensors, "norm", config.layer_norm_eps),
)
