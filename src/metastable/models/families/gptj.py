"""GPT-J: parallel blocks with one LayerNorm, no biases on attention, rotary turns of neighbours in part."""

from typing import Any

import numpy as np

from metastable.models.families.projections import attention, projection
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
    path, heads = f"h.{l}", config.n_head
    norm = layer_norm(tensors, f"{path}.ln_1", config.layer_norm_epsilon)
    made = [projection(tensors, f"{path}.attn.{name}", heads) for name in ("q_proj", "k_proj", "v_proj")]
    return BlockWeights(
        **attention(tensors, made, f"{path}.attn.out_proj"),
        scale=(config.n_embd // heads) ** -0.5,
        order="parallel",
        attention_norm=norm,
        mlp_norm=norm,
        mlp=feed_forward(tensors, f"{path}.mlp.fc_in", f"{path}.mlp.fc_out", config.activation_function),
    )


def positions(tensors: Tensors, config: Any, l: int) -> Positions:
    """Frequencies 10000^(-2c/m) of the first m coordinates, rounded to float32 as the library keeps them."""
    width = config.rotary_dim or config.n_embd // config.n_head
    table = (10000.0 ** (-np.arange(0, width, 2) / width)).astype(np.float32)
    return Positions("rotary", table.astype(np.float64), interleaved=True)


FAMILY = Family(
    name="gptj",
    layers=lambda config: numbered("h", config.n_layer),
    attention="attn",
    block=block,
    embedding=lambda tensors, config, rows: tensors.rows("wte.weight", rows),
    positions=positions,
    mask=lambda config, l: "causal",
    longest=lambda config: int(config.n_positions),
    norm="ln_f",
    final_norm=lambda tensors, config: layer_norm(tensors, "ln_f", config.layer_norm_epsilon),
)
