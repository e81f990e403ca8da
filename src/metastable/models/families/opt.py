"""OPT: pre-norm causal blocks with absolute positions; the 350m size is post-norm with a narrower embedding."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from metastable.models.families.projections import attention, projection
from metastable.models.families.shared import (
    EMBEDDED,
    Array,
    BlockWeights,
    Family,
    Norm,
    Tensors,
    feed_forward,
    looked_up,
    numbered,
)

_EPS = 1e-5  # PyTorch's own


def block(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays."""
    path, heads = f"decoder.layers.{l}", config.num_attention_heads
    made = [projection(tensors, f"{path}.self_attn.{name}", heads) for name in ("q_proj", "k_proj", "v_proj")]
    return BlockWeights(
        **attention(tensors, made, f"{path}.self_attn.out_proj"),
        scale=(config.hidden_size // heads) ** -0.5,
        order="pre" if config.do_layer_norm_before else "post",
        attention_norm=_norm(tensors, config, f"{path}.self_attn_layer_norm"),
        mlp_norm=_norm(tensors, config, f"{path}.final_layer_norm"),
        mlp=feed_forward(tensors, f"{path}.fc1", f"{path}.fc2", config.activation_function),
    )


def _norm(tensors: Tensors, config: Any, path: str) -> Norm:
    """LayerNorm, with gain and bias unless the configuration leaves them out."""
    gain = tensors.get(f"{path}.weight")
    return Norm("layer", np.ones(config.hidden_size) if gain is None else gain, tensors.get(f"{path}.bias"), _EPS)


def embedding(tensors: Tensors, config: Any, rows: slice) -> Array:
    """Word embeddings, mapped into the hidden space where they are narrower, (rows, d)."""
    words, into = tensors.rows("decoder.embed_tokens.weight", rows), tensors.get("decoder.project_in.weight")
    return words if into is None else np.asarray(words @ into.T)


def final_norm(tensors: Tensors, config: Any) -> Norm | None:
    """The norm of the last state; a post-norm model has none."""
    left_out = not config.do_layer_norm_before or getattr(config, "_remove_final_layer_norm", False)
    return None if left_out else _norm(tensors, config, "decoder.final_layer_norm")


def start(tensors: Tensors, config: Any, ids: Sequence[int], positions: bool) -> Array:
    """Layer 0: word and position, whose table has two rows in front that are not used."""
    x, into = looked_up(tensors, "decoder.embed_tokens.weight", ids), tensors.get("decoder.project_in.weight")
    x = x if into is None else x @ into.T
    return x + tensors.rows("decoder.embed_positions.weight", slice(2, 2 + len(ids))) if positions else x


FAMILY = Family(
    name="opt",
    layers=lambda config: numbered("decoder.layers", config.num_hidden_layers),
    attention="self_attn",
    block=block,
    embedding=embedding,
    positions=lambda tensors, config, l: EMBEDDED,
    mask=lambda config, l: "causal",
    longest=lambda config: int(config.max_position_embeddings),
    norm="decoder.final_layer_norm",
    final_norm=final_norm,
    start=start,
)
