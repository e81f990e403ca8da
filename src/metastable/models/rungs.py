"""A model's weights as the simulator's parts: one ``Dynamics`` per rung of the ladder.

| rung | what is added | tokens |
| --- | --- | --- |
| 0 | one head: softmax(beta <Q x_i, K x_j>) O V x_j, the papers' equation | unit sphere |
| 1 | all heads | unit sphere |
| 2 | biases of the maps, positions in the scores (rotary or relative) | unit sphere |
| 3 | the residual stream with the model's norms | as the model has them |
| 4 | the MLP: the exact network | as the model has them |

On the unit sphere a token represents one whose length is what the model's norm makes it, r. So beta is the model's
score scale times r^2, and biases are divided by r; the mask is the model's own on every rung.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from metastable.equation.blocks import LayerNorm, RMSNorm
from metastable.equation.dynamics import Dynamics
from metastable.equation.masks import by_layer
from metastable.equation.weights import Stack, Weights
from metastable.errors import InputError
from metastable.models.families import BlockWeights
from metastable.models.families.shared import EMBEDDED
from metastable.models.layer_parts import network, norm_part, position_part
from metastable.models.model import Model
from metastable.models.spectra import squared_length

RUNGS = ("one head", "all heads", "biases and positions", "residual and norms", "MLP: the exact network")


def rung(model: Model, number: int, n: int, layers: int, head: int = 0, first: int = 0) -> Dynamics:
    """The dynamics of one rung, for texts of n tokens through ``layers`` layers from layer ``first`` on.

    Examples
    --------
    >>> from metastable.models import load
    >>> rung(load("reactions-albert"), 0, n=20, layers=12).weights.heads  # doctest: +SKIP
    1
    """
    if not 0 <= number < len(RUNGS):
        raise InputError(f"The ladder has rungs 0 to {len(RUNGS) - 1}, not {number}.")
    if model.why_no_ladder:
        raise InputError(model.why_no_ladder)
    chosen = [0] if model.shared else list(range(first, first + layers))
    blocks = [model.block(layer) for layer in chosen]
    if not 0 <= head < blocks[0].heads:
        raise InputError(f"{model.name!r} has heads 0 to {blocks[0].heads - 1}, not {head}.")
    positions = [model.require_parts().position(layer, n) for layer in chosen] if number >= 2 else [EMBEDDED]
    masks = [model.mask(layer) for layer in chosen]
    if number >= 3:
        return network(blocks, positions, masks, with_mlp=number == 4)
    lengths = [squared_length(model, layer) for layer in chosen]
    betas = [b.scale * r for b, r in zip(blocks, lengths)]
    beta = float(np.mean(betas))
    only = head if number == 0 else None
    weights = _weights(blocks, [b / beta for b in betas], [r**0.5 for r in lengths], only, biases=number == 2)
    mask = masks[0] if len(set(masks)) == 1 else by_layer(masks)
    return Dynamics(weights, beta, mask=mask, geometry="sphere", position=position_part(positions))


def _weights(
    blocks: Sequence[BlockWeights], gains: Sequence[float], lengths: Sequence[float], head: int | None, biases: bool
) -> Weights:
    """Maps of every layer; queries times ``gains`` (what is left of the score scale), biases over ``lengths``."""
    chosen = slice(None) if head is None else slice(head, head + 1)
    maps: dict[str, list[Any]] = {
        "Q": [b.Q[chosen] * g for b, g in zip(blocks, gains)],
        "K": [b.K[chosen] for b in blocks],
        "V": [b.V[chosen] for b in blocks],
        "O": [b.O[chosen] for b in blocks],
    }
    if biases:
        maps["q_bias"] = [_over(b.q_bias, r / g) for b, g, r in zip(blocks, gains, lengths)]
        for name in ("k_bias", "v_bias", "o_bias"):
            maps[name] = [_over(getattr(b, name), r) for b, r in zip(blocks, lengths)]
    return Weights(**{name: _through(values) for name, values in maps.items()})


def _over(bias: Any, length: float) -> Any:
    return None if bias is None else bias / length


def _through(values: Sequence[Any]) -> Any:
    """One array for a shared block, a ``Stack`` over layers otherwise, None where the model has none."""
    if values[0] is None:
        return None
    return values[0] if len(values) == 1 else Stack(np.stack(values))


def final_norm(model: Model) -> LayerNorm | RMSNorm | None:
    """The norm that the model applies to its last state, or None."""
    part = norm_part(model.require_parts().final_norm())
    assert part is None or isinstance(part, (LayerNorm, RMSNorm))
    return part
