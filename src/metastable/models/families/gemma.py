"""Gemma 1, 2 and 3 (text): Llama with gains kept less 1 and a scaled embedding.

Gemma 2 norms what sublayers give as well, caps its scores and alternates windows; Gemma 3 norms queries and keys
instead of capping, and turns layers with windows at other frequencies.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from metastable.models.families import llama
from metastable.models.families.projections import head_norms
from metastable.models.families.rotary_decoder import (
    gated_mlp,
    head_width,
    layered_mask,
    llama_attention,
    sliding,
    turn_scale,
    turns,
)
from metastable.models.families.shared import Array, BlockWeights, Norm, Positions, Tensors, rms_norm


def block(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l of Gemma 1."""
    return BlockWeights(
        **llama_attention(tensors, config, l),
        scale=head_width(config) ** -0.5 * turn_scale(tensors, config),
        order="pre",
        attention_norm=_norm(tensors, config, f"layers.{l}.input_layernorm"),
        mlp_norm=_norm(tensors, config, f"layers.{l}.post_attention_layernorm"),
        mlp=gated_mlp(tensors, l, config.hidden_act),
    )


def block_2(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l of Gemma 2."""
    return _between(tensors, config, l, turn_scale(tensors, config), config.attn_logit_softcapping)


def block_3(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l of Gemma 3."""
    att = f"layers.{l}.self_attn"
    plain = _between(tensors, config, l, turn_scale(tensors, config, config.layer_types[l]), None)
    return replace(plain, **head_norms(tensors, f"{att}.q_norm", f"{att}.k_norm", config.rms_norm_eps, offset=1.0))


def _between(tensors: Tensors, config: Any, l: int, turned: float, cap: float | None) -> BlockWeights:
    """A layer with norms before and after its sublayers."""
    names = ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm")
    before, after, mlp_before, mlp_after = (_norm(tensors, config, f"layers.{l}.{name}") for name in names)
    return BlockWeights(
        **llama_attention(tensors, config, l),
        scale=config.query_pre_attn_scalar**-0.5 * turned,
        order="pre",
        attention_norm=before,
        attention_out=after,
        mlp_norm=mlp_before,
        mlp_out=mlp_after,
        mlp=gated_mlp(tensors, l, config.hidden_activation),
        cap=cap,
    )


def _norm(tensors: Tensors, config: Any, path: str) -> Norm:
    return rms_norm(tensors, path, config.rms_norm_eps, offset=1.0)


def embedding(tensors: Tensors, config: Any, rows: slice) -> Array:
    """Word embeddings times sqrt(d), (rows, d)."""
    return np.asarray(tensors.rows("embed_tokens.weight", rows) * float(np.float32(config.hidden_size**0.5)))


def positions_3(tensors: Tensors, config: Any, l: int) -> Positions:
    """Frequencies of the layer's kind."""
    return turns(tensors, config, config.layer_types[l])


def mask_3(config: Any, l: int) -> str:
    """As in Gemma 2, or windows and full attention without a direction (embedding models)."""
    if not config.use_bidirectional_attention:
        return layered_mask(config, l)
    return f"window({int(config.sliding_window) - 1})" if sliding(config, l) else "full"


FAMILY = llama.FAMILY._replace(
    name="gemma",
    block=block,
    embedding=embedding,
    mask=lambda config, l: "causal",
    final_norm=lambda tensors, config: _norm(tensors, config, "norm"),
)
SECOND = FAMILY._replace(name="gemma2", block=block_2, mask=layered_mask)
THIRD = FAMILY._replace(name="gemma3", block=block_3, positions=positions_3, mask=mask_3)
