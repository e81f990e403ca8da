"""Qwen3: Llama with queries and keys normed head by head; its mixture of experts as well."""

from dataclasses import replace
from typing import Any

from metastable.models.families import llama
from metastable.models.families.mixtral import experts
from metastable.models.families.projections import head_norms
from metastable.models.families.rotary_decoder import gated_mlp
from metastable.models.families.shared import BlockWeights, Tensors


def block(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays."""
    att = f"layers.{l}.self_attn"
    norms = head_norms(tensors, f"{att}.q_norm", f"{att}.k_norm", config.rms_norm_eps)
    return replace(llama.block(tensors, config, l), **norms)


def sparse_block(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l with its experts; some layers may have one MLP."""
    att, eps = f"layers.{l}.self_attn", config.rms_norm_eps
    sparse = f"layers.{l}.mlp.gate.weight" in tensors
    mlp = experts(tensors, config, l, config.norm_topk_prob) if sparse else gated_mlp(tensors, l, config.hidden_act)
    return replace(llama.around(tensors, config, l, mlp), **head_norms(tensors, f"{att}.q_norm", f"{att}.k_norm", eps))


FAMILY = llama.FAMILY._replace(name="qwen3", block=block)
SPARSE = llama.FAMILY._replace(name="qwen3_moe", block=sparse_block)
