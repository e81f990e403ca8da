"""BLOOM: pre-norm causal blocks, maps woven head by head, and ALiBi: scores fall linearly with distance."""

from typing import Any

import numpy as np

from metastable.equation.positions import alibi
from metastable.models.families.projections import attention, woven
from metastable.models.families.shared import (
    BlockWeights,
    Family,
    Positions,
    Tensors,
    feed_forward,
    layer_norm,
    numbered,
)


def block(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays."""
    path, eps, heads = f"h.{l}", config.layer_norm_epsilon, config.n_head
    made = woven(tensors, f"{path}.self_attention.query_key_value", heads, heads)
    return BlockWeights(
        **attention(tensors, made, f"{path}.self_attention.dense"),
        scale=(config.hidden_size // heads) ** -0.5,
        order="pre",
        attention_norm=layer_norm(tensors, f"{path}.input_layernorm", eps),
        mlp_norm=layer_norm(tensors, f"{path}.post_attention_layernorm", eps),
        mlp=feed_forward(tensors, f"{path}.mlp.dense_h_to_4h", f"{path}.mlp.dense_4h_to_h", "gelu_new"),
    )


def positions(tensors: Tensors, config: Any, l: int) -> Positions:
    """slope (j - i) by the offset; later tokens are not seen."""
    slopes = np.asarray(alibi(config.n_head).slopes)
    return Positions("relative", lambda n: slopes[:, None] * np.arange(1 - n, n))  # (h, 2n - 1)


FAMILY = Family(
    name="bloom",
    layers=lambda config: numbered("h", config.n_layer),
    attention="self_attention",
    block=block,
    embedding=lambda tensors, config, rows: tensors.rows("word_embeddings.weight", rows),
    positions=positions,
    mask=lambda config, l: "causal",
    longest=lambda config: int(getattr(config, "seq_length", None) or 2048),  # what it was trained on; it takes more
    norm="ln_f",
    final_norm=lambda tensors, config: layer_norm(tensors, "ln_f", config.layer_norm_epsilon),
    input_norm=lambda tensors, config: layer_norm(tensors, "word_embeddings_layernorm", config.layer_norm_epsilon),
    refuses=lambda config: (
        "This BLOOM adds to normed tokens (apply_residual_connection_post_layernorm), an order of parts not known here."
        if config.apply_residual_connection_post_layernorm
        else ""
    ),
)
