"""A float32 model run in float64, with room for one layer's weights in float64 at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from metastable.models.pretrained import Model


@contextmanager
def doubled(model: Model) -> Iterator[None]:
    """Inside, the model computes in float64; every layer's weights are widened when it is entered and put back after.

    A float32 number is a float64 number, so nothing is rounded on the way and nothing has changed afterwards. A whole
    model in float64 takes twice its memory; this takes one layer's.

    Examples
    --------
    >>> from metastable.models import load
    >>> model = load("reactions-albert")  # doctest: +SKIP
    >>> with doubled(model):  # doctest: +SKIP
    ...     model.dtype
    'float64'
    """
    if model.dtype == "float64":
        yield
        return
    layers = list(dict.fromkeys(model.family.layers(model.stack)))
    _widen(model.whole, frozenset(map(id, layers)))
    hooks = [layer.register_forward_pre_hook(_enter) for layer in layers]
    hooks += [layer.register_forward_hook(_leave) for layer in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        model.whole.float()


def _widen(module: Any, left_out: frozenset[int]) -> None:
    """All of a module but the layers."""
    if id(module) in left_out:
        return
    for child in module.children():
        _widen(child, left_out)
    for _, weight in module.named_parameters(recurse=False):
        weight.data = weight.data.double()
    for name, table in list(module.named_buffers(recurse=False)):
        if table.is_floating_point():
            setattr(module, name, table.double())


def _enter(layer: Any, args: Any) -> None:
    import torch

    with torch.inference_mode(False):
        layer.double()


def _leave(layer: Any, args: Any, output: Any) -> None:
    import torch

    with torch.inference_mode(False):
        layer.float()
