"""A ``transformers`` model whose family is known: hooks show its layers as they run."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from inspect import signature
from typing import Any, Self

import numpy as np

from metastable.errors import InputError
from metastable.models.families import Family
from metastable.models.model import Change, Model, See, check_layers
from metastable.models.module_tensors import ModuleTensors
from metastable.models.parts import Parts, digest
from metastable.models.precision import doubled
from metastable.models.tokens import Tokenizer


@dataclass(frozen=True, eq=False)
class ModuleModel(Model):
    """What all torch models have in common: sizes, precision, and one text through the library.

    Attributes
    ----------
    stack : torch module
        The layers that are measured: the whole model, or one half of an encoder-decoder.
    whole : torch module
        What is called to run them: differs from ``stack`` for a decoder that needs its encoder.
    """

    name: str
    stack: Any = field(repr=False)
    whole: Any = field(repr=False)
    tokenizer: Tokenizer | None = field(repr=False)

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
        """The precision of the weights, such as "float32"."""
        return str(self.stack.dtype).removeprefix("torch.")

    @property
    def vocabulary(self) -> int | None:
        """The number of token ids; None for a model that reads no tokens."""
        size = getattr(self.stack.config, "vocab_size", None)
        return None if size is None else int(size)

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

    def call(self, ids: Sequence[int], **options: Any) -> Any:
        """One text through the library, without gradients or dropout, with attention that shows its maps."""
        import torch

        with torch.inference_mode(), _as_measured(self.whole):
            text = torch.tensor([list(ids)], device=self.stack.device)  # (1, n)
            if self.crossed:  # teacher forcing: the decoder writes the very text that its encoder reads
                shifted = torch.tensor([self.seen(ids)], device=self.stack.device)  # (1, n)
                return self.whole(input_ids=text, decoder_input_ids=shifted, use_cache=False, **options)
            if "use_cache" in signature(self.stack.forward).parameters:
                options["use_cache"] = False
            return self.stack(input_ids=text, **options)

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


@contextmanager
def _as_measured(whole: Any) -> Iterator[None]:
    """Eager attention and evaluation mode inside; a live model is its owner's and gets back what it had."""
    trained = [module for module in whole.modules() if module.training]
    configs = {id(module.config): module.config for module in whole.modules() if hasattr(module, "config")}.values()
    before = [(config, config._attn_implementation) for config in configs]
    try:
        for config in configs:
            config._attn_implementation = "eager"  # fused kernels do not show their maps
        for module in trained:
            module.training = False
        yield
    finally:
        for config, attention in before:
            config._attn_implementation = attention
        for module in trained:
            module.training = True


def shown(tensor: Any) -> np.ndarray:
    """A tensor as a NumPy array, on the same memory where that is possible; half precision is widened to float32."""
    wide = tensor.float() if tensor.element_size() < 4 else tensor
    return np.asarray(wide.numpy(force=True))


_DECODER = "A T5 decoder also reads its encoder, which the simulator does not; use part='encoder'."


@dataclass(frozen=True, eq=False)
class TorchModel(ModuleModel):
    """A ``transformers`` module of a known family: every layer is shown as it runs, and every weight can be read."""

    family: Family = field(repr=False)

    @cached_property
    def parts(self) -> Parts:
        """Its weights as plain arrays."""
        return Parts(self.name, self.family, self.tensors, self.stack.config)

    @property
    def why_no_ladder(self) -> str:
        """Why the ladder cannot be climbed; empty where it can."""
        return _DECODER if self.crossed else ""

    @property
    def depth(self) -> int:
        """The number of trained layers."""
        return self.parts.depth

    @cached_property
    def heads(self) -> int:
        """The number of attention heads in a layer."""
        return self.parts.block(0).heads

    @property
    def longest(self) -> int:
        """The most tokens the model can take."""
        return self.parts.longest

    def mask(self, layer: int) -> str:
        """Which tokens a token of a layer sees."""
        return self.parts.mask(layer)

    @property
    def layers(self) -> list[Any]:
        """The modules of the layers in the order they run."""
        return [self.stack.get_submodule(path) for path in self.family.layers(self.stack.config)]

    def doubled(self) -> AbstractContextManager[None]:
        """Inside, the model computes in float64, with one layer's weights widened at a time."""
        return doubled(self.whole, self.layers)

    def watch(self, ids: Sequence[int], layers: int, states: See, attention: See) -> None:
        """Run one text through ``layers`` layers and show every state and map as it is made: see ``Model``."""
        check_layers(self, layers)
        with ExitStack() as undo:
            for hook in _hooks(self, layers, states, attention):
                undo.callback(hook.remove)
            undo.enter_context(self._deepened(layers))
            with suppress(_Enough):
                self.call(ids)

    @contextmanager
    def _deepened(self, layers: int) -> Iterator[None]:
        """The same model with its shared block applied ``layers`` times."""
        config, trained = self.stack.config, self.depth
        if layers <= trained:
            yield
            return
        before = config.num_hidden_layers
        config.num_hidden_layers = layers
        try:
            yield
        finally:
            config.num_hidden_layers = before


class _Enough(Exception):
    """Raised inside a forward pass when the last wanted layer has been seen."""


def _hooks(model: TorchModel, layers: int, states: See, attention: See) -> Iterator[Any]:
    """Hooks on every layer and its attention, put there one by one."""
    modules, norm = model.layers, model.family.norm
    normed = layers == len(modules) and model.parts.final_norm() is not None
    final = model.stack.get_submodule(norm) if normed else None
    counted = {"states": 0, "attention": 0}  # a shared block is one module that is called many times

    def enter(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if counted["states"] == 0:
            counted["states"] = 1
            states(0, shown((args[0] if args else kwargs["hidden_states"])[0]))

    def leave(module: Any, args: Any, output: Any) -> None:
        layer = counted["states"]
        counted["states"] += 1
        if layer < layers or final is None:
            states(layer, shown((output[0] if isinstance(output, tuple) else output)[0]))
        if layer == layers and final is None:
            raise _Enough

    def ask(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        return args, kwargs | {"output_attentions": True}

    def attended(module: Any, args: Any, output: Any) -> None:
        counted["attention"] += 1
        attention(counted["attention"], shown(_map(model, output)[0]))

    yield modules[0].register_forward_pre_hook(enter, with_kwargs=True)
    for layer in dict.fromkeys(modules):
        yield layer.register_forward_hook(leave)
        inner = layer.get_submodule(model.family.attention)
        yield inner.register_forward_hook(attended)
        if "output_attentions" in signature(inner.forward).parameters:  # some give their map only when asked
            yield inner.register_forward_pre_hook(ask, with_kwargs=True)
    if final is not None:
        yield final.register_forward_hook(lambda module, args, output: states(layers, shown(output[0])))


def _map(model: TorchModel, output: Any) -> Any:
    """The attention map (1, h, n, n), the last of what an attention module returns."""
    if getattr(output[-1], "ndim", 0) != 4:
        raise InputError(f"{model.name!r} does not show its attention maps.")
    return output[-1]
