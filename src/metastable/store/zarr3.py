"""The little of Zarr v3 that a record writes: a group, arrays in chunks along their first axis, a checksum on each.

Reading is for zarr itself (see `store`). Writing is not, because importing zarr takes longer than a small run does.
The format: https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

from metastable.store.files import put, read_json
from metastable.store.folder import damaged

FORM = "zarr.json"
PARTIAL = ".partial"
DTYPES = ("float64", "float32", "int64", "int32")
_CHECKSUM = 4  # bytes at the end of a chunk


def array_form(dims: Sequence[str], shape: Sequence[int], chunk: Sequence[int], dtype: str) -> dict[str, Any]:
    """What `zarr.json` says of an array."""
    return {
        "shape": list(shape),
        "data_type": dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunk)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
        "fill_value": -1 if np.dtype(dtype).kind == "i" else "NaN",
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
        "attributes": {},
        "dimension_names": list(dims),
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }


def write_form(folder: Path, form: Mapping[str, Any]) -> None:
    """Make a folder an array or a group."""
    folder.mkdir(parents=True, exist_ok=True)
    put(folder / FORM, json.dumps(form, indent=2).encode(), PARTIAL)


def read_form(folder: Path) -> dict[str, Any]:
    """What `zarr.json` says of an array, checked for what writing relies on."""
    form = read_json(folder / FORM)
    try:
        shape, chunk = form["shape"], form["chunk_grid"]["configuration"]["chunk_shape"]
        fine = all(type(size) is int and size >= 0 for size in [*shape, *chunk]) and chunk[0] > 0
        fine = fine and form["data_type"] in DTYPES and shape[1:] == chunk[1:]
        fine = fine and len(form["dimension_names"]) == len(shape) and form["fill_value"] in (-1, "NaN")
    except (KeyError, TypeError, IndexError):
        fine = False
    if not fine:
        raise damaged(folder.parents[1], f"its array {folder.name!r} is stored in a way that records are not")
    return form


def write_rows(folder: Path, first: int, rows: np.ndarray) -> None:
    """Write rows ``first`` and following of an array, down to the disk, chunk by chunk."""
    form = read_form(folder)
    chunk, end = form["chunk_grid"]["configuration"]["chunk_shape"], first + len(rows)
    length = chunk[0]
    for k in range(first // length, -(-end // length)):
        low, high = max(first, k * length), min(end, (k + 1) * length)
        file = folder / chunk_name([k, *[0] * (len(chunk) - 1)])
        whole = low == k * length and high == min((k + 1) * length, form["shape"][0])
        if whole or not file.exists():
            values = np.full(chunk, float(form["fill_value"])).astype(form["data_type"])
        else:
            values = _read_chunk(file, chunk, form["data_type"])
        values[low - k * length : high - k * length] = rows[low - first : high - first]
        data = np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes()
        put(file, data + google_crc32c.value(data).to_bytes(_CHECKSUM, "little"), PARTIAL)


def cut_rows(folder: Path, length: int) -> None:
    """Make an array end after ``length`` rows."""
    form = read_form(folder)
    last = -(-form["shape"][0] // form["chunk_grid"]["configuration"]["chunk_shape"][0])
    kept = -(-length // form["chunk_grid"]["configuration"]["chunk_shape"][0])
    form["shape"][0] = length
    write_form(folder, form)
    for k in range(kept, last):
        (folder / chunk_name([k, *[0] * (len(form["shape"]) - 1)])).unlink(missing_ok=True)


def gather(group: Path) -> None:
    """Put what the arrays' `zarr.json` say into the group's, so that readers open one file (xarray looks for it)."""
    forms = {place.name: read_form(place) for place in sorted(group.iterdir()) if place.is_dir()}
    together = {"kind": "inline", "must_understand": False, "metadata": forms}
    write_form(group, {**read_json(group / FORM), "consolidated_metadata": together})


def chunk_name(numbers: Sequence[int]) -> str:
    """The file of a chunk.

    >>> chunk_name([3, 0])
    'c.3.0'
    """
    return ".".join(["c", *map(str, numbers)])


def _read_chunk(file: Path, shape: Sequence[int], dtype: str) -> np.ndarray:
    data = file.read_bytes()
    inside, told = data[:-_CHECKSUM], data[-_CHECKSUM:]
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if len(inside) != size or google_crc32c.value(inside).to_bytes(_CHECKSUM, "little") != told:
        raise damaged(file.parents[2], f"a part of its array {file.parent.name!r} is not as it was written")
    return np.frombuffer(inside, np.dtype(dtype).newbyteorder("<")).astype(dtype).reshape(shape)
