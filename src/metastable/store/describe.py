"""A Dynamics as plain data: names and numbers for JSON, arrays by name; and back.

Functions of one's own (a mask, a normalisation, a V that depends on time) cannot be written down. They are listed in
``custom``; a record holds tokens and times of such a run, and its dynamics must be given again when it is loaded.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from metastable.equation.blocks import ACTIVATIONS, MLP, Block, LayerNorm, RMSNorm
from metastable.equation.dynamics import Dynamics
from metastable.equation.geometry import GEOMETRIES
from metastable.equation.masks import MASKS, window
from metastable.equation.normalise import NORMALISATIONS
from metastable.equation.scores import SCORES, Bias, Relative, Rotary
from metastable.equation.weights import Stack, Weights

# Add a part that records can hold: a line here.
_KINDS: dict[str, Any] = {
    cls.__name__: cls for cls in (Weights, Stack, Bias, Relative, Rotary, Block, MLP, LayerNorm, RMSNorm)
}
_TABLES: tuple[Mapping[str, Any], ...] = (NORMALISATIONS, MASKS, GEOMETRIES, SCORES, ACTIVATIONS)
_WINDOW = type(window(1))  # windows are functions with a name


@dataclasses.dataclass
class Parts:
    """What a Dynamics is made of: ``tree`` for JSON, ``arrays`` by dotted name, and the ``custom`` parts left out."""

    tree: dict[str, Any] = dataclasses.field(default_factory=dict)
    arrays: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    custom: list[str] = dataclasses.field(default_factory=list)


def take_apart(dynamics: Dynamics) -> Parts:
    """Describe a Dynamics.

    >>> take_apart(Dynamics(Weights(V=[[2.0]]), mask="causal")).tree["weights"]["V"]
    {'array': 'weights.V'}
    """
    parts = Parts()
    parts.tree = {
        field.name: _written(parts, field.name, getattr(dynamics, field.name)) for field in dataclasses.fields(Dynamics)
    }
    return parts


def put_together(tree: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Dynamics:
    """The Dynamics behind a description without custom parts; a wrong description is a ValueError or TypeError."""
    return Dynamics(**{name: _read(value, arrays) for name, value in tree.items()})


def _written(parts: Parts, name: str, value: Any) -> Any:
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if type(value).__name__ in _KINDS and isinstance(value, _KINDS[type(value).__name__]):
        names = [field.name for field in dataclasses.fields(value)]
        return {
            "kind": type(value).__name__,
            **{own: _written(parts, f"{name}.{own}", getattr(value, own)) for own in names},
        }
    if isinstance(value, _WINDOW):
        return repr(value)
    for table in _TABLES:
        for known, entry in table.items():
            if entry is value and value is not None:
                return known
    if callable(value) or isinstance(value, tuple):
        parts.custom.append(name)
        return {"function": getattr(value, "__qualname__", None) or type(value).__name__}
    array = np.asarray(value)
    if array.ndim == 0:
        return float(array)
    parts.arrays[name] = array
    return {"array": name}


def _read(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if not isinstance(value, Mapping):
        return value
    if "array" in value:
        return arrays[value["array"]]
    kind = _KINDS.get(str(value.get("kind")))
    if kind is None:
        raise ValueError(f"it holds an unknown part {dict(value)}")
    return kind(**{name: _read(entry, arrays) for name, entry in value.items() if name != "kind"})
