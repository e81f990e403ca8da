"""A torch model run in float64, with room for one layer's weights in float64 at a time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

_DOUBLED: "WeakSet[Any]" = WeakSet()  # modules that compute in float64 now, whatever their tables are stored in


def computes_in(whole: Any, stored: str) -> str:
    """The precision that a module computes in; ``stored`` is that of its weights."""
    return "float64" if whole in _DOUBLED else stored


def rounding(dtype: str) -> tuple[str, ...]:
    """What the reader of numbers computed in half precision should know.

    >>> rounding("float32"), rounding("bfloat16")
    ((), ('The model was given in bfloat16 and computes in it: its weights and states are rounded.',))
    """
    narrow = dtype not in ("float32", "float64")
    return (f"The model was given in {dtype} and computes in it: its weights and states are rounded.",) * narrow


@contextmanager
def doubled(whole: Any, layers: Sequence[Any]) -> Iterator[None]:
    """Inside, the module computes in float64; each of its layers is widened when it is entered and put back after.

    A float32 number is a float64 number, so nothing is rounded on the way and nothing has changed afterwards. A whole
    model in float64 takes twice its memory; this takes one layer's. Of plain tables only the rows that are looked up
    are widened.
    """
    import torch

    unique = list(dict.fromkeys(layers))
    if all(tensor.dtype == torch.float64 for _, _, tensor in _floats(whole)):
        yield
        return
    narrow: dict[tuple[int, str], Any] = {}  # what was there before, of what is wide now

    def widen(module: Any, left_out: Sequence[Any] = ()) -> None:
        with torch.inference_mode(False):
            for owner, name, tensor in _floats(module, left_out):
                if tensor.dtype != torch.float64:  # two owners may share one parameter
                    narrow[id(owner), name] = tensor
                    _put(owner, name, tensor.to(torch.float64))

    def put_back(module: Any) -> None:
        with torch.inference_mode(False):
            for owner, name, _ in _floats(module):
                if (id(owner), name) in narrow:
                    _put(owner, name, narrow.pop((id(owner), name)))

    tables = [module for module in whole.modules() if type(module) is torch.nn.Embedding]
    widen(whole, left_out=[*unique, *tables])
    hooks = [table.register_forward_hook(lambda table, args, rows: rows.double()) for table in tables]
    hooks += [layer.register_forward_pre_hook(lambda layer, args: widen(layer)) for layer in unique]
    hooks += [layer.register_forward_hook(lambda layer, args, output: put_back(layer)) for layer in unique]
    _DOUBLED.add(whole)
    try:
        yield
    finally:
        _DOUBLED.discard(whole)
        for hook in hooks:
            hook.remove()
        put_back(whole)


def _floats(module: Any, left_out: Sequence[Any] = ()) -> Iterator[tuple[Any, str, Any]]:
    """Owner, name and tensor of every floating-point parameter and buffer, one owner at a time."""
    if any(module is other for other in left_out):
        return
    for name, tensor in (*module._parameters.items(), *module._buffers.items()):
        if tensor is not None and tensor.is_floating_point():
            yield module, name, tensor.detach()
    for child in module.children():
        yield from _floats(child, left_out)


def _put(owner: Any, name: str, values: Any) -> None:
    if name in owner._parameters:
        owner._parameters[name].data = values  # the parameter stays the same object
    else:
        owner._buffers[name] = values
