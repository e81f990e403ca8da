"""DistilBERT: BERT with fewer layers and other names."""

from collections.abc import Sequence
from typing import Any

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

_EPS = 1e-12


def block(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays."""
    path, heads = f"transformer.layer.{l}", config.n_heads
    made = [projection(tensors, f"{path}.attention.{name}", heads) for name in ("q_lin", "k_lin", "v_lin")]
    return BlockWeights(
        **attention(tensors, made, f"{path}.attention.out_lin"),
        scale=(config.dim // heads) ** -0.5,
        order="post",
        attention_norm=layer_norm(tensors, f"{path}.sa_layer_norm", _EPS),
        mlp_norm=layer_norm(tensors, f"{path}.output_layer_norm", _EPS),
        mlp=feed_forward(tensors, f"{path}.ffn.lin1", f"{path}.ffn.lin2", config.activation),
    )


def start(tensors: Tensors, config: Any, ids: Sequence[int], positions: bool) -> Array:
    """Layer 0: word and position, normed."""
    x = looked_up(tensors, "embeddings.word_embeddings.weight", ids)
    if positions:
        x = x + tensors.rows("embeddings.position_embeddings.weight", slice(0, len(ids)))
    return normed(layer_norm(tensors, "embeddings.LayerNorm", _EPS), x)


FAMILY = Family(
    name="distilbert",
    layers=lambda config: numbered("transformer.layer", config.n_layers),
    attention="attention",
    block=block,
    embedding=lambda tensors, config, rows: tensors.rows("embeddings.word_embeddings.weight", rows),
    positions=lambda tensors, config, l: EMBEDDED,
    mask=lambda config, l: "full",
    longest=lambda config: int(config.max_position_embeddings),
    input_norm=lambda tensors, config: layer_norm(tensors, "embeddings.LayerNorm", _EPS),
    start=start,
)
