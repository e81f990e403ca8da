"""DINOv2: ViT with a gain on what each sublayer adds (LayerScale); the largest size has a gated MLP."""

from dataclasses import replace
from typing import Any

from metastable.models.families import vit
from metastable.models.families.shared import BlockWeights, Norm, Tensors, feed_forward, numbered


def block(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays."""
    path = f"encoder.layer.{l}"
    mlp = f"{path}.mlp"
    if config.use_swiglu_ffn:
        fed = feed_forward(tensors, f"{mlp}.up_proj", f"{mlp}.down_proj", "silu", gate=f"{mlp}.gate_proj")
    else:
        fed = feed_forward(tensors, f"{mlp}.fc1", f"{mlp}.fc2", config.hidden_act)
    plain = vit.vision_block(tensors, config, f"{path}.attention", "o_proj", (f"{path}.norm1", f"{path}.norm2"), fed)
    first, second = (Norm("scale", tensors[f"{path}.layer_scale{k}.lambda1"], None, 0.0) for k in (1, 2))
    return replace(plain, attention_out=first, mlp_out=second)


FAMILY = vit.FAMILY._replace(
    name="dinov2", layers=lambda config: numbered("encoder.layer", config.num_hidden_layers), block=block
)
