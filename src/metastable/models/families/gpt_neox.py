"""GPT-NeoX and Pythia: parallel blocks with two LayerNorms, maps woven head by head, rotary turns in part."""

from typing import Any

from metastable.models.families.projections import attention, woven
from metastable.models.families.rotary_decoder import head_width, turn_scale, turns
from metastable.models.families.shared import BlockWeights, Family, Tensors, feed_forward, layer_norm, numbered


def block(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays."""
    path, eps, heads = f"layers.{l}", config.layer_norm_eps, config.num_attention_heads
    made = woven(tensors, f"{path}.attention.query_key_value", heads, heads)
    mlp = f"{path}.mlp"
    return BlockWeights(
        **attention(tensors, made, f"{path}.attention.dense"),
        scale=head_width(config) ** -0.5 * turn_scale(tensors, config),
        order="parallel" if config.use_parallel_residual else "pre",
        attention_norm=layer_norm(tensors, f"{path}.input_layernorm", eps),
        mlp_norm=layer_norm(tensors, f"{path}.post_attention_layernorm", eps),
        mlp=feed_forward(tensors, f"{mlp}.dense_h_to_4h", f"{mlp}.dense_4h_to_h", config.hidden_act),
    )


FAMILY = Family(
    name="gpt_neox",
    layers=lambda config: numbered("layers", config.num_hidden_layers),
    attention="attention",
    block=block,
    embedding=lambda tensors, config, rows: tensors.rows("embed_in.weight", rows),
    positions=lambda tensors, config, l: turns(tensors, config),
    mask=lambda config, l: "causal",
    longest=lambda config: int(config.max_position_embeddings),
    norm="final_layer_norm",
    final_norm=lambda tensors, config: layer_norm(tensors, "final_layer_norm", config.layer_norm_eps),
)
