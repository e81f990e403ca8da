"""Llama and its kin (Mistral, Qwen2, SmolLM): pre-norm causal blocks, RMSNorm, rotary turns, grouped heads."""

from typing import Any, overload

import numpy as np

from metastable.errors import InputError
from metastable.models.families.shared import (
    BlockWeights,
    Family,
    Positions,
    Tensors,
    bias_by_head,
    by_head,
    feed_forward,
    numbered,
    output_by_head,
    rms_norm,
)
from metastable.models.rotary import frequencies


def block(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays, every key and value head repeated for the queries it serves."""
    path, att, mlp = f"layers.{l}", f"layers.{l}.self_attn", f"layers.{l}.mlp"
    heads, groups, eps = config.num_attention_heads, config.num_key_value_heads, config.rms_norm_eps
    turn = tensors.get("rotary_emb.attention_scaling")  # multiplies queries and keys alike
    length = frequencies(config)[1] if turn is None else float(turn)
    return BlockWeights(
        Q=by_head(tensors[f"{att}.q_proj.weight"], heads),
        K=expand(by_head(tensors[f"{att}.k_proj.weight"], groups), heads),
        V=expand(by_head(tensors[f"{att}.v_proj.weight"], groups), heads),
        O=output_by_head(tensors[f"{att}.o_proj.weight"], heads),
        q_bias=bias_by_head(tensors.get(f"{att}.q_proj.bias"), heads),
        k_bias=expand(bias_by_head(tensors.get(f"{att}.k_proj.bias"), groups), heads),
        v_bias=expand(bias_by_head(tensors.get(f"{att}.v_proj.bias"), groups), heads),
        o_bias=tensors.get(f"{att}.o_proj.bias"),
        scale=head_width(config) ** -0.5 * length**2,
        groups=groups,
        order="pre",
        attention_norm=rms_norm(tensors, f"{path}.input_layernorm", eps),
        mlp_norm=rms_norm(tensors, f"{path}.post_attention_layernorm", eps),
        mlp=feed_forward(tensors, f"{mlp}.up_proj", f"{mlp}.down_proj", config.hidden_act, gate=f"{mlp}.gate_proj"),
    )


def head_width(config: Any) -> int:
    """The width of one head, where the configuration states it or leaves it to the sizes."""
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


@overload
def expand(grouped: np.ndarray, heads: int) -> np.ndarray: ...
@overload
def expand(grouped: np.ndarray | None, heads: int) -> np.ndarray | None: ...
def expand(grouped: np.ndarray | None, heads: int) -> np.ndarray | None:
    """Key or value heads (g, ...) repeated to (h, ...): query head h uses group h // (heads / g)."""
    return None if grouped is None else np.repeat(grouped, heads // grouped.shape[0], axis=0)


def positions(tensors: Tensors, config: Any, l: int) -> Positions:
    """The rotary frequencies the model turns its queries and keys by.

    A loaded module holds them; for a file they are computed.
    """
    table = tensors.get("rotary_emb.inv_freq")
    return Positions("rotary", frequencies(config)[0] if table is None else table)


def mask(config: Any, l: int) -> str:
    """Causal, or a causal window where the layer slides (Mistral, some layers of Qwen2)."""
    kinds: Any = getattr(config, "layer_types", None)
    width: Any = getattr(config, "sliding_window", None)
    slides = kinds[l] == "sliding_attention" if kinds else config.model_type == "mistral" and width is not None
    if kinds and kinds[l] not in ("sliding_attention", "full_attention"):
        raise InputError(f"Layer {l} has attention of the kind {kinds[l]!r}, which is not supported.")
    return f"window({int(width) - 1}, causal)" if slides else "causal"  # the library counts the token itself


FAMILY = Family(
    name="llama",
    layers=lambda config: numbered("layers", config.num_hidden_layers),
    attention="self_attn",
    block=block,
    embedding=lambda tensors, config, rows: tensors.rows("embed_tokens.weight", rows),
    positions=positions,
    mask=mask,
    longest=lambda config: int(config.max_position_embeddings),
    norm="norm",
    final_norm=lambda tensors, config: rms_norm(tensors, "norm", config.rms_norm_eps),
)
