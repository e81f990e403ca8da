"""Phi 1 and 2: parallel blocks with one LayerNorm, biases everywhere, rotary turns in part."""

from typing import Any

from metastable.models.families import llama
from metastable.models.families.projections import head_norms
from metastable.models.families.rotary_decoder import head_width, llama_attention, turn_scale
from metastable.models.families.shared import BlockWeights, Tensors, feed_forward, layer_norm


def block(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays."""
    path, eps = f"layers.{l}", config.layer_norm_eps
    norm = layer_norm(tensors, f"{path}.input_layernorm", eps)
    query, key = f"{path}.self_attn.q_layernorm", f"{path}.self_attn.k_layernorm"
    return BlockWeights(
        **llama_attention(tensors, config, l, out="dense"),
        **(head_norms(tensors, query, key, eps, kind="layer") if config.qk_layernorm else {}),
        scale=head_width(config) ** -0.5 * turn_scale(tensors, config),
        order="parallel",
        attention_norm=norm,
        mlp_norm=norm,
        mlp=feed_forward(tensors, f"{path}.mlp.fc1", f"{path}.mlp.fc2", config.hidden_act),
    )


FAMILY = llama.FAMILY._replace(
    name="phi",
    block=block,
    norm="final_layernorm",
    final_norm=lambda tensors, config: layer_norm(tensors, "final_layernorm", config.layer_norm_eps),
)
