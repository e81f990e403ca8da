"""What a sweep measures: observables by column, as text or as functions of a run."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from metastable.config.named import parse
from metastable.errors import InputError, unknown
from metastable.observables.table import OBSERVABLES

OWN = ("run", "time", "status", "valid_until")  # columns of a table that are neither parameters nor observables


def observables(given: Any, taken: Iterable[str] = ()) -> dict[str, Any]:
    """Columns and what is measured in them: names, names with options, or functions of a run.

    ``taken`` are the names that the table has for parameters.

    >>> observables(["clusters", "similarity_share(above=0.9)"])
    {'clusters': 'clusters', 'similarity_share(above=0.9)': 'similarity_share(above=0.9)'}
    """
    listed = (
        dict(given)
        if isinstance(given, Mapping)
        else {str(v): v for v in ([given] if isinstance(given, str) else given)}
    )
    for column, what in listed.items():
        if not callable(what):
            _function(what)
        if column in (*OWN, "seed", "sample", *taken):
            raise InputError(f"A column cannot be called {column!r}: the table has one of that name already.")
    return listed


def measures(observe: Mapping[str, Any]) -> dict[str, Callable[[Any], Any]]:
    """Functions of a run, by column."""
    return {column: what if callable(what) else _function(what) for column, what in observe.items()}


def _function(text: Any) -> Callable[[Any], Any]:
    parsed = parse(text) if isinstance(text, str) else None
    if parsed is None or parsed.factor != 1.0:
        raise InputError(
            f"observe takes names of observables, such as clusters or clusters(tolerance=0.05), not {text!r}."
        )
    if parsed.name not in OBSERVABLES:
        raise unknown("observable", parsed.name, OBSERVABLES)
    entry, options = OBSERVABLES[parsed.name], parsed.options
    for option in options:
        if option not in entry.options:
            raise unknown(f"option of {parsed.name}", option, entry.options)
    return lambda run: entry.function(run, **options)


def flattened(column: str, values: np.ndarray) -> dict[str, np.ndarray]:
    """Values (rows, ...) as columns: one, or one for each entry, ``rank[0]``, ``leaders[0,3]``."""
    flat = np.asarray(values, dtype=np.float64).reshape(len(values), -1)
    if flat.shape[1] == 1:
        return {column: flat[:, 0]}
    places = np.ndindex(*np.shape(values)[1:])
    return {f"{column}[{','.join(map(str, place))}]": flat[:, k] for k, place in enumerate(places)}
