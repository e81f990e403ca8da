"""The vision half of CLIP: ViT with a norm before the first layer."""

from typing import Any

from metastable.models.families import vit
from metastable.models.families.shared import BlockWeights, Tensors, feed_forward, layer_norm, numbered


def block(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays."""
    path = f"encoder.layers.{l}"
    mlp = feed_forward(tensors, f"{path}.mlp.fc1", f"{path}.mlp.fc2", config.hidden_act)
    names = (f"{path}.layer_norm1", f"{path}.layer_norm2")
    return vit.vision_block(tensors, config, f"{path}.self_attn", "out_proj", names, mlp)


FAMILY = vit.FAMILY._replace(
    name="clip",
    layers=lambda config: numbered("encoder.layers", config.num_hidden_layers),
    attention="self_attn",
    block=block,
    input_norm=lambda tensors, config: layer_norm(tensors, "pre_layrnorm", config.layer_norm_eps),
)
