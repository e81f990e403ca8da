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

from metastable.equation.dynamics import Dynamics
from metastable.errors import InputError
from metastable.models.families.shared import EMBEDDED
from metastable.models.layer_parts import network
from metastable.models.model import Model
from metastable.models.sphere_rungs import Length, sphere

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
    check_rungs([number])
    check_climbable(model, head)
    chosen = [0] if model.shared else list(range(first, first + layers))
    blocks = [model.block(layer) for layer in chosen]
    masks = [model.mask(layer) for layer in chosen]
    positions = [model.require_parts().position(layer, n) if number >= 2 else EMBEDDED for layer in chosen]
    if number >= 3:
        return network(blocks, positions, masks, with_mlp=number == 4)
    if lengths is None or len(lengths) != len(blocks):
        raise InputError(
            f"Rungs 0 to 2 need the lengths of the tokens of {len(blocks)} layers, not "
            f"{0 if lengths is None else len(lengths)}; give lengths=typical_lengths(states)."
        )
    heads = slice(head, head + 1) if number == 0 else slice(None)
    return sphere(blocks, lengths, positions, masks, heads, biases=number == 2)


def check_rungs(numbers: Sequence[int]) -> None:
    """Refuse rungs that the ladder does not have."""
    for number in numbers:
        if not 0 <= number < len(RUNGS):
            raise InputError(f"The ladder has rungs 0 to {len(RUNGS) - 1}, not {number}.")


def check_climbable(model: Model, head: int = 0) -> None:
    """Refuse a model without a ladder, or a head that it does not have."""
    if model.why_no_ladder:
        raise InputError(model.why_no_ladder)
    if not 0 <= head < model.heads:
        raise InputError(f"{model.name!r} has heads 0 to {model.heads - 1}, not {head}.")
