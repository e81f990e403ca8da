"""Flags from settings: every field of a `config` table is a flag of the same name."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any

from cyclopts import Group, Parameter

from metastable.config.settings import Table, kinds

_METAVARS = {"int": "N", "float": "X", "str": "NAME"}
_SPECIAL = {"tokens": "FILE", "out": "DIR", "save": "TIMES", "times": "TIMES", "view": "A,B", "size": "W,H"}
_SPECIAL |= {"Q": "MATRIX", "K": "MATRIX", "V": "MATRIX", "until": "STOP"}

_MAY_BE_NEGATIVE = ("Q", "K", "V", "save", "times", "view")  # lists such as -1,1 look like flags


def whole(kind: Any, given: Sequence[Any]) -> int:
    """The whole number of a flag; the parser alone would round 2.5 to 2."""
    text = str(given[0].value)
    try:
        return int(text)
    except ValueError as error:
        raise ValueError(f'unable to convert "{text}" into int') from error


JSON = Annotated[bool, Parameter(name="--json", negative="", show_default=False, group="Output")]


def flagged(table: type[Table], without: tuple[str, ...] = ()) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Give a command the flags of a table, some left out; those that were used reach it as the dictionary ``flags``.

    Values stay text here: the table turns them into numbers, so that files and flags are refused in the same words.
    """

    def decorate(function: Callable[..., int]) -> Callable[..., int]:
        own = [p for p in inspect.signature(function).parameters.values() if p.name != "flags"]
        flags = [_flag(table, name) for name in table.model_fields if name not in (*without, *(p.name for p in own))]

        def command(*args: Any, **values: Any) -> int:
            used = {flag.name: values.pop(flag.name) for flag in flags if flag.name in values}
            return function(*args, **values, flags={name: v for name, v in used.items() if v is not None})

        shown = inspect.Signature([*own, *flags])
        command.__signature__ = shown  # type: ignore[attr-defined]
        command.__annotations__ = {name: p.annotation for name, p in shown.parameters.items()}
        command.__doc__ = function.__doc__
        command.__name__ = function.__name__
        return command

    return decorate


def _flag(table: type[Table], name: str) -> inspect.Parameter:
    field = table.model_fields[name]
    extra: Any = field.json_schema_extra
    first = kinds(table, name)[0]
    switch = first == "bool"
    default = "" if field.default is None else f" [{field.default}]"
    choices = f": {', '.join(names_in(extra['table']))}" if extra.get("table") else ""
    how = Parameter(
        name=f"--{name.replace('_', '-')}",
        help=f"{field.description}{choices}{default}",
        group=_group(extra["group"]),
        metavar=None if switch else _SPECIAL.get(name) or _METAVARS[first],
        allow_leading_hyphen=name in _MAY_BE_NEGATIVE,
        show_default=False,
        negative="",
    )
    typed: Any = bool | None if switch else str | None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[typed, how])


def names_in(table: str) -> list[str]:
    """The names in a table of parts, "module:TABLE"."""
    home, _, name = table.partition(":")
    found = getattr(import_module(f"metastable.{home}"), name)
    return list(found) if isinstance(found, Mapping) else [entry.name for entry in found]


_GROUPS: dict[str, Group] = {}


def _group(name: str) -> Group:
    return _GROUPS.setdefault(name, Group(name, sort_key=len(_GROUPS)))
