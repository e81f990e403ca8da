"""BERT and RoBERTa (XLM-R, CamemBERT): post-norm blocks, absolute positions, biases everywhere."""

from typing import Any

from metastable.models.families.shared import (
    EMBEDDED,
    BlockWeights,
    Family,
    Tensors,
    bias_by_head,
    by_head,
    feed_forward,
    layer_norm,
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
    input_norm=lambda tensors, config: layer_norm(tensors, "embeddings.LayerNorm", config.layer_norm_eps),
)
