"""StableLM: Llama with LayerNorm and rotary turns in part; some sizes have parallel blocks, normed queries and keys."""

from typing import Any

import numpy as np

from metastable.models.families import llama
from metastable.models.families.projections import expand
from metastable.models.families.rotary_decoder import gated_mlp, head_width, llama_attention, turn_scale
from metastable.models.families.shared import BlockWeights, HeadNorm, Tensors, layer_norm


def block(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays."""
    path, eps, parallel = f"layers.{l}", config.layer_norm_eps, config.use_parallel_residual
    first = layer_norm(tensors, f"{path}.input_layernorm", eps)
    return BlockWeights(
        **llama_attention(tensors, config, l),
        scale=head_width(config) ** -0.5 * turn_scale(tensors, config),
        order="parallel" if parallel else "pre",
        attention_norm=first,
        mlp_norm=first if parallel else layer_norm(tensors, f"{path}.post_attention_layernorm", eps),
        mlp=gated_mlp(tensors, l, config.hidden_act),
        q_norm=_each(tensors, config, f"{path}.self_attn.q_layernorm", config.num_attention_heads),
        k_norm=_each(tensors, config, f"{path}.self_attn.k_layernorm", config.num_key_value_heads),
    )


def _each(tensors: Tensors, config: Any, path: str, count: int) -> HeadNorm | None:
    """A LayerNorm for each head."""
    if not config.qk_layernorm:
        return None
    gains = np.stack([tensors[f"{path}.norms.{h}.weight"] for h in range(count)])
    return HeadNorm("layer", expand(gains, config.num_attention_heads), None, float(config.layer_norm_eps))


FAMILY = llama.FAMILY._replace(
    name="stablelm",
    block=block,
    final_norm=lambda tensors, config: layer_norm(tensors, "norm", config.layer_norm_eps),
)
