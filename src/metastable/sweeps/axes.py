"""The values of one swept parameter, from what a user writes.

| TOML                                        | flag           | values                                             |
|---------------------------------------------|----------------|----------------------------------------------------|
| ``[0.5, 1.0, 2.0]``, ``["full", "causal"]`` | ``0.5,1,2``    | those (matrices are separated by ``;`` in a flag)   |
| ``{start = 0, count = 300}``                | ``0:300``      | 0, 1, ..., 299                                     |
| ``{start = 0.5, stop = 9, count = 18}``     | ``0.5:9:18``   | 18 even values, both ends included                 |
| ``{..., scale = "log"}``                    | ``0.1:10:7:log`` | the same, even in the logarithm                  |
| ``{low = 0.5, high = 9}``                   | ``0.5..9``     | drawn: see ``design`` and ``samples``              |
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from metastable.config.named import NUMBER, split
from metastable.errors import InputError, unknown

MATRICES = ("Q", "K", "V")
SCALES = ("linear", "log")
_KEYS = ("start", "stop", "step", "count", "low", "high", "scale")
_MOST = 10**7  # values of one parameter that are listed one by one; ranges of whole numbers have no limit
_COLONS = re.compile(rf"({NUMBER}):({NUMBER})(?::(\d+))?(?::(\w+))?")
_DOTS = re.compile(rf"({NUMBER})\.\.({NUMBER})(?::(\w+))?")

Value = float | int | str
Values = range | tuple[Value, ...]


@dataclass(frozen=True)
class Drawn:
    """A parameter that a random or Latin-hypercube design draws from [low, high] (whole numbers: ends included)."""

    low: float
    high: float
    scale: str = "linear"
    whole: bool = False

    def at(self, u: np.ndarray) -> np.ndarray:
        """The values behind uniform numbers u in [0, 1)."""
        if self.whole:
            return np.asarray(np.floor(self.low + u * (self.high - self.low + 1.0)).astype(np.int64))
        if self.scale == "log":
            return np.asarray(np.exp(np.log(self.low) + u * (np.log(self.high) - np.log(self.low))))
        return np.asarray(self.low + u * (self.high - self.low))


def read_axis(name: str, given: Any, kinds: Sequence[str]) -> Values | Drawn:
    """The values of a parameter of the plain types ``kinds``.

    >>> read_axis("beta", {"start": 1.0, "stop": 2.0, "count": 3}, ["float"])
    (1.0, 1.5, 2.0)
    >>> read_axis("seed", "0:50", ["int"])
    range(0, 50)
    """
    if isinstance(given, str):
        given = _from_text(name, given, kinds)
    if isinstance(given, Mapping):
        return _from_table(name, given, kinds)
    given = given.tolist() if isinstance(given, np.ndarray) else given
    listed = list(given) if isinstance(given, (list, tuple, range)) else [given]
    if name in MATRICES and listed and all(isinstance(v, (int, float)) for v in listed) and len(listed) > 1:
        raise InputError(f"{name} as a list of numbers is one V in [simulate]; sweep over a list of such lists.")
    if not listed:
        raise InputError(f"{name} has no values; give at least one.")
    values = tuple(_value(name, value, kinds) for value in listed)
    if len(set(values)) < len(values):
        twice = next(value for value in values if values.count(value) > 1)
        raise InputError(f"{name} lists {twice!r} more than once; give every value once.")
    return values


def several(name: str, text: str) -> bool:
    """Whether the text of a flag stands for more than one value."""
    if name in MATRICES:
        return ";" in text
    return bool(_COLONS.fullmatch(text) or _DOTS.fullmatch(text)) or len(split(text)) > 1


def plain(values: Values | Drawn) -> Any:
    """Values as JSON holds them: ranges of whole numbers stay short."""
    if isinstance(values, Drawn):
        return {"low": values.low, "high": values.high, "scale": values.scale, "whole": values.whole}
    if isinstance(values, range):
        return {"start": values.start, "count": len(values), "step": values.step}
    return list(values)


def restored(stored: Any) -> Values | Drawn:
    """The inverse of `plain`."""
    if isinstance(stored, list):
        return tuple(stored)
    if "low" in stored:
        return Drawn(**stored)
    start, count, step = (int(stored[key]) for key in ("start", "count", "step"))
    return range(start, start + count * step, step)


def outside(values: Values, others: Values) -> Values:
    """The values that are not among ``others``, in their order; a range stays one where it can."""
    if (
        isinstance(values, range)
        and isinstance(others, range)
        and (values.start, values.step)
        == (
            others.start,
            others.step,
        )
    ):
        return values[len(others) :]
    held = others if isinstance(others, range) else set(others)
    return tuple(value for value in values if value not in held)


# --- reading ------------------------------------------------------------------------------------------------------


def _from_text(name: str, text: str, kinds: Sequence[str]) -> Any:
    if name in MATRICES:
        return split(text, ";")
    if "int" not in kinds and "float" not in kinds:
        return split(text)
    if found := _DOTS.fullmatch(text.strip()):
        return {"low": float(found[1]), "high": float(found[2]), "scale": found[3] or "linear"}
    if found := _COLONS.fullmatch(text.strip()):
        start, stop = float(found[1]), float(found[2])
        if found[3] is None:
            if "float" in kinds or not (start.is_integer() and stop.is_integer()):
                raise InputError(
                    f"{name} = {text!r} does not say how many values; write start:stop:count, as in 0.5:9:18."
                )
            return {"start": int(start), "count": max(0, int(stop) - int(start))}
        return {"start": start, "stop": stop, "count": int(found[3]), "scale": found[4] or "linear"}
    return [_number(name, part, kinds) for part in split(text)]


def _number(name: str, text: str, kinds: Sequence[str]) -> Any:
    try:
        return int(text) if "int" in kinds and re.fullmatch(r"[-+]?\d+", text) else float(text)
    except ValueError as error:
        raise InputError(f"{name} takes numbers (0.5,1,2), a range (0.5:9:18) or 0.5..9, not {text!r}.") from error


def _from_table(name: str, given: Mapping[str, Any], kinds: Sequence[str]) -> Values | Drawn:
    for key in given:
        if key not in _KEYS:
            raise unknown(f"entry of {name}", key, _KEYS)
    if not {"int", "float"} & set(kinds):
        raise InputError(f"{name} takes names and no range; give a list.")
    scale = given.get("scale", "linear")
    if scale not in SCALES:
        raise unknown(f"scale of {name}", scale, SCALES)
    numbers = {key: _real(name, key, value) for key, value in given.items() if key != "scale"}
    if "low" in numbers or "high" in numbers:
        return _drawn(name, numbers, scale, "int" in kinds)
    if "start" not in numbers or "count" not in numbers:
        raise InputError(f"A range of {name} needs start and count (and stop or step), or low and high to be drawn.")
    count = numbers["count"]
    if count < 1 or not float(count).is_integer():
        raise InputError(f"count of {name} must be a whole number >= 1, not {given['count']!r}.")
    return _range(name, numbers, int(count), scale, "int" in kinds)


def _range(name: str, numbers: Mapping[str, float], count: int, scale: str, whole: bool) -> Values:
    start = numbers["start"]
    if "stop" not in numbers:
        step = numbers.get("step", 1)
        if whole and float(start).is_integer() and float(step).is_integer() and step != 0:
            return range(int(start), int(start) + count * int(step), int(step))
        values = start + float(step) * np.arange(min(count, _MOST + 1))
    elif scale == "log":
        if min(start, numbers["stop"]) <= 0:
            raise InputError(
                f"A logarithmic range of {name} needs positive ends, not {start:g} to {numbers['stop']:g}."
            )
        values = np.geomspace(start, numbers["stop"], min(count, _MOST + 1))
    else:
        values = np.linspace(start, numbers["stop"], min(count, _MOST + 1))
    if count > _MOST:
        raise InputError(f"{name} has {count:,} values; at most {_MOST:,} that are no whole numbers can be listed.")
    if whole and not all(float(v).is_integer() for v in values):
        raise InputError(f"{name} is a whole number, but the range has {float(values[1]):g}; choose another count.")
    return tuple(int(v) if whole else float(v) for v in values)


def _drawn(name: str, numbers: Mapping[str, float], scale: str, whole: bool) -> Drawn:
    if set(numbers) != {"low", "high"} or not numbers["low"] < numbers["high"]:
        raise InputError(f"{name} is drawn between low and high, low < high, and takes nothing else but scale.")
    if scale == "log" and numbers["low"] <= 0:
        raise InputError(f"{name} is drawn on a logarithmic scale, so low must be positive, not {numbers['low']:g}.")
    return Drawn(float(numbers["low"]), float(numbers["high"]), scale, whole)


def _real(name: str, key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise InputError(f"{key} of {name} must be a number, not {value!r}.")
    return value


def _value(name: str, value: Any, kinds: Sequence[str]) -> Value:
    """One value, plain and hashable; a matrix as the text that means it."""
    if name in MATRICES:
        return value if isinstance(value, str) else json.dumps(value) if isinstance(value, list) else repr(value)
    if isinstance(value, (np.integer, np.floating)):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise InputError(f"{name} cannot be {value!r}; give numbers or names.")
    if "int" in kinds and "str" not in kinds:
        if isinstance(value, str) or not float(value).is_integer():
            raise InputError(f"{name} must be a whole number, not {value!r}.")
        return int(value)
    if "float" in kinds and "str" not in kinds:
        if isinstance(value, str) or not math.isfinite(value):
            raise InputError(f"{name} must be a finite number, not {value!r}.")
        return float(value)
    return value
