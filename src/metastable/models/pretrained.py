"""A pretrained model as the rest of the package sees it: run one text, observe every layer, read every weight."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from metastable.errors import InputError
from metastable.models.families import BlockWeights, Family
from metastable.models.tokens import Tokenizer

if TYPE_CHECKING:
    import torch

See: TypeAlias = "Callable[[int, torch.Tensor], None]"


@dataclass(frozen=True, eq=False)
class Model:
    """A pretrained model, ready to be run and read.

    Attributes
    ----------
    name : str
        The name it was requested by.
    family : Family
        Where its parts are (``metastable.models.families``).
    stack : torch module
        The layers that are measured: the whole model, or one half of a T5.
    whole : torch module
        What is called to run them: differs from ``stack`` for a T5 decoder, which needs its encoder.
    tokenizer : Tokenizer or None
        None when the folder holds none; texts are then lists of token ids.
    """

    name: str
    family: Family = field(repr=False)
    stack: Any = field(repr=False)
    whole: Any = field(repr=False)
    tokenizer: Tokenizer | None = field(repr=False)

    @property
    def depth(self) -> int:
        """The number of trained layers."""
        return len(self.family.layers(self.stack))

    @property
    def shared(self) -> bool:
        """True when every layer is one and the same block, which can be applied again beyond the trained depth."""
        return self.family.shares and len(set(self.family.layers(self.stack))) == 1

    @property
    def causal(self) -> bool:
        """True when a token sees only the tokens before it."""
        return self.family.mask(self.stack) != "full"

    @property
    def longest(self) -> int:
        """The most tokens the model can take."""
        return self.family.longest(self.stack)

    @cached_property
    def heads(self) -> int:
        """The number of attention heads in a layer."""
        return self.block(0).heads

    @property
    def dimension(self) -> int:
        """The width d of a token."""
        return int(self.stack.config.hidden_size)

    @property
    def dtype(self) -> str:
        """The precision of the weights: "float32" or "float64"."""
        return str(self.stack.dtype).removeprefix("torch.")

    def block(self, layer: int) -> BlockWeights:
        """Layer ``layer`` as plain arrays."""
        if not 0 <= layer < self.depth:
            raise InputError(f"{self.name!r} has layers 0 to {self.depth - 1}, not {layer}.")
        return self.family.block(self.stack, layer)

    def seen(self, ids: Sequence[int]) -> list[int]:
        """What the measured stack reads of a text: a T5 decoder a start token, then all but the last."""
        if self.whole is self.stack:
            return list(ids)
        config = self.whole.config
        start = getattr(config, "decoder_start_token_id", None) or config.pad_token_id or 0
        return [int(start), *ids[:-1]]

    def forward(self, ids: Sequence[int]) -> None:
        """Run one text through the model; whoever wants to see it has hooks on the layers."""
        import torch

        with torch.inference_mode():
            text = torch.tensor([list(ids)], device=self.stack.device)  # (1, n)
            if self.whole is self.stack:
                options = {"use_cache": False} if self.causal else {}
                self.stack(input_ids=text, **options)
            else:  # teacher forcing: the decoder writes the very text that its encoder reads
                shifted = torch.tensor([self.seen(ids)], device=self.stack.device)  # (1, n)
                self.whole(input_ids=text, decoder_input_ids=shifted, use_cache=False)

    def embedded(self, rows: slice = slice(None)) -> np.ndarray:
        """The vocabulary, or some rows of it, in the model's own space, (rows, d), float64."""
        return self.family.embedding(self.stack, rows)

    def watch(self, ids: Sequence[int], layers: int, states: See, attention: See) -> None:
        """Run one text through ``layers`` layers and show every state and map as it is made; nothing is kept.

        ``states(l, x)`` is called with x (n, d) for l = 0 (embedded tokens) to ``layers``: exactly the
        ``hidden_states`` of the library, so the last trained layer comes after the model's final norm where it has
        one. ``attention(l, A)`` is called with A (h, n, n) for l = 1 to ``layers``, before the state it leads to.
        """
        with self._deepened(layers):
            hooks = _hooks(self, layers, states, attention)
            try:
                self.forward(ids)
            except _Enough:
                pass
            finally:
                for hook in hooks:
                    hook.remove()

    @contextmanager
    def _deepened(self, layers: int) -> Iterator[None]:
        """The same model with its shared block applied ``layers`` times."""
        config, trained = self.stack.config, self.depth
        if layers < 1:
            raise InputError(f"layers must be at least 1, not {layers}.")
        if layers <= trained:
            yield
            return
        if not self.shared:
            raise InputError(
                f"{self.name!r} has {trained} layers, each with weights of its own, so it cannot be run to {layers}; "
                "only a model that shares one block between all its layers (ALBERT) can."
            )
        before = config.num_hidden_layers
        config.num_hidden_layers = layers
        try:
            yield
        finally:
            config.num_hidden_layers = before


class _Enough(Exception):
    """Raised inside a forward pass when the last wanted layer has been seen."""


def _hooks(model: Model, layers: int, states: See, attention: See) -> list[Any]:
    family, stack = model.family, model.stack
    modules = family.layers(stack)
    final = family.final_norm(stack) if layers == len(modules) else None
    seen = {"states": 0, "attention": 0}  # a shared block is one module that is called many times

    def enter(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if seen["states"] == 0:
            seen["states"] = 1
            states(0, (args[0] if args else kwargs["hidden_states"])[0])

    def leave(module: Any, args: Any, output: Any) -> None:
        layer = seen["states"]
        seen["states"] += 1
        if layer < layers or final is None:
            states(layer, (output[0] if isinstance(output, tuple) else output)[0])
        if layer == layers and final is None:
            raise _Enough

    def attended(module: Any, args: Any, output: Any) -> None:
        seen["attention"] += 1
        if output[-1] is None:
            raise InputError(f"{model.name!r} does not show its attention maps; load it with eager attention.")
        attention(seen["attention"], output[-1][0])

    def normed(module: Any, args: Any, output: Any) -> None:
        states(layers, output[0])

    unique = list(dict.fromkeys(modules))
    hooks = [modules[0].register_forward_pre_hook(enter, with_kwargs=True)]
    hooks += [layer.register_forward_hook(leave) for layer in unique]
    hooks += [family.attention(layer).register_forward_hook(attended) for layer in unique]
    return hooks + ([final.register_forward_hook(normed)] if final is not None else [])
