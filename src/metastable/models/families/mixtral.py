"""Mixtral: Llama with several MLPs in each layer, of which a router chooses two for each token."""

from typing import Any

import numpy as np

from metastable.models.families import llama
from metastable.models.families.shared import BlockWeights, Experts, Tensors, activation


def block(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays."""
    return llama.around(tensors, config, l, experts(tensors, config, l))


def experts(tensors: Tensors, config: Any, l: int, normalised: bool = True) -> Experts:
    """The experts of layer l; gates and inner maps are stacked in one array."""
    path = f"layers.{l}.mlp"
    gate, W_in = np.split(tensors[f"{path}.experts.gate_up_proj"], 2, axis=1)  # (e, m, d) each
    return Experts(
        router=tensors[f"{path}.gate.weight"],
        W_in=W_in,
        W_out=tensors[f"{path}.experts.down_proj"],
        gate=gate,
        activation=activation(config.hidden_act),
        top=int(config.num_experts_per_tok),
        normalised=bool(normalised),
    )


FAMILY = llama.FAMILY._replace(name="mixtral", block=block)
