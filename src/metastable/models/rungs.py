"""A model's weights as the simulator's parts: one ``Dynamics`` per rung of the ladder.

| rung | what is added | tokens |
| --- | --- | --- |
| 0 | one head: softmax(beta <Q x_i, K x_j>) O V x_j, the papers' equation | unit sphere |
| 1 | all heads | unit sphere |
| 2 | biases of the maps, positions in the scores (rotary or relative) | unit sphere |
| 3 | the residual stream with the model's norms | as the model has them |
| 4 | the MLP: the exact network | as the model has them |

On the unit sphere a particle represents a token as long as the model's own tokens are at that layer; the maps are those
that move tokens, with the norm's gain folded in (``metastable.models.sphere_rungs``). The mask is the model's own on
every rung.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from metastable.equation.blocks import MLP, Block, LayerNorm, RMSNorm
from metastable.equation.dynamics import Dynamics
from metastable.equation.positions import Position, Relative, Rotary
from metastable.equation.weights import Stack, Weights, stack
from metastable.errors import InputError
from metastable.models.families import BlockWeights, Norm
from metastable.models.model import Model
from metastable.models.sphere_rungs import Length, sphere_weights

RUNGS = ("one head", "all heads", "biases and positions", "residual and norms", "MLP: the exact network")


def rung(
    model: Model,
    number: int,
    n: int,
    layers: int,
    head: int = 0,
    first: int = 0,
    lengths: Sequence[Length] | None = None,
) -> Dynamics:
    """The dynamics of one rung, for texts of n tokens through ``layers`` layers from layer ``first`` on.

    Parameters
    ----------
    lengths : sequence of Length
        How long the tokens are that enter each of these layers (one entry for a shared block), as
        ``metastable.models.sphere_rungs.typical_lengths`` measures it: rungs 0 to 2 need it.

    Examples
    --------
    >>> from metastable.models import load
    >>> rung(load("reactions-albert"), 4, n=20, layers=12).weights.heads  # doctest: +SKIP
    8
    """
    if not 0 <= number < len(RUNGS):
        raise InputError(f"The ladder has rungs 0 to {len(RUNGS) - 1}, not {number}.")
    check_climbable(model, head)
    chosen = [0] if model.shared else list(range(first, first + layers))
    blocks = [model.block(layer) for layer in chosen]
    position = _position(model, chosen, n) if number >= 2 else None
    mask = _alike([model.mask(layer) for layer in chosen])
    if number >= 3:
        return network(blocks, position, mask, with_mlp=number == 4)
    if lengths is None or len(lengths) != len(blocks):
        raise InputError(
            f"Rungs 0 to 2 need the lengths of the tokens of {len(blocks)} layers, not "
            f"{0 if lengths is None else len(lengths)}; give lengths=typical_lengths(states)."
        )
    heads = slice(head, head + 1) if number == 0 else slice(None)
    return sphere(blocks, lengths, position, mask, heads, biases=number == 2)


def check_climbable(model: Model, head: int = 0) -> None:
    """Refuse a model without a ladder, or a head that it does not have."""
    if model.why_no_ladder:
        raise InputError(model.why_no_ladder)
    if not 0 <= head < model.heads:
        raise InputError(f"{model.name!r} has heads 0 to {model.heads - 1}, not {head}.")


def network(blocks: Sequence[BlockWeights], position: Position | None, mask: str, with_mlp: bool = True) -> Dynamics:
    """The model's own layers."""
    beta = _common_scale(blocks)
    maps: dict[str, list[Any]] = {
        "Q": [b.Q * (b.scale / beta) for b in blocks],
        "q_bias": [None if b.q_bias is None else b.q_bias * (b.scale / beta) for b in blocks],
    }
    maps |= {name: [getattr(b, name) for b in blocks] for name in ("K", "V", "O", "k_bias", "v_bias", "o_bias")}
    weights = Weights(**{name: _through(values) for name, values in maps.items()})
    parts = _block(blocks, with_mlp)
    return Dynamics(weights, beta, mask=mask, geometry="euclidean", position=position, block=parts)


def sphere(
    blocks: Sequence[BlockWeights],
    lengths: Sequence[Length],
    position: Position | None,
    mask: str,
    heads: slice = slice(None),
    biases: bool = True,
) -> Dynamics:
    """The same layers for particles on the unit sphere that represent tokens of the given lengths."""
    beta = _common_scale(blocks)
    made = [sphere_weights(b, length, b.scale / beta, heads, biases) for b, length in zip(blocks, lengths)]
    weights = made[0] if len(made) == 1 else stack(made)
    return Dynamics(weights, beta, mask=mask, geometry="sphere", position=position)


def _common_scale(blocks: Sequence[BlockWeights]) -> float:
    """The score scale of all layers, or 1 where they differ and queries take it."""
    return 1.0 if len({b.scale for b in blocks}) > 1 else blocks[0].scale


def _through(values: Sequence[Any]) -> Any:
    """One array for a shared block, a ``Stack`` over layers otherwise, None where the model has none."""
    if values[0] is None:
        return None
    return values[0] if len(values) == 1 else Stack(np.stack(values))


def _block(blocks: Sequence[BlockWeights], with_mlp: bool) -> Block:
    mlp = MLP(
        W_in=_through([b.mlp.W_in for b in blocks]),
        W_out=_through([b.mlp.W_out for b in blocks]),
        b_in=_through([b.mlp.b_in for b in blocks]),
        b_out=_through([b.mlp.b_out for b in blocks]),
        gate=_through([b.mlp.gate for b in blocks]),
        activation=blocks[0].mlp.activation,
    )
    return Block(
        mlp=mlp if with_mlp else None,
        attention_norm=norm_part([b.attention_norm for b in blocks]),
        mlp_norm=norm_part([b.mlp_norm for b in blocks]),
        order=blocks[0].order,
    )


def norm_part(norms: Sequence[Norm]) -> LayerNorm | RMSNorm:
    """A norm of the layers as a part of the equation."""
    gain, bias = _through([n.gain for n in norms]), _through([n.bias for n in norms])
    return (LayerNorm if norms[0].kind == "layer" else RMSNorm)(gain, bias, norms[0].eps)


def layer_position(model: Model, layer: int, n: int) -> Position | None:
    """What a layer adds to the scores to tell positions, or None."""
    return _position(model, [layer], n)


def _position(model: Model, layers: Sequence[int], n: int) -> Position | None:
    found = [model.require_parts().position(layer, n) for layer in layers]
    _alike([(one.kind, np.asarray(one.table, dtype=float).tobytes()) for one in found])
    if found[0].kind == "rotary":
        return Rotary(found[0].table)
    return Relative(found[0].table) if found[0].kind == "relative" else None


def _alike(values: Sequence[Any]) -> Any:
    """The one mask, or positions, of several layers."""
    if len(set(values)) > 1:
        raise InputError("The layers of this model differ in mask or positions, so it is one dynamics per layer only.")
    return values[0]
