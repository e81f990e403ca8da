"""What the rest of the package sees of a pretrained model: run one text, observe every layer, read every weight."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from metastable.errors import InputError
from metastable.models.families import BlockWeights
from metastable.models.parts import Parts
from metastable.models.tokens import Tokenizer, as_ids

See: TypeAlias = Callable[[int, np.ndarray], None]
Change: TypeAlias = Callable[[str, np.ndarray], np.ndarray]
Given: TypeAlias = Any  # what ``watch`` takes: token ids, or an array of pixels or features


class Reading(NamedTuple):
    """One text, image or recording as a model takes it, and whether it had to be cut."""

    given: Given
    cut: bool = False


class Model(ABC):
    """A model, ready to be run and read, wherever it comes from.

    Attributes
    ----------
    name : str
        The name it was requested by.
    tokenizer : Tokenizer or None
        None when it came without one; texts are then lists of token ids.
    """

    name: str
    tokenizer: Tokenizer | None

    def __repr__(self) -> str:
        heads = f"{self.heads} heads" if self.heads else "no attention maps"
        return f"{type(self).__name__}({self.name}: {self.kind}, {self.depth} layers, {heads}, d = {self.dimension})"

    @property
    @abstractmethod
    def kind(self) -> str:
        """The model's own type, such as "albert"."""

    @property
    @abstractmethod
    def depth(self) -> int:
        """The number of trained layers."""

    @property
    @abstractmethod
    def heads(self) -> int:
        """The number of attention heads in a layer; 0 for a model that shows no attention maps."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The width d of a token."""

    @property
    @abstractmethod
    def dtype(self) -> str:
        """The precision it computes in: "float32", "float64", ..."""

    @property
    @abstractmethod
    def longest(self) -> int:
        """The most tokens the model can take."""

    @property
    @abstractmethod
    def vocabulary(self) -> int | None:
        """The number of token ids; None for a model that reads no tokens."""

    @property
    @abstractmethod
    def parameters(self) -> int:
        """The number of weights."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """A few digits that tell this model's weights from those of another model of the same name."""

    @property
    def parts(self) -> Parts | None:
        """Its weights as plain arrays, or None where they are not known by their meaning."""
        return None

    @property
    def why_no_parts(self) -> str:
        """Why ``parts`` is None, in one sentence; empty where there are parts."""
        return ""

    @property
    def why_no_ladder(self) -> str:
        """Why the ladder cannot be climbed, in one sentence; empty where it can."""
        return self.why_no_parts

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader of its numbers should know, a sentence each."""
        return ()

    @property
    def shared(self) -> bool:
        """True when every layer is one and the same block, which can be applied again beyond the trained depth."""
        return self.parts is not None and self.parts.shared

    @property
    def causal(self) -> bool:
        """True when a token sees only the tokens before it."""
        return self.mask(0) != "full"

    @abstractmethod
    def mask(self, layer: int) -> str:
        """Which tokens a token of a layer (from 0) sees: "full", "causal" or "window(w, causal)"."""

    @abstractmethod
    def watch(self, given: Given, layers: int, states: See, attention: See) -> None:
        """Run what was ``read`` through ``layers`` layers and show every state and map as it is made; nothing is kept.

        ``states(l, x)`` is called with x (n, d) for l = 0 (embedded tokens) to ``layers``: exactly the
        ``hidden_states`` of the library ``transformers``, so the last trained layer comes after the model's final norm
        where it has one. ``attention(l, A)`` is called with A (h, n, n) for l = 1 to ``layers``. The arrays may be
        reused when the call returns: copy what is to be kept.
        """

    def read(self, item: Any, longest: int) -> Reading | None:
        """A text, or token ids, as the model takes it, cut to ``longest`` tokens; None when there is nothing in it."""
        ids = [] if isinstance(item, str) and not item.strip() else as_ids(item, self.tokenizer)
        check_ids(self, ids)
        return Reading(ids[:longest], len(ids) > longest) if ids else None

    def seen(self, ids: Sequence[int]) -> list[int]:
        """What the measured layers read of a text: a T5 decoder a start token, then all but the last."""
        return list(ids)

    def tokens(self, given: Given, n: int) -> tuple[np.ndarray, np.ndarray]:
        """The ids of the n tokens that the layers show for an input, and which of them are special, (n,) each."""
        ids, special = self.seen(given), self.tokenizer.special if self.tokenizer else frozenset()
        return np.asarray(ids), np.asarray([i in special for i in ids], dtype=bool)

    def words(self, given: Given, n: int) -> list[str]:
        """The n tokens of an input as they read, for axes and tables."""
        ids = [int(i) for i in self.tokens(given, n)[0]]
        return self.tokenizer.words(ids) if self.tokenizer else [str(i) for i in ids]

    def doubled(self) -> AbstractContextManager[None]:
        """Inside, the model computes in float64."""
        return nullcontext()

    def altered(self, change: Change) -> "Model":
        """A copy of the model in which every weight is ``change(name, values)``; its own stay as they are."""
        raise InputError(f"the weights of {self.name!r} are not at hand.")

    def untrained(self, seed: int) -> "Model":
        """The same architecture with fresh weights, as the library ``transformers`` initialises it."""
        raise InputError(f"the weights of {self.name!r} are not at hand.")

    def require_parts(self) -> Parts:
        """The parts, or the sentence that says why there are none."""
        if self.parts is None:
            raise InputError(self.why_no_parts)
        return self.parts

    def block(self, layer: int) -> BlockWeights:
        """Layer ``layer`` as plain arrays."""
        return self.require_parts().block(layer)


def check_ids(model: Model, ids: Sequence[int]) -> None:
    """Refuse token ids that the model does not have, naming the first of them."""
    size = model.vocabulary
    if size is None:
        return
    wrong = next((i for i in ids if not 0 <= i < size), None)
    if wrong is not None:
        raise InputError(f"Token ids of {model.name!r} lie between 0 and {size - 1}, but {wrong} was given.")


def check_layers(model: Model, layers: int) -> None:
    """Refuse a depth that the model cannot be run to."""
    if layers < 1:
        raise InputError(f"layers must be at least 1, not {layers}.")
    if layers > model.depth and not model.shared:
        raise InputError(
            f"{model.name!r} has {model.depth} layers, each with weights of its own, so it cannot be run to {layers}; "
            "only a model that shares one block between all its layers (ALBERT) can."
        )
