"""ModernBERT: pre-norm blocks with gated MLPs, rotary turns, and windows in two layers of three.

The first layer has no norm before its attention: the embedding has been normed already.
"""

from typing import Any

import numpy as np

from metastable.models.families.projections import attention, stacked
from metastable.models.families.rotary_decoder import head_width, sliding, turn_scale, turns
from metastable.models.families.shared import (
    BlockWeights,
    Family,
    FeedForward,
    Tensors,
    activation,
    layer_norm,
    numbered,
)


def block(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays."""
    path, eps, heads = f"layers.{l}", config.norm_eps, config.num_attention_heads
    return BlockWeights(
        **attention(tensors, stacked(tensors, f"{path}.attn.Wqkv", heads, heads), f"{path}.attn.Wo"),
        scale=head_width(config) ** -0.5 * turn_scale(tensors, config, config.layer_types[l]),
        order="pre",
        attention_norm=layer_norm(tensors, f"{path}.attn_norm", eps) if l else None,
        mlp_norm=layer_norm(tensors, f"{path}.mlp_norm", eps),
        mlp=_mlp(tensors, config, f"{path}.mlp"),
    )


def _mlp(tensors: Tensors, config: Any, path: str) -> FeedForward:
    """W_o (act(first x) * (second x)): the two halves of one map."""
    gate, W_in = np.split(tensors[f"{path}.Wi.weight"], 2)
    bias = tensors.get(f"{path}.Wi.bias")
    b_gate, b_in = (None, None) if bias is None else np.split(bias, 2)
    act = activation(config.hidden_activation)
    return FeedForward(W_in, tensors[f"{path}.Wo.weight"], b_in, tensors.get(f"{path}.Wo.bias"), gate, act, b_gate)


def mask(config: Any, l: int) -> str:
    """Full, or a window to both sides where the layer slides."""
    return f"window({int(config.local_attention) // 2})" if sliding(config, l) else "full"


FAMILY = Family(
    name="modernbert",
    layers=lambda config: numbered("layers", config.num_hidden_layers),
    attention="attn",
    block=block,
    embedding=lambda tensors, config, rows: tensors.rows("embeddings.tok_embeddings.weight", rows),
    positions=lambda tensors, config, l: turns(tensors, config, config.layer_types[l]),
    mask=mask,
    longest=lambda config: int(config.max_position_embeddings),
    norm="final_norm",
    final_norm=lambda tensors, config: layer_norm(tensors, "final_norm", config.norm_eps),
    input_norm=lambda tensors, config: layer_norm(tensors, "embeddings.norm", config.norm_eps),
)
