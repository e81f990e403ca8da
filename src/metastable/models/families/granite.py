"""Granite: Llama with multipliers of embedding, scores and what sublayers add."""

from dataclasses import replace
from typing import Any

import numpy as np

from metastable.models.families import llama
from metastable.models.families.rotary_decoder import turn_scale
from metastable.models.families.shared import Array, BlockWeights, FeedForward, Tensors


def block(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays; what it multiplies a sublayer's output by is in O and W_out."""
    plain, r = llama.block(tensors, config, l), float(config.residual_multiplier)
    assert isinstance(plain.mlp, FeedForward)
    mlp = replace(plain.mlp, W_out=r * plain.mlp.W_out, b_out=_times(r, plain.mlp.b_out))
    scale = float(config.attention_multiplier) * turn_scale(tensors, config)
    return replace(plain, O=r * plain.O, o_bias=_times(r, plain.o_bias), mlp=mlp, scale=scale)


def _times(factor: float, bias: Array | None) -> Array | None:
    return None if bias is None else factor * bias


def embedding(tensors: Tensors, config: Any, rows: slice) -> Array:
    """Word embeddings times their multiplier, (rows, d)."""
    return np.asarray(tensors.rows("embed_tokens.weight", rows) * config.embedding_multiplier)


FAMILY = llama.FAMILY._replace(name="granite", block=block, embedding=embedding)
