"""One pass over texts: which statistics a model allows, and all of them reduced as the layers run."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ml_dtypes

from metastable.errors import InputError, unknown
from metastable.models.attention_sinks import Sinks
from metastable.models.heads import Heads
from metastable.models.layer_similarity import Similarity
from metastable.models.model import Given, Model
from metastable.models.stream import Progress, Tally, stream

if TYPE_CHECKING:
    import xarray

MEASURES = ("similarity", "heads", "sinks")


def measures_of(model: Model, measure: Sequence[str] | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is to be measured, and a note on what is left out."""
    wanted = list(MEASURES) if measure is None else [measure] if isinstance(measure, str) else list(measure)
    for key in wanted:
        if key not in MEASURES:
            raise unknown("measure", key, MEASURES)
    if model.heads or wanted == ["similarity"]:
        return tuple(key for key in MEASURES if key in wanted), ()
    if measure is not None:
        raise InputError(
            f"{model.name!r} does not show attention maps of every layer, so only measure='similarity' is possible."
        )
    return ("similarity",), (
        f"{model.name} does not show attention maps of every layer, so heads and sinks are left out.",
    )


@dataclass(frozen=True)
class Pass:
    """What is measured in a pass, the same for a model and its controls: see ``metastable.models.probe``."""

    layers: int
    longest: int
    measure: tuple[str, ...]
    special: bool
    bins: int

    def reducers(self, model: Model, layers: int) -> dict[str, Similarity | Heads | Sinks]:
        """Fresh reducers for some number of layers."""
        eps = float(ml_dtypes.finfo(model.dtype).eps)  # it knows bfloat16 too
        masks = [model.mask(layer) for layer in range(layers)] if model.heads else []
        make: dict[str, Callable[[], Similarity | Heads | Sinks]] = {
            "similarity": lambda: Similarity(layers, self.bins, self.special, eps),
            "heads": lambda: Heads(layers, model.heads, masks, self.special),
            "sinks": lambda: Sinks(layers, model.heads, masks, model.tokenizer),
        }
        return {key: make[key]() for key in self.measure}

    def run(
        self, model: Model, texts: Iterable[Any], resume: Path | None, progress: Progress | None
    ) -> "tuple[Tally, dict[str, xarray.Dataset]]":
        """Read the texts, or go on reading them; what was read, and the datasets by name."""
        reducers = self.reducers(model, self.layers)
        tally = stream(model, texts, list(reducers.values()), self.layers, self.longest, resume, progress)
        return tally, self.results(model, tally.first, reducers)

    def results(
        self, model: Model, first: Given, reducers: Mapping[str, Similarity | Heads | Sinks]
    ) -> "dict[str, xarray.Dataset]":
        """The datasets of reducers that have seen all texts, the first of which is named."""
        found = {}
        for key, reducer in reducers.items():
            if isinstance(reducer, Heads):
                found[key] = reducer.result(model.words(first, reducer.received.shape[-1]))
            else:
                found[key] = reducer.result()
        return found
