"""What all torch models have in common: how they read, their sizes and precision, and one text through the library."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import Any, Self

import numpy as np

from metastable.errors import InputError
from metastable.models.as_measured import as_measured
from metastable.models.images import Images, names, patches
from metastable.models.model import Change, Given, Model, Reading
from metastable.models.module_tensors import ModuleTensors
from metastable.models.parts import digest
from metastable.models.precision import computes_in, rounding
from metastable.models.tokens import Tokenizer


@dataclass(frozen=True, eq=False, repr=False)
class ModuleModel(Model):
    """A torch module, or a part of one, as a model.

    Attributes
    ----------
    stack : torch module
        The layers that are measured: the whole model, or one half of an encoder-decoder.
    whole : torch module
        What is called to run them: differs from ``stack`` for a decoder that needs its encoder.
    images : Images or None
        How a vision model reads pictures.
    """

    name: str
    stack: Any = field(repr=False)
    whole: Any = field(repr=False)
    tokenizer: Tokenizer | None = field(repr=False)
    images: Images | None = field(default=None, repr=False, kw_only=True)

    @property
    def kind(self) -> str:
        """The model's own type, such as "albert"."""
        return str(self.stack.config.model_type)

    @property
    def dimension(self) -> int:
        """The width d of a token."""
        return int(self.stack.config.hidden_size)

    @property
    def dtype(self) -> str:
        """The precision it computes in, such as "float32"."""
        return computes_in(self.whole, str(self.stack.dtype).removeprefix("torch."))

    @property
    def vocabulary(self) -> int | None:
        """The number of token ids; None for a model that reads no tokens."""
        config = self.stack.config
        size = getattr(config, "vocab_size", None) or getattr(config.get_text_config(), "vocab_size", None)
        return None if size is None or self.reads != "tokens" else int(size)

    @property
    def reads(self) -> str:
        """What it takes: "tokens", "images" (as pixel values) or "features" (of sound, for example)."""
        return {"input_ids": "tokens", "pixel_values": "images"}.get(self.whole.main_input_name, "features")

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader of its numbers should know."""
        return ((self.images.note,) if self.images and self.images.note else ()) + rounding(self.dtype)

    def read(self, item: Any, longest: int) -> Reading | None:
        """A text, a picture or an array of features, as the model takes it."""
        if self.reads == "tokens":
            return super().read(item, longest)
        array = self.images(item) if self.images else _features(self.name, item)
        if not np.isfinite(array).all():
            raise InputError(f"The input of {self.name!r} holds nan or inf.")
        return Reading(array) if array.size else None

    def tokens(self, given: Given, n: int) -> tuple[np.ndarray, np.ndarray]:
        """The ids of the n tokens, and which are special: of a picture, those that are no patches."""
        if self.reads == "tokens":
            return super().tokens(given, n)
        known = int(np.prod(patches(self.stack.config, given))) if self.images else 0
        first = n - known if 0 < known <= n else 0
        return np.arange(n), np.arange(n) < first

    def words(self, given: Given, n: int) -> list[str]:
        """The n tokens as they read; patches by row and column."""
        return names(*patches(self.stack.config, given), n) if self.images else super().words(given, n)

    @property
    def parameters(self) -> int:
        """The number of weights."""
        return sum(int(p.numel()) for p in self.whole.parameters())

    @cached_property
    def tensors(self) -> ModuleTensors:
        """The weights of the stack by the library's own names."""
        return ModuleTensors(self.stack)

    @cached_property
    def digest(self) -> str:
        """A few digits that tell this model's weights from those of another model of the same name."""
        return digest(self.tensors)

    @property
    def crossed(self) -> bool:
        """True for a decoder, whose layers also read its encoder."""
        return self.whole is not self.stack

    def seen(self, ids: Sequence[int]) -> list[int]:
        """What the measured stack reads of a text: a decoder a start token, then all but the last."""
        if not self.crossed:
            return list(ids)
        config = self.whole.config
        start = getattr(config, "decoder_start_token_id", None) or config.pad_token_id or 0
        return [int(start), *ids[:-1]]

    def call(self, given: Given, **options: Any) -> Any:
        """One text through the library, without gradients or dropout, with attention that shows its maps."""
        import torch

        device, dtype = self.stack.device, getattr(torch, self.dtype)
        if self.reads == "tokens":
            inputs = {"input_ids": torch.tensor([list(given)], device=device)}  # (1, n)
        else:
            inputs = {self.whole.main_input_name: torch.tensor(given[None], device=device, dtype=dtype)}
        if self.crossed:  # teacher forcing: the decoder writes the very text that its encoder reads
            if self.reads != "tokens":
                raise InputError(f"The decoder of {self.name!r} writes text that it was not given; use part='encoder'.")
            inputs["decoder_input_ids"] = torch.tensor([self.seen(given)], device=device)  # (1, n)
        if "use_cache" in signature(self.whole.forward).parameters:
            options["use_cache"] = False
        try:
            with torch.inference_mode(), as_measured(self.whole):
                return self.whole(**inputs, **options)
        except ValueError as error:
            if self.reads == "tokens" or isinstance(error, InputError):
                raise
            raise InputError(f"{self.name!r} cannot be run on an array {np.shape(given)}: {error}") from error

    def altered(self, change: Change) -> Self:
        """A copy in which every weight is changed, half precision by way of float32."""
        import torch

        whole, stack = deepcopy((self.whole, self.stack))  # together: the one may be a part of the other
        with torch.no_grad():
            for name, weight in whole.named_parameters():
                weight.copy_(torch.from_numpy(np.ascontiguousarray(change(name, shown(weight)))))
        return replace(self, whole=whole, stack=stack)

    def untrained(self, seed: int) -> Self:
        """The same architecture, initialised by the library's own rule for it."""
        import torch
        from transformers import AutoModel

        path = next(name for name, module in self.whole.named_modules() if module is self.stack)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            made = AutoModel.from_config(deepcopy(self.whole.config))
        # half of an encoder-decoder is initialised within the whole, whose rule for embeddings is its own
        whole = next(module for module in made.modules() if type(module) is type(self.whole))
        whole = whole.to(device=self.stack.device, dtype=self.stack.dtype).eval().requires_grad_(False)
        return replace(self, whole=whole, stack=whole.get_submodule(path))


def _features(name: str, item: Any) -> np.ndarray:
    """An array as the model's own feature extractor makes it, without the axis of the batch."""
    if isinstance(item, (str, Path)):
        raise InputError(f"{name!r} reads neither text nor pictures; give arrays of its input features.")
    return np.asarray(item, dtype=np.float32)


def shown(tensor: Any) -> np.ndarray:
    """A tensor as a NumPy array, on the same memory where that is possible; half precision is widened to float32."""
    wide = tensor.float() if tensor.element_size() < 4 else tensor
    return np.asarray(wide.numpy(force=True))
