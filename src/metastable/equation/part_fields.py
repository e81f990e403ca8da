"""What the fields of parts must be, checked when a part is made: numbers, functions, names."""

from collections.abc import Callable
from typing import Any, TypeGuard

import numpy as np

from metastable.backend import is_traced
from metastable.errors import InputError


def check_numbers(part: Any, names: tuple[str, ...], least: float = -np.inf, above: float = -np.inf) -> None:
    """Refuse fields that are not finite real numbers within their bounds; traced ones have no value yet."""
    for name in names:
        value = getattr(part, name)
        if is_traced(value) or callable(value):  # a function of time
            continue
        plain = isinstance(value, (int, float, np.number)) or (hasattr(value, "__array__") and np.ndim(value) == 0)
        try:
            number = float(value) if plain and not np.iscomplexobj(value) else np.nan
        except (TypeError, ValueError, OverflowError):
            number = np.nan
        if not np.isfinite(number) or number < least or number <= above:
            bound = f" >= {least:g}" if least > -np.inf else f" > {above:g}" if above > -np.inf else ""
            raise InputError(f"{name} must be a finite number{bound}, not {shown(value)}.")


def check_functions(part: Any, names: tuple[str, ...]) -> None:
    """Refuse fields that are neither functions nor None."""
    for name in names:
        value = getattr(part, name)
        if value is not None and not callable(value):
            raise InputError(f"{name} must be a function or None, not {type(value).__name__}.")


def check_switches(part: Any, names: tuple[str, ...]) -> None:
    """Refuse fields that are neither True nor False."""
    for name in names:
        if not isinstance(getattr(part, name), (bool, np.bool_)):
            raise InputError(f"{name} must be True or False, not {shown(getattr(part, name))}.")


def check_name(part: Any) -> None:
    """Refuse a name that is no string."""
    if not isinstance(part.name, str):
        kind = type(part).__name__.lower()
        raise InputError(f"The name of a {kind} must be a string, not {type(part.name).__name__}.")


def is_function(value: Any) -> TypeGuard[Callable[..., Any]]:
    """Whether a function of one's own was given, or an object that is called like one: not a part of another kind."""
    return callable(value) and not hasattr(value, "about")


def shown(value: Any) -> str:
    """What was given, in a few words."""
    text = repr(value)
    return text if len(text) <= 40 and "\n" not in text else type(value).__name__
