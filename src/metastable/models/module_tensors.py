"""The weights of a torch module as NumPy arrays, widened one at a time."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from metastable.models.families import Tensors

_SCALING = "attention_scaling"  # a plain number that rotary modules hold beside their tables


class ModuleTensors(Tensors):
    """Parameters and buffers of a torch module by name; every look-up makes a float64 copy and keeps none.

    The plain numbers that rotary modules multiply their tables by are there as well, as arrays without axes.
    """

    def __init__(self, module: Any) -> None:
        self._module = module

    @cached_property
    def _places(self) -> dict[str, tuple[Any, str]]:
        """Owner and attribute of every tensor: the tensor itself may be replaced."""
        found: dict[str, tuple[Any, str]] = {}
        for path, owner in self._module.named_modules(remove_duplicate=False):
            prefix = f"{path}." if path else ""
            names = [name for name, value in (*owner._parameters.items(), *owner._buffers.items()) if value is not None]
            names += [name for name, value in vars(owner).items() if name.endswith(_SCALING) and value is not None]
            found |= {prefix + name: (owner, name) for name in names}
        return found

    def __getitem__(self, name: str) -> np.ndarray:
        return self.rows(name, slice(None))

    def rows(self, name: str, rows: slice) -> np.ndarray:
        """Some rows of a tensor, the only ones that are widened."""
        value = self._value(name)
        return _widened(value[rows] if np.ndim(value) else value)

    def spaced(self, name: str, most: int) -> tuple[tuple[int, ...], np.ndarray]:
        """The shape of a tensor and about ``most`` evenly spaced numbers, the only ones that are widened."""
        value = self._value(name)
        if not np.ndim(value):
            return (), _widened(value).ravel()
        return tuple(value.shape), _widened(value.detach().reshape(-1)[:: max(1, value.numel() // most)])

    def _value(self, name: str) -> Any:
        owner, key = self._places[name]
        return getattr(owner, key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places


def _widened(value: Any) -> np.ndarray:
    """A float64 copy of a tensor or of a plain number."""
    import torch

    if not isinstance(value, torch.Tensor):
        return np.asarray(float(value))
    return np.asarray(value.detach().to(torch.float64, copy=True).cpu().numpy())
