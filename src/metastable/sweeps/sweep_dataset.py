"""A sweep's table as an xarray.Dataset: named coordinates, array observables with dimensions of their own, attributes.

The table has a column for each entry of an array, ``sinks[1,5]``; here they are one variable with the dimensions of the
observable, (..., head, token).
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas

from metastable.config.named import parse
from metastable.observables.table import OBSERVABLES, Observable
from metastable.sweeps.designs import SAMPLE
from metastable.sweeps.targets import TARGETS

if TYPE_CHECKING:
    import xarray

_ENTRY = re.compile(r"(.+)\[(\d+(?:,\d+)*)\]")  # as `measuring.flattened` names columns


def as_dataset(
    frame: pandas.DataFrame,
    grid: Sequence[str],
    drawn: Sequence[str],
    observed: Sequence[str],
    settings: Mapping[str, Any],
) -> "xarray.Dataset":
    """One axis for each name of ``grid`` and ``time``, drawn parameters along ``sample``.

    ``settings`` are those of the sweep: what it observes gives variables their ``long_name`` and ``units``, what all
    runs have in common becomes the Dataset's attributes.
    """
    dims = [*grid, "time"]
    flat: xarray.Dataset = frame[[*dims, *observed, "status"]].set_index(dims).to_xarray()
    data = flat[["status"]]
    for name, columns in _arrays(observed).items():
        entry = _entry(settings.get("observe", {}), name)
        variable = _joined(flat, data, name, columns, entry)
        words = (
            {"long_name": name, "units": "1"} if entry is None else {"long_name": entry.measures, "units": entry.units}
        )
        data[name] = variable.assign_attrs(words)
    if drawn:
        points = frame.drop_duplicates(SAMPLE).set_index(SAMPLE)[list(drawn)].sort_index()
        data = data.assign_coords({name: (SAMPLE, points[name].to_numpy()) for name in drawn})
    fields = TARGETS[str(settings.get("target", "simulate"))].table.model_fields
    for name in map(str, data.coords):
        said = str(fields[name].description) if name in fields else name
        data[name].attrs.update(long_name=said.split(" [")[0], units="1")
    kept = {name: value for name, value in settings.items() if isinstance(value, str | int | float)}
    return data.assign_attrs(kept)


def _arrays(observed: Sequence[str]) -> dict[str, dict[tuple[int, ...], str]]:
    """Variable -> place -> column; the place of a number is ()."""
    found: dict[str, dict[tuple[int, ...], str]] = {}
    for column in observed:
        entry = _ENTRY.fullmatch(column)
        name, place = (entry[1], tuple(map(int, entry[2].split(",")))) if entry else (column, ())
        found.setdefault(name, {})[place] = column
    return found


def _entry(observe: Any, column: str) -> Observable | None:
    """The observable of the table that a column holds; None for a function of one's own."""
    text = observe.get(column) if isinstance(observe, Mapping) else None
    parsed = parse(text) if isinstance(text, str) else None
    return None if parsed is None else OBSERVABLES.get(parsed.name)


def _joined(
    flat: "xarray.Dataset",
    data: "xarray.Dataset",
    name: str,
    columns: Mapping[tuple[int, ...], str],
    entry: Observable | None,
) -> "xarray.DataArray":
    """One variable from its columns, which have places in an array; where the array has none it is nan."""
    import xarray

    places = list(columns)
    if places == [()]:
        return flat[columns[()]]
    shape = tuple(int(k) + 1 for k in np.max(places, axis=0))
    known = entry.dims if entry is not None and len(entry.dims) == len(shape) else None
    dims = known or tuple(f"{name}_axis{k}" for k in range(len(shape)))
    dims = tuple(dim if data.sizes.get(dim, size) == size else f"{name}_{dim}" for dim, size in zip(dims, shape))
    first = flat[columns[places[0]]]
    values = np.full((*shape, *first.shape), np.nan)
    for place, column in columns.items():
        values[place] = flat[column].values
    return xarray.DataArray(values, dims=(*dims, *first.dims), coords=first.coords).transpose(*first.dims, ...)
