"""Vision transformers ViT and DeiT: pre-norm blocks over the patches of an image.

The library does not norm the last of its hidden states, so there is no final norm here.
"""

from typing import Any

import numpy as np

from metastable.errors import InputError
from metastable.models.families.projections import attention, projection
from metastable.models.families.shared import (
    EMBEDDED,
    Array,
    BlockWeights,
    Family,
    FeedForward,
    Tensors,
    feed_forward,
    layer_norm,
    numbered,
)


def block(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays."""
    path = f"layers.{l}"
    mlp = feed_forward(tensors, f"{path}.mlp.fc1", f"{path}.mlp.fc2", config.hidden_act)
    names = (f"{path}.layernorm_before", f"{path}.layernorm_after")
    return vision_block(tensors, config, f"{path}.attention", "o_proj", names, mlp)


def vision_block(
    tensors: Tensors, config: Any, att: str, out: str, norms: tuple[str, str], mlp: FeedForward
) -> BlockWeights:
    """A layer whose attention, output map and norms are at these paths."""
    heads, eps = config.num_attention_heads, config.layer_norm_eps
    made = [projection(tensors, f"{att}.{name}", heads) for name in ("q_proj", "k_proj", "v_proj")]
    return BlockWeights(
        **attention(tensors, made, f"{att}.{out}"),
        scale=made[0].weight.shape[1] ** -0.5,
        order="pre",
        attention_norm=layer_norm(tensors, norms[0], eps),
        mlp_norm=layer_norm(tensors, norms[1], eps),
        mlp=mlp,
    )


def no_words(tensors: Tensors, config: Any, rows: slice) -> Array:
    """A model that reads images has no vocabulary."""
    raise InputError("This model reads images, so it has no vocabulary to look tokens up in.")


def patches(config: Any) -> int:
    """The tokens of an image: its patches and a few more."""
    image, patch = (np.broadcast_to(np.asarray(size), 2) for size in (config.image_size, config.patch_size))
    return int(np.prod(image // patch)) + 2


FAMILY = Family(
    name="vit",
    layers=lambda config: numbered("layers", config.num_hidden_layers),
    attention="attention",
    block=block,
    embedding=no_words,
    positions=lambda tensors, config, l: EMBEDDED,
    mask=lambda config, l: "full",
    longest=patches,
)
