"""SmolLM3: Llama in which every fourth layer has no positions."""

from dataclasses import replace
from typing import Any

import numpy as np

from metastable.models.families import llama
from metastable.models.families.rotary_decoder import head_width, turns
from metastable.models.families.shared import BlockWeights, Positions, Tensors


def block(tensors: Tensors, config: Any, l: int) -> BlockWeights:
    """Layer l as plain arrays."""
    plain = llama.block(tensors, config, l)
    return plain if config.no_rope_layers[l] else replace(plain, scale=head_width(config) ** -0.5)


def positions(tensors: Tensors, config: Any, l: int) -> Positions:
    """The rotary frequencies, 0 where the layer does not turn."""
    if config.no_rope_layers[l]:
        return turns(tensors, config)
    return Positions("rotary", np.zeros(head_width(config) // 2))


FAMILY = llama.FAMILY._replace(name="smollm3", block=block, positions=positions)
