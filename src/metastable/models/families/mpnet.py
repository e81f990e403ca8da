"""MPNet: BERT with a bias of the scores by relative position beside its absolute positions."""

from collections.abc import Sequence
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
    looked_up,
    normed,
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


_PADDING = 1  # the id, whatever the configuration says
_BUCKETS = SimpleNamespace(relative_attention_num_buckets=32, relative_attention_max_distance=128, is_decoder=False)


def positions(tensors: Tensors, config: Any, l: int) -> Positions:
    """The bias that every layer adds, by the offset j - i, in T5's classes."""

    def table(n: int) -> Array:
        by_bucket = tensors["encoder.relative_attention_bias.weight"]  # (buckets, h)
        return np.asarray(by_bucket[buckets(np.arange(1 - n, n), _BUCKETS)].T)  # (h, 2n - 1)

    return Positions("relative", table)


def start(tensors: Tensors, config: Any, ids: Sequence[int], positions: bool) -> Array:
    """Layer 0: word and position, normed; positions are counted from the padding index + 1, padding left out."""
    x = looked_up(tensors, "embeddings.word_embeddings.weight", ids)
    if positions:
        read = np.asarray(ids) != _PADDING
        x = x + looked_up(tensors, "embeddings.position_embeddings.weight", np.cumsum(read) * read + _PADDING)
    return normed(layer_norm(tensors, "embeddings.LayerNorm", config.layer_norm_eps), x)


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
    start=start,
)
