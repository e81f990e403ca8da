"""A Dynamics as plain data: names and numbers for JSON, arrays by name; and back.

Functions of one's own (a mask, a normalisation, a V that depends on time) cannot be written down. They are listed in
``custom``; a record holds tokens and times of such a run, and its dynamics must be given again when it is loaded.
"""

import dataclasses
import hashlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from metastable.equation import geometry, masks, noises, normalise, scores
from metastable.equation.blocks import MLP, Block, Experts, HeadNorm, LayerNorm, RMSNorm, Scale
from metastable.equation.dynamics import Dynamics
from metastable.equation.fields import CrossAttention
from metastable.equation.positions import Alibi, Bias, Relative, Rotary
from metastable.equation.weights import Stack, Weights
from metastable.errors import InputError

# Add a part that records can hold: a line here.
_KINDS: dict[str, Any] = {
    cls.__name__: cls
    for cls in (
        *(Weights, Stack, Bias, Relative, Alibi, Rotary),
        *(Block, MLP, Experts, LayerNorm, RMSNorm, HeadNorm, Scale, CrossAttention),
    )
}
# parts that are known by name, with what finds them
_NAMED: dict[type, Callable[[str], Any]] = {
    normalise.Normalisation: normalise.resolve,
    masks.Mask: masks.resolve,
    geometry.Geometry: geometry.resolve,
    scores.Score: scores.resolve,
    noises.Noise: noises.resolve,
}


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
    if type(value) in _NAMED:
        return _named(parts, name, value)
    array = np.asarray(value) if isinstance(value, (float, np.ndarray, np.generic, list)) else None
    if array is None and hasattr(value, "__array__") and not callable(value):
        array = np.asarray(value)
    if array is None:
        return _custom(parts, name, value)
    if array.ndim == 0:
        return float(array)
    parts.arrays[name] = array
    return {"array": name}


def _named(parts: Parts, name: str, value: Any) -> Any:
    """The name of a part that stands in a table, a mask's array, or what there is to say of a part of one's own."""
    try:
        known = _NAMED[type(value)](value.name) == value
    except InputError:
        known = False
    if known:
        return value.name
    visible = getattr(value, "visible", None)
    if isinstance(visible, masks.Table):
        parts.arrays[name] = visible.entries.astype(float)
        return {"array": name}
    return _custom(parts, name, value)


def _custom(parts: Parts, name: str, value: Any) -> dict[str, str]:
    """A part of one's own: its name, and a hash of its source."""
    parts.custom.append(name)
    return source_mark(value)


def source_mark(value: Any) -> dict[str, str]:
    """A function of one's own, or a part with such functions: its name, and a hash of its source."""
    functions = [f for f in vars(value).values() if callable(f)] if type(value) in _NAMED else [value]
    functions = [f if inspect.isfunction(f) or inspect.isclass(f) else type(f) for f in functions]
    try:
        source = "".join(inspect.getsource(function) for function in functions)
    except (OSError, TypeError):  # written in a prompt, or not in Python
        source = ""
    named = getattr(value, "name", None) or getattr(value, "__qualname__", None) or type(value).__name__
    return {"custom": str(named), "source": hashlib.sha256(source.encode()).hexdigest()[:16]}


def _read(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if not isinstance(value, Mapping):
        return value
    if "array" in value:
        return arrays[value["array"]]
    kind = _KINDS.get(str(value.get("kind")))
    if kind is None:
        raise ValueError(f"it holds an unknown part {dict(value)}")
    return kind(**{name: _read(entry, arrays) for name, entry in value.items() if name != "kind"})
