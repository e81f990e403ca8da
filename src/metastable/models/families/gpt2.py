"""GPT-2: pre-norm causal blocks, absolute positions; maps are stored transposed and Q, K, V side by side."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from metastable.models.families.shared import (
    EMBEDDED,
    BlockWeights,
    Family,
    FeedForward,
    Tensors,
    activation,
    bias_by_head,
    by_head,
    layer_norm,
    looked_up,
    numbered,
    output_by_head,
)


def block(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays."""
    path, heads, eps = f"h.{l}", config.n_head, config.layer_norm_epsilon
    Q, K, V = np.split(tensors[f"{path}.attn.c_attn.weight"].T, 3)  # (h k, d) each: Conv1D stores (in, out)
    q_bias, k_bias, v_bias = np.split(tensors[f"{path}.attn.c_attn.bias"], 3)
    return BlockWeights(
        Q=by_head(Q, heads),
        K=by_head(K, heads),
        V=by_head(V, heads),
        O=output_by_head(tensors[f"{path}.attn.c_proj.weight"].T, heads),
        q_bias=bias_by_head(q_bias, heads),
        k_bias=bias_by_head(k_bias, heads),
        v_bias=bias_by_head(v_bias, heads),
        o_bias=tensors[f"{path}.attn.c_proj.bias"],
        scale=_scale(config, l),
        groups=heads,
        order="pre",
        attention_norm=layer_norm(tensors, f"{path}.ln_1", eps),
        mlp_norm=layer_norm(tensors, f"{path}.ln_2", eps),
        mlp=FeedForward(
            tensors[f"{path}.mlp.c_fc.weight"].T,
            tensors[f"{path}.mlp.c_proj.weight"].T,
            tensors[f"{path}.mlp.c_fc.bias"],
            tensors[f"{path}.mlp.c_proj.bias"],
            None,
            activation(config.activation_function),
        ),
    )


def _scale(config: Any, l: int) -> float:
    scale = (config.n_embd // config.n_head) ** -0.5 if config.scale_attn_weights else 1.0
    return float(scale / (l + 1) if config.scale_attn_by_inverse_layer_idx else scale)


def start(tensors: Tensors, config: Any, ids: Sequence[int], positions: bool) -> np.ndarray:
    """Layer 0: word and position."""
    x = looked_up(tensors, "wte.weight", ids)
    return x + tensors.rows("wpe.weight", slice(0, len(ids))) if positions else x


FAMILY = Family(
    name="gpt2",
    layers=lambda config: numbered("h", config.n_layer),
    attention="attn",
    block=block,
    embedding=lambda tensors, config, rows: tensors.rows("wte.weight", rows),
    positions=lambda tensors, config, l: EMBEDDED,
    mask=lambda config, l: "causal",
    longest=lambda config: int(config.n_positions),
    norm="ln_f",
    final_norm=lambda tensors, config: layer_norm(tensors, "ln_f", config.layer_norm_epsilon),
    start=start,
)
