"""Llama and its kin (Mistral, Qwen2, SmolLM): pre-norm causal blocks, RMSNorm, rotary turns, grouped heads."""

from typing import Any

from metastable.models.families.rotary_decoder import (
    gated_mlp,
    head_width,
    layered_mask,
    llama_attention,
    turn_scale,
    turns,
    window,
)
from metastable.models.families.shared import BlockWeights, Experts, Family, FeedForward, Tensors, numbered, rms_norm


def block(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays, every key and value head repeated for the queries it serves."""
    return around(tensors, config, l, gated_mlp(tensors, l, config.hidden_act))


def around(tensors: Tensors, config: Any, l: int, mlp: FeedForward | Experts) -> BlockWeights:
    """Layer l with this MLP."""
    path, eps = f"layers.{l}", config.rms_norm_eps
    return BlockWeights(
        **llama_attention(tensors, config, l),
        scale=head_width(config) ** -0.5 * turn_scale(tensors, config),
        order="pre",
        attention_norm=rms_norm(tensors, f"{path}.input_layernorm", eps),
        mlp_norm=rms_norm(tensors, f"{path}.post_attention_layernorm", eps),
        mlp=mlp,
    )


def mask(config: Any, l: int) -> str:
    """Causal, or a causal window: where the layer slides (Qwen2), or in every layer (Mistral)."""
    if getattr(config, "layer_types", None):
        return layered_mask(config, l)
    width = getattr(config, "sliding_window", None) if config.model_type in ("mistral", "mixtral") else None
    return "causal" if width is None else window(width)


FAMILY = Family(
    name="llama",
    layers=lambda config: numbered("layers", config.num_hidden_layers),
    attention="self_attn",
    block=block,
    embedding=lambda tensors, config, rows: tensors.rows("embed_tokens.weight", rows),
    positions=lambda tensors, config, l: turns(tensors, config),
    mask=mask,
    longest=lambda config: int(config.max_position_embeddings),
    norm="norm",
    final_norm=lambda tensors, config: rms_norm(tensors, "norm", config.rms_norm_eps),
)
