"""StarCoder 2: Llama with LayerNorm, biases and an MLP without a gate."""

from typing import Any

from metastable.models.families import llama
from metastable.models.families.rotary_decoder import head_width, llama_attention, turn_scale, window
from metastable.models.families.shared import BlockWeights, Tensors, feed_forward, layer_norm


def block(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays."""
    path, eps = f"layers.{l}", config.norm_epsilon
    return BlockWeights(
        **llama_attention(tensors, config, l),
        scale=head_width(config) ** -0.5 * turn_scale(tensors, config),
        order="pre",
        attention_norm=layer_norm(tensors, f"{path}.input_layernorm", eps),
        mlp_norm=layer_norm(tensors, f"{path}.post_attention_layernorm", eps),
        mlp=feed_forward(tensors, f"{path}.mlp.c_fc", f"{path}.mlp.c_proj", config.hidden_act),
    )


FAMILY = llama.FAMILY._replace(
    name="starcoder2",
    block=block,
    mask=lambda config, l: "causal" if config.sliding_window is None else window(config.sliding_window),
    final_norm=lambda tensors, config: layer_norm(tensors, "norm", config.norm_epsilon),
)
