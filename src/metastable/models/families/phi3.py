"""Phi-3: Llama with its maps stacked, queries over keys over values and gates over inner maps; rotary turns in part."""

from typing import Any

import numpy as np

from metastable.models.families import llama
from metastable.models.families.projections import attention, stacked
from metastable.models.families.rotary_decoder import head_width, turn_scale, window
from metastable.models.families.shared import BlockWeights, FeedForward, Tensors, activation, rms_norm


def block(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays."""
    path, eps = f"layers.{l}", config.rms_norm_eps
    made = stacked(tensors, f"{path}.self_attn.qkv_proj", config.num_attention_heads, config.num_key_value_heads)
    gate, W_in = np.split(tensors[f"{path}.mlp.gate_up_proj.weight"], 2)  # (m, d) each
    W_out = tensors[f"{path}.mlp.down_proj.weight"]
    return BlockWeights(
        **attention(tensors, made, f"{path}.self_attn.o_proj"),
        scale=head_width(config) ** -0.5 * turn_scale(tensors, config),
        order="pre",
        attention_norm=rms_norm(tensors, f"{path}.input_layernorm", eps),
        mlp_norm=rms_norm(tensors, f"{path}.post_attention_layernorm", eps),
        mlp=FeedForward(W_in, W_out, None, None, gate, activation(config.hidden_act)),
    )


FAMILY = llama.FAMILY._replace(
    name="phi3",
    block=block,
    mask=lambda config, l: "causal" if config.sliding_window is None else window(config.sliding_window),
)
