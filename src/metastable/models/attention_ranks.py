"""How low the rank of the attention matrix P is, layer by layer and head by head, on a few inputs of moderate length.

Singular values cost n^3 for each map, more than the network itself, so they are taken of a few inputs only, cut to one
length so that ranks can be averaged. What there is to compare with is ``even``: the effective rank of attention spread
evenly over the visible tokens, 1 without a mask and large under a causal one, whose triangular maps have full rank.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from metastable.models.heads import visible
from metastable.models.model import Given, Model
from metastable.observables.attention_rank import effective_rank, rank

if TYPE_CHECKING:
    import xarray

TOLERANCE = 1e-3  # of the largest singular value: what is below does not count in ``rank``
LARGEST = 512  # tokens: singular values of larger maps take too long


def attention_ranks(model: Model, given: Sequence[Given], layers: int) -> "xarray.Dataset | None":
    """Ranks of the attention maps of some inputs, as ``model.read`` gives them; None where all are too long.

    The dataset holds ``effective_rank``, exp of the entropy of the singular values, and ``rank``, how many singular
    values are above ``TOLERANCE`` of the largest, both (layer, head, text); ``even`` (layer, text), the effective rank
    of evenly spread attention; and ``tokens`` (text,), the largest rank there can be.

    Examples
    --------
    >>> from metastable.models import load
    >>> model = load("reactions-albert")  # doctest: +SKIP
    >>> attention_ranks(model, [model.read("CCO>>CC=O", 64).given], 12)["rank"].shape  # doctest: +SKIP
    (12, 8, 1)
    """
    import xarray

    found = [row for one in given if (row := _of_one(model, one, layers)) is not None]
    if not found:
        return None
    both = {name: np.stack([row[name] for row in found], axis=-1) for name in ("effective_rank", "rank", "even")}
    dims = {"effective_rank": ("layer", "head", "text"), "rank": ("layer", "head", "text"), "even": ("layer", "text")}
    return xarray.Dataset(
        {name: (dims[name], values) for name, values in both.items()}
        | {"tokens": ("text", [int(row["tokens"]) for row in found])},
        {"layer": np.arange(1, layers + 1)},
        {"tolerance": TOLERANCE},
    )


def _of_one(model: Model, given: Given, layers: int) -> dict[str, np.ndarray] | None:
    maps: list[np.ndarray] = []

    def see(layer: int, A: np.ndarray) -> None:
        if A.shape[-1] <= LARGEST:
            maps.append(np.array(A, dtype=np.float64))

    model.watch(given, layers, lambda layer, x: None, see)
    if not maps:
        return None
    n = maps[0].shape[-1]
    seen = {mask: visible(mask, n) for mask in {model.mask(layer) for layer in range(layers)}}
    even = {mask: float(effective_rank(rows / rows.sum(axis=1, keepdims=True))) for mask, rows in seen.items()}
    return {
        "effective_rank": np.stack([effective_rank(A) for A in maps]),  # (layer, head)
        "rank": np.stack([rank(A, TOLERANCE) for A in maps]),
        "even": np.array([even[model.mask(layer)] for layer in range(layers)]),
        "tokens": np.array(n),
    }
