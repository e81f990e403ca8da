"""A model's weights as plain arrays: a family applied to tensors, whether they come from a module or from a file."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from metastable.errors import InputError
from metastable.models.families import BlockWeights, Family, Norm, Positions, Tensors


@dataclass(frozen=True, eq=False)
class Parts:
    """What the theory needs of a model: each layer's maps, norms, positions and mask, as float64 arrays.

    Attributes
    ----------
    name : str
        The model's name, for messages.
    family : Family
        Where the parts are (``metastable.models.families``).
    tensors : Tensors
        Weights by the library's own names.
    config : object
        Its attributes are the entries of the model's ``config.json``.
    """

    name: str
    family: Family = field(repr=False)
    tensors: Tensors = field(repr=False)
    config: Any = field(repr=False)

    @property
    def depth(self) -> int:
        """The number of trained layers."""
        return len(self.family.layers(self.config))

    @property
    def shared(self) -> bool:
        """True when every layer is one and the same block, which can be applied again beyond the trained depth."""
        return self.family.shares and len(set(self.family.layers(self.config))) == 1

    @property
    def distinct(self) -> list[int]:
        """The layers whose weights differ from those of all layers before: one for an ALBERT with one group."""
        first: dict[Any, int] = {}
        for layer, path in enumerate(self.family.layers(self.config)):
            first.setdefault(path, layer)
        return list(first.values())

    @property
    def longest(self) -> int:
        """The most tokens the model can take."""
        return self.family.longest(self.config)

    def block(self, layer: int) -> BlockWeights:
        """Layer ``layer`` as plain arrays."""
        if not 0 <= layer < self.depth:
            raise InputError(f"{self.name!r} has layers 0 to {self.depth - 1}, not {layer}.")
        return self.family.block(self.tensors, self.config, layer)

    def embedded(self, rows: slice = slice(None)) -> np.ndarray:
        """The vocabulary, or some rows of it, in the model's own space, (rows, d)."""
        return self.family.embedding(self.tensors, self.config, rows)

    def start(self, ids: Sequence[int], positions: bool = True) -> np.ndarray | None:
        """Layer 0 of a text (n, d), with or without the positions that are part of it; None where it is not known."""
        found = self.family.start
        return None if found is None else found(self.tensors, self.config, ids, positions)

    def position(self, layer: int, n: int) -> Positions:
        """How positions enter the scores of a layer, for n tokens: a relative table is (h, 2n - 1)."""
        found = self.family.positions(self.tensors, self.config, self._trained(layer))
        return replace(found, table=found.table(n)) if callable(found.table) else found

    def mask(self, layer: int) -> str:
        """Which tokens a token of the layer sees: "full", "causal" or "window(w, causal)"."""
        return self.family.mask(self.config, self._trained(layer))

    def final_norm(self) -> Norm | None:
        """The norm that the model applies to its last state, or None."""
        return self.family.final_norm(self.tensors, self.config)

    def input_norm(self) -> Norm | None:
        """The norm whose output is the first layer's input, as in a BERT, or None."""
        return self.family.input_norm(self.tensors, self.config)

    def _trained(self, layer: int) -> int:
        """A layer beyond the trained depth is the shared block again."""
        return min(layer, self.depth - 1)


_SAMPLE = 1024  # numbers of a tensor that enter its digest


def digest(tensors: Tensors) -> str:
    """Sixteen hexadecimal digits that tell weights apart: names, shapes and evenly spaced numbers of every tensor."""
    found = hashlib.sha256()
    for name in sorted(tensors):
        shape, values = tensors.spaced(name, _SAMPLE)
        found.update(f"{name} {shape}".encode())
        found.update(np.ascontiguousarray(values).tobytes())
    return found.hexdigest()[:16]
