"""Text that names an entry of a table, with options: ``cap(angle=0.5)``, ``0.5*goe``, ``window(8)``."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from metastable.errors import InputError, Misuse, unknown

NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_CALL = re.compile(rf"\s*(?:({NUMBER})\s*\*\s*)?([A-Za-z][\w-]*)\s*(?:\((.*)\))?\s*")


@dataclass(frozen=True)
class Named:
    """``factor * name(options)``."""

    name: str
    options: dict[str, Any]
    factor: float = 1.0


def parse(text: str) -> Named | None:
    """The parts of a name with options, None for text of another form.

    >>> parse("0.5*paranormal(multiplicity=2)")
    Named(name='paranormal', options={'multiplicity': 2}, factor=0.5)
    """
    found = _CALL.fullmatch(text)
    if found is None:
        return None
    options: dict[str, Any] = {}
    for part in (found[3] or "").split(","):
        if not part.strip():
            continue
        key, equals, value = part.partition("=")
        if not equals:
            raise InputError(f"Options of {found[2]!r} are written name=value, not {part.strip()!r}.")
        options[key.strip()] = _value(found[2], key.strip(), value.strip())
    return Named(found[2], options, float(found[1] or 1.0))


def split(text: str, separator: str = ",") -> list[str]:
    """Text cut at separators outside brackets.

    >>> split("full, window(8, causal)")
    ['full', 'window(8, causal)']
    """
    found, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == separator and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return [part.strip() for part in found if part.strip()]


def _value(name: str, key: str, text: str) -> int | float:
    try:
        return int(text) if re.fullmatch(r"[-+]?\d+", text) else float(text)
    except ValueError as error:
        raise InputError(f"{key} of {name!r} must be a number, not {text!r}.") from error


def call(kind: str, table: Mapping[str, Callable[..., Any]], named: Named, given: Mapping[str, Any]) -> Any:
    """Call an entry of a table with what it needs of ``given`` and the options named with it."""
    return bound(kind, table, named, given)()


def bound(
    kind: str,
    table: Mapping[str, Callable[..., Any]],
    named: Named,
    given: Mapping[str, Any],
    later: tuple[str, ...] = (),
) -> Callable[..., Any]:
    """An entry of a table with everything but ``later`` filled in; arguments it does not take are dropped."""
    if named.name not in table:
        raise unknown(kind, named.name, table)
    function = table[named.name]
    takes = inspect.signature(function).parameters
    for option in named.options:
        if option not in takes or (option in given and option != "seed"):
            own = [name for name in takes if (name not in given and name not in later) or name == "seed"]
            if not own:
                raise InputError(f"{named.name!r} takes no options, but {option!r} was given.")
            raise unknown(f"option of {named.name}", option, own)
    for name, value in given.items():
        if name == "runs" and value is not None and name not in takes:
            raise InputError(f"{named.name!r} is one cloud and no ensemble; leave out runs.")

    def filled(**more: Any) -> Any:
        try:
            return _called(more)
        except Misuse as error:  # by the options that a user wrote: there is nothing else in it
            raise InputError(str(error)) from error

    def _called(more: dict[str, Any]) -> Any:
        return function(**{name: v for name, v in {**given, **more, **named.options}.items() if name in takes})

    return filled
