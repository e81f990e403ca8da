"""ALBERT: one post-norm block, shared by every layer, after a factorised embedding."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from metastable.models.families.shared import (
    EMBEDDED,
    BlockWeights,
    Family,
    Tensors,
    bias_by_head,
    by_head,
    feed_forward,
    layer_norm,
    looked_up,
    normed,
    output_by_head,
)


def layers(config: Any) -> list[str]:
    """The inner layers in the order they run: groups share the depth evenly, as the model divides it."""
    depth, groups = config.num_hidden_layers, config.num_hidden_groups
    chosen = [int(i / (depth / groups)) for i in range(depth)]
    inner = range(config.inner_group_num)
    return [f"encoder.albert_layer_groups.{g}.albert_layers.{i}" for g in chosen for i in inner]


def block(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays."""
    path, heads, eps = layers(config)[l], config.num_attention_heads, config.layer_norm_eps
    att = f"{path}.attention"
    return BlockWeights(
        Q=by_head(tensors[f"{att}.query.weight"], heads),
        K=by_head(tensors[f"{att}.key.weight"], heads),
        V=by_head(tensors[f"{att}.value.weight"], heads),
        O=output_by_head(tensors[f"{att}.dense.weight"], heads),
        q_bias=bias_by_head(tensors[f"{att}.query.bias"], heads),
        k_bias=bias_by_head(tensors[f"{att}.key.bias"], heads),
        v_bias=bias_by_head(tensors[f"{att}.value.bias"], heads),
        o_bias=tensors[f"{att}.dense.bias"],
        scale=(config.hidden_size // heads) ** -0.5,
        groups=heads,
        order="post",
        attention_norm=layer_norm(tensors, f"{att}.LayerNorm", eps),
        mlp_norm=layer_norm(tensors, f"{path}.full_layer_layer_norm", eps),
        mlp=feed_forward(tensors, f"{path}.ffn", f"{path}.ffn_output", config.hidden_act),
    )


def embedding(tensors: Tensors, config: Any, rows: slice) -> np.ndarray:
    """Word embeddings (rows, e) mapped into the hidden space (rows, d), without bias."""
    words = tensors.rows("embeddings.word_embeddings.weight", rows)
    return np.asarray(words @ tensors["encoder.embedding_hidden_mapping_in.weight"].T)


def start(tensors: Tensors, config: Any, ids: Sequence[int], positions: bool) -> np.ndarray:
    """Layer 0: word, type and position, normed, then mapped into the hidden space."""
    x = looked_up(tensors, "embeddings.word_embeddings.weight", ids)
    x = x + tensors.rows("embeddings.token_type_embeddings.weight", slice(0, 1))
    if positions:
        x = x + tensors.rows("embeddings.position_embeddings.weight", slice(0, len(ids)))
    x = normed(layer_norm(tensors, "embeddings.LayerNorm", config.layer_norm_eps), x)  # (n, e)
    path = "encoder.embedding_hidden_mapping_in"
    return np.asarray(x @ tensors[f"{path}.weight"].T + tensors[f"{path}.bias"])


FAMILY = Family(
    name="albert",
    layers=layers,
    attention="attention",
    block=block,
    embedding=embedding,
    positions=lambda tensors, config, l: EMBEDDED,
    mask=lambda config, l: "full",
    longest=lambda config: int(config.max_position_embeddings),
    shares=True,
    start=start,
)
