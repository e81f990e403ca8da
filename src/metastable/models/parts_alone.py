"""What each part of a model does alone: taken from the exact network, and given to the bare system.

The bare system is rung 0, the papers' equation: one head, softmax, the token itself kept, on the sphere.

| part | the network without it | the bare system without it | and with it |
| --- | --- | --- | --- |
| attention | adds nothing, its output bias included | frozen tokens | rung 0 |
| softmax | all scores equal: uniform over the visible tokens, positions included | the same | rung 0 |
| heads | one head is left; the output bias stays | rung 0 | all heads: rung 1 |
| biases | of the maps Q, K, V, O | rung 0 | biases |
| positions | rotary turns or score biases; embedded ones are left out of the tokens at layer 0 | rung 0 (embedded: from tokens without them) | positions (embedded: rung 0) |
| norms | those in the layers become the identity, gains and all; the final norm stays | rung 0 | the model's norms in place of the sphere |
| MLP | adds nothing, its bias included: rung 3 | rung 0 | MLP |
| residual | x + f(x) becomes f(x) | the same | rung 0 |

Removing gives the distance of what is left from the model (the whole network has 0); adding gives how much nearer the
bare system comes, which may be negative. Only what both say, in both distances, is concluded.
"""

from typing import TYPE_CHECKING

import numpy as np

from metastable.models.token_distances import DISTANCES, RULE, over_layers, over_texts, told_apart

if TYPE_CHECKING:
    import xarray

PARTS = ("attention", "softmax", "heads", "biases", "positions", "norms", "MLP", "residual")
SIDES = ("network without it", "bare without it", "bare with it")
WAYS = ("removed", "added")

# part -> the systems that are compared: the network without it, the bare system without it and with it
SYSTEMS: dict[str, tuple[str, str, str]] = {
    "attention": ("network - attention", "frozen", "rung 0"),
    "softmax": ("network - softmax", "bare - softmax", "rung 0"),
    "heads": ("network - heads", "rung 0", "rung 1"),
    "biases": ("network - biases", "rung 0", "bare + biases"),
    "positions": ("network - positions", "rung 0", "bare + positions"),
    "norms": ("network - norms", "rung 0", "bare + norms"),
    "MLP": ("rung 3", "rung 0", "bare + MLP"),
    "residual": ("network - residual", "bare - residual", "rung 0"),
}
EMBEDDED = ("network - positions", "bare - positions", "rung 0")  # where positions are part of the embedded tokens
