"""MPNet: BERT with a bias of the scores by relative position beside its absolute positions."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from metastable.models.families.projections import attention, projection
from metastable.models.families.shared import (
    Array,
    BlockWeights,
    Family,
    Positions,
    Tensors,
    feed_forward,
    layer_norm,
    numbered,
)
from metastable.models.families.t5 import buckets


def block(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays."""
    path, heads, eps = f"encoder.layer.{l}", config.num_attention_heads, config.layer_norm_eps
    made = [projection(tensors, f"{path}.attention.attn.{name}", heads) for name in "qkv"]
    return BlockWeights(
        **attention(tensors, made, f"{path}.attention.attn.o"),
        scale=(config.hidden_size // heads) ** -0.5,
        order="post",
        attention_norm=layer_norm(tensors, f"{path}.attention.LayerNorm", eps),
        mlp_norm=layer_norm(tensors, f"{path}.output.LayerNorm", eps),
        mlp=feed_forward(tensors, f"{path}.intermediate.dense", f"{path}.output.dense", config.hidden_act),
    )


_BUCKETS = SimpleNamespace(relative_attention_num_buckets=32, relative_attention_max_distance=128, is_decoder=False)


def positions(tensors: Tensors, config: Any, l: int) -> Positions:
    """The bias that every layer adds, by the offset j - i, in T5's classes."""

    def table(n: int) -> Array:
        by_bucket = tensors["encoder.relative_attention_bias.weight"]  # (buckets, h)
        return np.asarray(by_bucket[buckets(np.arange(1 - n, n), _BUCKETS)].T)  # (h, 2n - 1)

    return Positions("relative", table)


FAMILY = Family(
    name="mpnet",
    layers=lambda config: numbered("encoder.layer", config.num_hidden_layers),
    attention="attention.attn",
    block=block,
    embedding=lambda tensors, config, rows: tensors.rows("embeddings.word_embeddings.weight", rows),
    positions=positions,
    mask=lambda config, l: "full",
    longest=lambda config: int(config.max_position_embeddings) - 2,  # positions are counted from 2
    input_norm=lambda tensors, config: layer_norm(tensors, "embeddings.LayerNorm", config.layer_norm_eps),
)
