"""T5, encoder and decoder: pre-norm blocks, RMSNorm, relative position bias, no score scale, no biases.

Tensors are named relative to the stack: "block.0.layer.0.SelfAttention.q.weight".
"""

from typing import Any

import numpy as np

from metastable.models.families.shared import (
    BlockWeights,
    Cross,
    Family,
    Positions,
    Tensors,
    by_head,
    feed_forward,
    numbered,
    output_by_head,
    rms_norm,
)


def block(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays."""
    path, heads, eps = f"block.{l}.layer", config.num_heads, config.layer_norm_epsilon
    att, last = f"{path}.0.SelfAttention", f"{path}.{2 if config.is_decoder else 1}"
    mlp = f"{last}.DenseReluDense"
    gated = config.is_gated_act
    return BlockWeights(
        Q=by_head(tensors[f"{att}.q.weight"], heads),
        K=by_head(tensors[f"{att}.k.weight"], heads),
        V=by_head(tensors[f"{att}.v.weight"], heads),
        O=output_by_head(tensors[f"{att}.o.weight"], heads),
        q_bias=None,
        k_bias=None,
        v_bias=None,
        o_bias=None,
        scale=1.0,
        groups=heads,
        order="pre",
        attention_norm=rms_norm(tensors, f"{path}.0.layer_norm", eps),
        mlp_norm=rms_norm(tensors, f"{last}.layer_norm", eps),
        mlp=feed_forward(
            tensors,
            f"{mlp}.{'wi_1' if gated else 'wi'}",
            f"{mlp}.wo",
            config.dense_act_fn,
            gate=f"{mlp}.wi_0" if gated else "",
        ),
        cross=_cross(tensors, config, f"{path}.1"),
    )


def _cross(tensors: Tensors, config: Any, path: str) -> Cross | None:
    """A decoder's attention to its encoder; it has no positions."""
    if not config.is_decoder:
        return None
    att, heads = f"{path}.EncDecAttention", config.num_heads
    return Cross(
        Q=by_head(tensors[f"{att}.q.weight"], heads),
        K=by_head(tensors[f"{att}.k.weight"], heads),
        V=by_head(tensors[f"{att}.v.weight"], heads),
        O=output_by_head(tensors[f"{att}.o.weight"], heads),
        scale=1.0,
        norm=rms_norm(tensors, f"{path}.layer_norm", config.layer_norm_epsilon),
    )


def positions(tensors: Tensors, config: Any, l: int) -> Positions:
    """The bias that the first layer holds and every layer adds, by the offset j - i."""

    def table(n: int) -> np.ndarray:
        by_bucket = tensors["block.0.layer.0.SelfAttention.relative_attention_bias.weight"]  # (buckets, h)
        return np.asarray(by_bucket[buckets(np.arange(1 - n, n), config)].T)  # (h, 2n - 1)

    return Positions("relative", table)


def buckets(offset: np.ndarray, config: Any) -> np.ndarray:
    """Which entry of the table an offset j - i takes: near ones one each, far ones in logarithmic classes.

    An encoder halves the table between the two sides; a decoder looks back only. The logarithm is taken in float32, as
    the library does, because a class may begin at a whole number.
    """
    count, farthest = config.relative_attention_num_buckets, config.relative_attention_max_distance
    first = np.zeros_like(offset)
    if config.is_decoder:
        distance = np.maximum(-offset, 0)
    else:
        count //= 2
        first, distance = np.where(offset > 0, count, 0), np.abs(offset)
    near = count // 2
    ratio = np.log(np.maximum(distance, 1).astype(np.float32) / np.float32(near))
    far = near + (ratio / np.float32(np.log(farthest / near)) * np.float32(count - near)).astype(int)
    return np.asarray(first + np.where(distance < near, distance, np.minimum(far, count - 1)))


FAMILY = Family(
    name="t5",
    layers=lambda config: numbered("block", config.num_layers),
    attention="layer.0.SelfAttention",
    block=block,
    embedding=lambda tensors, config, rows: tensors.rows("embed_tokens.weight", rows),
    positions=positions,
    mask=lambda config, l: "causal" if config.is_decoder else "full",
    longest=lambda config: int(getattr(config, "n_positions", None) or 512),
    norm="final_layer_norm",
    final_norm=lambda tensors, config: rms_norm(tensors, "final_layer_norm", config.layer_norm_epsilon),
)
