"""GPT-Neo: GPT-2 with maps apart, unscaled scores, and windows in every second layer."""

from typing import Any

from metastable.models.families import gpt2
from metastable.models.families.projections import attention, projection
from metastable.models.families.rotary_decoder import window
from metastable.models.families.shared import (
    EMBEDDED,
    BlockWeights,
    Family,
    Tensors,
    feed_forward,
    layer_norm,
    numbered,
)


def block(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays."""
    path, att, eps = f"h.{l}", f"h.{l}.attn.attention", config.layer_norm_epsilon
    made = [projection(tensors, f"{att}.{name}", config.num_heads) for name in ("q_proj", "k_proj", "v_proj")]
    return BlockWeights(
        **attention(tensors, made, f"{att}.out_proj"),
        scale=1.0,
        order="pre",
        attention_norm=layer_norm(tensors, f"{path}.ln_1", eps),
        mlp_norm=layer_norm(tensors, f"{path}.ln_2", eps),
        mlp=feed_forward(tensors, f"{path}.mlp.c_fc", f"{path}.mlp.c_proj", config.activation_function),
    )


def mask(config: Any, l: int) -> str:
    """Causal, or a causal window where the layer is "local"; the configuration lists patterns and their repeats."""
    kinds = [kind for pattern, count in config.attention_types for _ in range(count) for kind in pattern]
    return window(config.window_size) if kinds[l] == "local" else "causal"


FAMILY = Family(
    name="gpt_neo",
    layers=lambda config: numbered("h", config.num_layers),
    attention="attn.attention",
    block=block,
    embedding=lambda tensors, config, rows: tensors.rows("wte.weight", rows),
    positions=lambda tensors, config, l: EMBEDDED,
    mask=mask,
    longest=lambda config: int(config.max_position_embeddings),
    norm="ln_f",
    final_norm=lambda tensors, config: layer_norm(tensors, "ln_f", config.layer_norm_epsilon),
    start=gpt2.start,
)
