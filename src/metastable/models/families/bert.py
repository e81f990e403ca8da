"""BERT and RoBERTa (XLM-R, CamemBERT): post-norm blocks, absolute positions, biases everywhere."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from metastable.models.families.shared import (
    EMBEDDED,
    BlockWeights,
    Family,
    Norm,
    Tensors,
    bias_by_head,
    by_head,
    feed_forward,
    layer_norm,
    looked_up,
    normed,
    numbered,
    output_by_head,
)

OFFSET = ("roberta", "xlm-roberta", "camembert")  # types that count positions from the padding index + 1


def block(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays."""
    path, heads, eps = f"encoder.layer.{l}", config.num_attention_heads, config.layer_norm_eps
    att, out = f"{path}.attention.self", f"{path}.attention.output"
    return BlockWeights(
        Q=by_head(tensors[f"{att}.query.weight"], heads),
        K=by_head(tensors[f"{att}.key.weight"], heads),
        V=by_head(tensors[f"{att}.value.weight"], heads),
        O=output_by_head(tensors[f"{out}.dense.weight"], heads),
        q_bias=bias_by_head(tensors[f"{att}.query.bias"], heads),
        k_bias=bias_by_head(tensors[f"{att}.key.bias"], heads),
        v_bias=bias_by_head(tensors[f"{att}.value.bias"], heads),
        o_bias=tensors[f"{out}.dense.bias"],
        scale=(config.hidden_size // heads) ** -0.5,
        groups=heads,
        order="post",
        attention_norm=layer_norm(tensors, f"{out}.LayerNorm", eps),
        mlp_norm=layer_norm(tensors, f"{path}.output.LayerNorm", eps),
        mlp=feed_forward(tensors, f"{path}.intermediate.dense", f"{path}.output.dense", config.hidden_act),
    )


def start(tensors: Tensors, config: Any, ids: Sequence[int], positions: bool) -> np.ndarray:
    """Layer 0: word, type and position, normed."""
    x = looked_up(tensors, "embeddings.word_embeddings.weight", ids)
    x = x + tensors.rows("embeddings.token_type_embeddings.weight", slice(0, 1))
    if positions:
        x = x + looked_up(tensors, "embeddings.position_embeddings.weight", places(config, ids))
    return normed(input_norm(tensors, config), x)


def places(config: Any, ids: Sequence[int]) -> Sequence[int]:
    """Rows of the table of positions: 0, 1, ..., and in RoBERTa from the padding index + 1, padding left out."""
    if config.model_type not in OFFSET:
        return range(len(ids))
    read = np.asarray(ids) != config.pad_token_id
    return [int(i) for i in np.cumsum(read) * read + config.pad_token_id]


def input_norm(tensors: Tensors, config: Any) -> Norm:
    """The norm of the embedded text."""
    return layer_norm(tensors, "embeddings.LayerNorm", config.layer_norm_eps)


def longest(config: Any) -> int:
    """RoBERTa numbers positions from the padding index + 1, which costs it the first places of the table."""
    first = config.pad_token_id + 1 if config.model_type in OFFSET else 0
    return int(config.max_position_embeddings) - first


FAMILY = Family(
    name="bert",
    layers=lambda config: numbered("encoder.layer", config.num_hidden_layers),
    attention="attention.self",
    block=block,
    embedding=lambda tensors, config, rows: tensors.rows("embeddings.word_embeddings.weight", rows),
    positions=lambda tensors, config, l: EMBEDDED,
    mask=lambda config, l: "causal" if config.is_decoder else "full",
    longest=longest,
    input_norm=input_norm,
    start=start,
)
