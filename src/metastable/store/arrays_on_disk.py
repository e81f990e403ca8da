"""The arrays of a record: one zarr v3 group that xarray opens, ``xarray.open_zarr(folder / "data.zarr")``.

Arrays along time are made at full length and filled piece by piece. A missing chunk reads as nan (or -1), and every
chunk carries a checksum, so damage is seen and never taken for data. Chunks are plain bytes: what an array claims to
hold must be on the disk, which keeps a forged record from asking for more memory than its own size.
"""

import math
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from metastable.errors import InputError
from metastable.store import zarr3
from metastable.store.files import sync

_CHUNK_BYTES = 2**26


def chunk_length(shape: Sequence[int], itemsize: int) -> int:
    """Saves per chunk: 24 chunks or more, none beyond 64 MB."""
    one = max(1, math.prod(shape[1:]) * itemsize)
    return max(1, min(-(-shape[0] // 24), _CHUNK_BYTES // one))


def create(
    path: Path,
    attributes: Mapping[str, Any],
    along_time: Mapping[str, tuple[tuple[str, ...], tuple[int, ...], str]],
    fixed: Mapping[str, tuple[tuple[str, ...], np.ndarray]],
) -> None:
    """Make the group: ``along_time`` arrays (dims, shape, dtype) empty, ``fixed`` arrays (dims, values) whole."""
    group = {"attributes": dict(attributes), "zarr_format": 3, "node_type": "group"}
    zarr3.write_form(path, group)
    for name, (dims, shape, dtype) in along_time.items():
        chunk = (chunk_length(shape, np.dtype(dtype).itemsize), *shape[1:])
        zarr3.write_form(path / name, zarr3.array_form(dims, shape, chunk, dtype))
    for name, (dims, values) in fixed.items():
        zarr3.write_form(path / name, zarr3.array_form(dims, values.shape, values.shape, values.dtype.name))
        zarr3.write_rows(path / name, 0, values)


def write(path: Path, first: int, values: Mapping[str, np.ndarray]) -> None:
    """Write saves ``first`` and following of the arrays along time, down to the disk."""
    for name, part in values.items():
        if len(part):
            zarr3.write_rows(path / name, first, part)
            sync(path / name)


def shorten(path: Path, length: int) -> None:
    """Cut the arrays along time to what was reached, clear away unfinished chunks, and gather the metadata."""
    for leftover in path.rglob("*" + zarr3.PARTIAL):
        leftover.unlink(missing_ok=True)
    for place in [entry for entry in path.iterdir() if entry.is_dir()]:
        form = zarr3.read_form(place)
        if form["dimension_names"][0] == "time" and form["shape"][0] > length:
            zarr3.cut_rows(place, length)
    zarr3.gather(path)


def read(path: Path, length: int | None = None) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Attributes and arrays; with ``length`` only so many saves of the arrays along time."""
    import zarr

    # format 3 only, because format 2 may hold pickled objects
    group = zarr.open_group(str(path), mode="r", zarr_format=3, use_consolidated=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about chunks that a killed process left unfinished
        found = dict(group.arrays())
    return dict(group.attrs), {name: _values(path / name, array, length) for name, array in found.items()}


def _values(folder: Path, array: Any, length: int | None) -> np.ndarray:
    name = folder.name
    codecs = [type(codec).__name__ for codec in array.metadata.codecs]
    if codecs != ["BytesCodec", "Crc32cCodec"] or array.dtype.name not in zarr3.DTYPES or array.ndim == 0:
        raise InputError(f"its array {name!r} is stored in a way that records are not")
    rows = array.shape[0] if length is None or not _along_time(array) else min(length, array.shape[0])
    grid = (-(-rows // array.chunks[0]), *array.cdata_shape[1:])
    there = {entry.name: entry.stat().st_size for entry in os.scandir(folder)}
    least = array.dtype.itemsize * math.prod(array.chunks)
    if len(there) < math.prod(grid) or any(there.get(zarr3.chunk_name(k), 0) < least for k in np.ndindex(grid)):
        raise InputError(f"parts of its array {name!r} are missing")
    return np.asarray(array[:rows])


def _along_time(array: Any) -> bool:
    return (array.metadata.dimension_names or (None,))[0] == "time"
