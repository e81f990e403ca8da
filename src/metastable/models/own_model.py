"""A pretrained model without PyTorch: the network run as the simulator's own dynamics, layer by layer.

The ladder's top rung is the network itself, so nothing else is needed to run it. Weights come from files and texts from
``tokenizers``. One compiled step serves every layer (its weights are traced) and every text of about the same length:
texts are lengthened to one of a few sizes by tokens that nobody sees.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from metastable.backend import Array, Scores, Tokens, jax, jnp, ready
from metastable.compiled_programs import make_room
from metastable.equation.attention import matrix, output, values
from metastable.equation.dynamics import Dynamics
from metastable.equation.masks import Mask
from metastable.equation.weights import Weights
from metastable.errors import InputError
from metastable.models.file_tensors import held
from metastable.models.fresh_weights import fresh
from metastable.models.layer_parts import network, norm_part
from metastable.models.model import Change, Model, See, check_layers
from metastable.models.parts import Parts, digest
from metastable.models.tokens import Tokenizer


@dataclass(eq=False, repr=False)
class OwnModel(Model):
    """A model whose weights were read from files.

    Attributes
    ----------
    name : str
        The name it was requested by.
    tokenizer : Tokenizer or None
        None when the folder holds none; texts are then lists of token ids.
    network : Parts
        Its weights.
    precision : {"float32", "float64"}
        What it computes in.
    """

    name: str
    tokenizer: Tokenizer | None = field(repr=False)
    network: Parts = field(repr=False)
    precision: str = "float32"
    _kept: dict[Any, Dynamics] = field(default_factory=dict, repr=False)

    @property
    def parts(self) -> Parts:
        """Its weights as plain arrays."""
        return self.network

    @property
    def kind(self) -> str:
        """The model's own type, such as "albert"."""
        return str(self.network.config.model_type)

    @property
    def depth(self) -> int:
        """The number of trained layers."""
        return self.network.depth

    @cached_property
    def heads(self) -> int:
        """The number of attention heads in a layer."""
        return self.network.block(0).heads

    @property
    def dimension(self) -> int:
        """The width d of a token."""
        return int(self.network.config.hidden_size)

    @property
    def dtype(self) -> str:
        """The precision it computes in."""
        return self.precision

    @property
    def longest(self) -> int:
        """The most tokens the model can take."""
        return self.network.longest

    @property
    def vocabulary(self) -> int:
        """The number of token ids."""
        return int(self.network.config.vocab_size)

    @cached_property
    def parameters(self) -> int:
        """The number of weights."""
        return sum(self.network.tensors[name].size for name in self.network.tensors)

    @cached_property
    def digest(self) -> str:
        """A few digits that tell this model's weights from those of another model of the same name."""
        return digest(self.network.tensors)

    def mask(self, layer: int) -> str:
        """Which tokens a token of a layer sees."""
        return self.network.mask(layer)

    def doubled(self) -> AbstractContextManager[None]:
        """Inside, the model computes in float64, with one layer's weights widened at a time."""
        return self._doubled()

    @contextmanager
    def _doubled(self) -> Iterator[None]:
        before, self.precision = self.precision, "float64"
        try:
            yield
        finally:
            self.precision = before

    def altered(self, change: Change) -> "OwnModel":
        """A copy of the model, held in memory, in which every weight is ``change(name, values)``."""
        tensors = self.network.tensors
        changed = {name: np.asarray(change(name, tensors[name]), self.precision) for name in tensors}
        return OwnModel(
            self.name, self.tokenizer, replace(self.network, tensors=held(self.name, changed)), self.precision
        )

    def untrained(self, seed: int) -> "OwnModel":
        """The same architecture with fresh weights."""
        return self.altered(lambda name, values: fresh(name, values, self.network.config, seed))

    def watch(self, ids: Sequence[int], layers: int, states: See, attention: See) -> None:
        """Run one text through ``layers`` layers and show every state and map as it is made: see ``Model``."""
        ready()
        make_room()
        check_layers(self, layers)
        n, size = len(ids), lengthened(len(ids))
        x = jnp.asarray(np.pad(self.start(ids), ((0, size - n), (0, 0))), self.precision)  # (m, d)
        states(0, _first(x, n))
        norm = norm_part(self.network.final_norm()) if layers == self.depth else None
        for l in range(layers):
            A, x = _step(self.layer(l, size), x, n)
            attention(l + 1, np.ascontiguousarray(_first(A, n)[:, :, :n]))
            states(l + 1, _first(x if norm is None or l + 1 < layers else norm(x).astype(self.precision), n))

    def start(self, ids: Sequence[int]) -> np.ndarray:
        """Layer 0 of a text, (n, d)."""
        found = self.network.start(ids)
        if found is not None:
            return found
        if self.network.position(0, len(ids)).kind == "embedded":
            raise InputError(f"Layer 0 of a {self.kind!r} model is made by the library transformers only.")
        return np.concatenate([self.network.embedded(slice(i, i + 1)) for i in map(int, ids)])

    def layer(self, l: int, size: int) -> Dynamics:
        """Layer l as a dynamics for ``size`` tokens, in the model's precision; kept, but for passing float64."""
        trained = 0 if self.shared else l
        position = self.network.position(trained, size)
        key = (trained, self.precision, size if position.kind == "relative" else 0)
        if key in self._kept:
            return self._kept[key]
        exact = network([self.network.block(trained)], [position], [self.mask(trained)])
        found: Dynamics = jax.tree.map(lambda a: jnp.asarray(a, self.precision), exact)
        if self.shared or self.precision == "float32":
            self._kept[key] = found
        return found


def lengthened(n: int) -> int:
    """The size that a text of n tokens is computed at: one of 16, 24, 32, 48, 64, ...

    >>> [lengthened(n) for n in (1, 16, 17, 33, 500)]
    [16, 16, 24, 48, 512]
    """
    power = 16
    while power < n:
        power *= 2
    return power * 3 // 4 if power > 16 and n <= power * 3 // 4 else power


def _first(values: Array, n: int) -> np.ndarray:
    """The first n tokens, along the last axis but one."""
    return np.asarray(values)[..., :n, :]


@dataclass(frozen=True)
class _Padded:
    """A dynamics in which the tokens that fill up are seen by nobody; they look at the first, to see something."""

    dynamics: Dynamics
    weights: Weights
    mask: Mask

    def __getattr__(self, name: str) -> Any:
        return getattr(self.dynamics, name)


@jax.jit
def _step(dynamics: Dynamics, x: Tokens, n: Array) -> tuple[Scores, Tokens]:
    """One layer: the attention map (h, m, m) and the next state (m, d) of n tokens and m - n that fill up."""
    shown: list[Scores] = []

    def visible(i: Array, j: Array) -> Array:
        seen = dynamics.mask.visible
        return jnp.where(i < n, (j < n) if seen is None else seen(i, j) & (j < n), j == 0)

    def attend(now: Dynamics, weights: Weights, y: Tokens, x: Tokens) -> Tokens:
        A = matrix(_Padded(now, weights, Mask(visible)), weights, y)  # (h, m, m)
        shown.append(A)
        return output(weights, jnp.einsum("hij,hjv->hiv", A, values(weights, x)))

    z = dynamics.layer(0.0, x, 1.0, attend)
    return shown[0], z
