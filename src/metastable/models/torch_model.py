"""A ``transformers`` model whose family is known: hooks show its layers as they run."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from inspect import signature
from typing import Any

from metastable.errors import InputError
from metastable.models.families import Family
from metastable.models.model import Given, See, check_layers
from metastable.models.module_model import ModuleModel, shown
from metastable.models.parts import Parts
from metastable.models.precision import doubled
from metastable.models.run_cost import check_maps

_DECODER = "A T5 decoder also reads its encoder, for which the ladder has no rungs; use part='encoder'."


@dataclass(frozen=True, eq=False, repr=False)
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

    @cached_property
    def asked(self) -> bool:
        """Whether its attention modules give their maps only when asked."""
        inner = self.layers[0].get_submodule(self.family.attention)
        return "output_attentions" in signature(inner.forward).parameters

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

    def watch(self, given: Given, layers: int, states: See, attention: See) -> None:
        """Run one text through ``layers`` layers and show every state and map as it is made: see ``Model``."""
        check_layers(self, layers)
        if self.reads == "tokens":
            check_maps(self.name, self.heads, len(given), 1)
        with ExitStack() as undo:
            for hook in _hooks(self, layers, states, attention):
                undo.callback(hook.remove)
            undo.enter_context(self._deepened(layers))
            try:
                self.call(given)
            except _Enough:
                pass
            except ValueError as error:  # a picture of another size, for example
                if isinstance(error, InputError) or self.reads == "tokens":
                    raise
                raise InputError(f"{self.name!r} cannot be run on this input ({error}).") from error

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
        if model.asked:
            yield inner.register_forward_pre_hook(ask, with_kwargs=True)
    if final is not None:
        yield final.register_forward_hook(lambda module, args, output: states(layers, shown(output[0])))


def _map(model: TorchModel, output: Any) -> Any:
    """The attention map (1, h, n, n), the last of what an attention module returns."""
    if getattr(output[-1], "ndim", 0) != 4:
        raise InputError(f"{model.name!r} does not show its attention maps.")
    return output[-1]
