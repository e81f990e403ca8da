"""States and maps that somebody else computed, as a model: nothing is run, everything can be measured."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from metastable.errors import InputError
from metastable.models.attention_masks import mask_of
from metastable.models.model import Given, Model, Reading, See, check_layers
from metastable.models.tokens import Tokenizer, is_punctuation

_SPECIAL = re.compile(r"\[[A-Z]+\]|<[^<>\s]+>")  # [CLS], <s>, <|endoftext|>
_SEPARATORS = ("[SEP]", "</s>", "<|endoftext|>")
_UNLIMITED = 1 << 20
_SUM = 1e-3  # how far the sum of a row of attention may be from 1 without a word


@dataclass(frozen=True, eq=False)
class Run:
    """One text through a network: states (layers + 1, n, d), maps (layers, h, n, n) or None, token ids (n,)."""

    states: np.ndarray
    attention: np.ndarray | None
    ids: np.ndarray

    def __repr__(self) -> str:
        return f"Run({_digest([self])})"


@dataclass(frozen=True, eq=False, repr=False)
class ArrayModel(Model):
    """Given states and maps of one or several texts.

    Attributes
    ----------
    runs : tuple of Run
        The texts, in order: what ``watch`` takes is one of them.
    """

    name: str
    runs: tuple[Run, ...] = field(repr=False)
    tokenizer: Tokenizer | None = field(repr=False)

    @property
    def kind(self) -> str:
        """The model's own type."""
        return "arrays"

    @property
    def depth(self) -> int:
        """The number of layers."""
        return len(self.runs[0].states) - 1

    @property
    def heads(self) -> int:
        """The number of attention heads in a layer; 0 when no maps were given."""
        maps = self.runs[0].attention
        return 0 if maps is None else int(maps.shape[1])

    @property
    def dimension(self) -> int:
        """The width d of a token."""
        return int(self.runs[0].states.shape[-1])

    @property
    def dtype(self) -> str:
        """The precision of the states."""
        return str(self.runs[0].states.dtype)

    @property
    def longest(self) -> int:
        """There is no limit."""
        return _UNLIMITED

    @property
    def vocabulary(self) -> int | None:
        """Arrays read no token ids."""
        return None

    @property
    def parameters(self) -> int:
        """Weights are not known."""
        return 0

    @cached_property
    def digest(self) -> str:
        """A few digits that tell these arrays from others."""
        return _digest(self.runs)

    @property
    def why_no_parts(self) -> str:
        """Why there are no weights."""
        return f"{self.name!r} is states and maps without weights, so spectra and the ladder are left out."

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Maps whose rows are no averages are named."""
        maps = [run.attention for run in self.runs if run.attention is not None]
        off = max((float(np.abs(A.sum(-1, dtype=np.float64) - 1.0).max()) for A in maps), default=0.0)
        if off <= _SUM:
            return ()
        return (
            f"Rows of the attention maps do not sum to 1 (they are off by up to {off:.2g}); they are taken as given.",
        )

    @cached_property
    def _masks(self) -> tuple[str, ...]:
        longest = max(self.runs, key=lambda run: len(run.ids))
        assert longest.attention is not None
        return tuple(mask_of((A > 0).any(0)) for A in longest.attention)

    def mask(self, layer: int) -> str:
        """Which tokens a token of a layer sees, as the maps of the longest text show it."""
        return self._masks[layer] if self.heads else "full"

    def read(self, item: Any, longest: int) -> Reading | None:
        """One of the runs, whole."""
        if not isinstance(item, Run):
            raise InputError(f"{self.name!r} is given states, which cannot read a text; measure the texts they are of.")
        return Reading(item)

    def tokens(self, given: Given, n: int) -> tuple[np.ndarray, np.ndarray]:
        """The ids of the tokens, and which are special."""
        special = self.tokenizer.special if self.tokenizer else frozenset()
        return given.ids, np.asarray([int(i) in special for i in given.ids], dtype=bool)

    def watch(self, given: Given, layers: int, states: See, attention: See) -> None:
        """Show a run layer by layer."""
        check_layers(self, layers)
        for layer in range(layers + 1):
            if layer and given.attention is not None:
                attention(layer, given.attention[layer - 1])
            states(layer, given.states[layer])


def array_model(
    states: Sequence[Any], attention: Sequence[Any] | None, tokens: Sequence[Any] | None, name: str
) -> ArrayModel:
    """The model of several texts: a list of states, of maps (or None) and of tokens (words or ids, or None)."""
    if not states:
        raise InputError("There are no states: give an array (layer, token, d) or a list of such.")
    for what, given in (("attention", attention), ("tokens", tokens)):
        if given is not None and len(given) != len(states):
            raise InputError(f"{what} is of {len(given)} texts, but the states are of {len(states)}.")
    x = [_states(one, number) for number, one in enumerate(states)]
    shapes = {(len(one), one.shape[-1]) for one in x}
    if len(shapes) > 1:
        raise InputError(f"The texts differ in their layers and width, (layers + 1, d): {sorted(shapes)}.")
    maps = [None] * len(x) if attention is None else [_maps(A, one, k) for k, (A, one) in enumerate(zip(attention, x))]
    if len({A.shape[1] for A in maps if A is not None}) > 1:
        raise InputError("The texts differ in their number of heads.")
    ids, tokenizer = _named(x, tokens)
    runs = tuple(Run(one, A, i) for one, A, i in zip(x, maps, ids))
    return ArrayModel(name, runs, tokenizer)


def _states(given: Any, number: int) -> np.ndarray:
    x = as_array(given)
    if x.ndim != 3 or x.shape[0] < 2 or 0 in x.shape:
        stacked = " (with four axes the first counts texts: give hidden_states as the tuple they are)"
        hint = stacked if x.ndim == 3 and len(x) == 1 else ""
        raise InputError(
            f"States are (layer, token, d) with at least two layers; those of text {number} are {x.shape}{hint}."
        )
    if not np.isfinite(x).all():
        layer = int(np.flatnonzero(~np.isfinite(x).all(axis=(1, 2)))[0])
        raise InputError(f"The states of text {number} hold nan or inf at layer {layer}.")
    return x


def _maps(given: Any, x: np.ndarray, number: int) -> np.ndarray:
    A = as_array(given)
    A = A[:, None] if A.ndim == 3 else A  # a single head
    layers, n = len(x) - 1, x.shape[1]
    if A.ndim != 4 or A.shape[0] != layers or A.shape[2:] != (n, n) or not A.shape[1]:
        raise InputError(
            f"Attention maps are (layer, head, token, token), one layer fewer than states: here ({layers}, h, {n}, "
            f"{n}), but those of text {number} are {A.shape}."
        )
    if not np.isfinite(A).all() or (A < 0).any():
        raise InputError(
            f"The attention maps of text {number} hold negative numbers, nan or inf; give them after softmax."
        )
    return A


def as_array(given: Any) -> np.ndarray:
    """Numbers of any library as a float array; integers and half precision of other kinds are widened to float32."""
    if hasattr(given, "detach"):  # a torch tensor, wherever it is
        given = given.detach().float().cpu() if given.element_size() < 4 else given.detach().cpu()
    try:
        array = np.asarray(given)
        if array.dtype.kind == "c":  # a cast would drop the imaginary parts
            raise TypeError("complex numbers")
        return array if array.dtype in (np.float32, np.float64) else array.astype(np.float32)
    except (TypeError, ValueError) as error:
        what = "complex numbers" if str(error) == "complex numbers" else type(given).__name__
        raise InputError(f"States and maps are arrays of numbers, not {what}.") from error


def _named(x: Sequence[np.ndarray], tokens: Sequence[Any] | None) -> tuple[list[np.ndarray], Tokenizer | None]:
    """Token ids of every text, and the words behind them where words were given."""
    if tokens is None:
        return [np.arange(one.shape[1]) for one in x], None
    lists = [list(one) for one in tokens]
    for number, (one, states) in enumerate(zip(lists, x)):
        if len(one) != states.shape[1]:
            raise InputError(f"Text {number} has {states.shape[1]} tokens in its states, but {len(one)} are named.")
    if all(isinstance(token, (int, np.integer)) for one in lists for token in one):
        return [np.asarray(one, dtype=int) for one in lists], None
    words = [[str(token) for token in one] for one in lists]
    pieces = tuple(dict.fromkeys(word for one in words for word in one))
    place = {word: i for i, word in enumerate(pieces)}
    special = frozenset(i for word, i in place.items() if _SPECIAL.fullmatch(word.strip()))
    ends = frozenset(place[word] for word in _SEPARATORS if word in place)
    return [np.array([place[word] for word in one]) for one in words], Tokenizer(
        _no_text, pieces, special, ends, is_punctuation
    )


def _no_text(text: str) -> list[int]:
    raise InputError("States and maps were given, which cannot read a text.")


def _digest(runs: Sequence[Run]) -> str:
    found = hashlib.sha256()
    for run in runs:
        for part in (run.states, run.attention, run.ids):
            found.update(b"-" if part is None else np.ascontiguousarray(part).tobytes())
    return found.hexdigest()[:16]
