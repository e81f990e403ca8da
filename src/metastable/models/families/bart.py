"""The encoder of BART: post-norm blocks with absolute positions. Tensors are named relative to the encoder."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from metastable.models.families.projections import attention, projection
from metastable.models.families.shared import (
    EMBEDDED,
    Array,
    BlockWeights,
    Family,
    Tensors,
    feed_forward,
    layer_norm,
    looked_up,
    normed,
    numbered,
)

_EPS = 1e-5  # PyTorch's own


def block(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays."""
    path, heads = f"layers.{l}", config.encoder_attention_heads
    made = [projection(tensors, f"{path}.self_attn.{name}", heads) for name in ("q_proj", "k_proj", "v_proj")]
    return BlockWeights(
        **attention(tensors, made, f"{path}.self_attn.out_proj"),
        scale=(config.d_model // heads) ** -0.5,
        order="post",
        attention_norm=layer_norm(tensors, f"{path}.self_attn_layer_norm", _EPS),
        mlp_norm=layer_norm(tensors, f"{path}.final_layer_norm", _EPS),
        mlp=feed_forward(tensors, f"{path}.fc1", f"{path}.fc2", config.activation_function),
    )


def embedding(tensors: Tensors, config: Any, rows: slice) -> Array:
    """Word embeddings, in some models times sqrt(d), (rows, d)."""
    words = tensors.rows("embed_tokens.weight", rows)
    return np.asarray(words * config.d_model**0.5) if config.scale_embedding else words


def start(tensors: Tensors, config: Any, ids: Sequence[int], positions: bool) -> Array:
    """Layer 0: word and position, normed; the table of positions has two rows in front that are not used."""
    x = looked_up(tensors, "embed_tokens.weight", ids) * (config.d_model**0.5 if config.scale_embedding else 1.0)
    if positions:
        x = x + tensors.rows("embed_positions.weight", slice(2, 2 + len(ids)))
    return normed(layer_norm(tensors, "layernorm_embedding", _EPS), x)


FAMILY = Family(
    name="bart",
    layers=lambda config: numbered("layers", config.encoder_layers),
    attention="self_attn",
    block=block,
    embedding=embedding,
    positions=lambda tensors, config, l: EMBEDDED,
    mask=lambda config, l: "full",
    longest=lambda config: int(config.max_position_embeddings),
    input_norm=lambda tensors, config: layer_norm(tensors, "layernorm_embedding", _EPS),
    decoders=False,
    start=start,
)
