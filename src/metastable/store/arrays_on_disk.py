"""The arrays of a record: one zarr v3 group that xarray opens, ``xarray.open_zarr(folder / "data.zarr")``.

Arrays along time are made at full length and filled segment by segment. A missing chunk reads as nan (or -1), and
every chunk carries a checksum, so damage is seen and never taken for data. zarr writes each chunk under another name
and renames it, so a kill leaves the old chunk or the new one. Chunks are plain bytes: what an array claims to hold must
be on the disk, which keeps a forged record from requesting more memory than its own size.
"""

import math
import os
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import BytesCodec, Crc32cCodec

from metastable.errors import InputError
from metastable.store.files import reason, sync
from metastable.store.folder import damaged

Axes = tuple[str, ...]
DTYPES = ("float64", "float32", "int64", "int32")
_CHUNK_BYTES = 2**26
_CHECKSUM = 4  # bytes after the numbers of a chunk
_UNFINISHED = "*.partial"  # the names under which zarr writes


def chunk_length(shape: Sequence[int], itemsize: int) -> int:
    """Saves per chunk: 24 chunks or more, none beyond 64 MB."""
    one = max(1, math.prod(shape[1:]) * itemsize)
    return max(1, min(-(-shape[0] // 24), _CHUNK_BYTES // one))


def create(path: Path, attributes: Mapping[str, Any], fixed: Mapping[str, tuple[Axes, np.ndarray]]) -> None:
    """Make the group with its ``fixed`` arrays (axes, values)."""
    with _every_chunk():
        group = zarr.create_group(str(path), zarr_format=3, attributes=dict(attributes))
        for name, (axes, values) in fixed.items():
            array = _new(group, name, axes, values.shape, values.shape, values.dtype)
            array[...] = values
            _sync_rows(path / name, array, 0, values.shape[0])


def write(path: Path, count: int, first: int, values: Mapping[str, tuple[Axes, np.ndarray]]) -> None:
    """Write saves ``first`` and following of arrays along time (axes, values), down to the disk.

    An array that is not there yet is made at its full length, ``count``.
    """
    with _damage(path):
        group = _opened(path, "r+")
        for name, (axes, rows) in values.items():
            if name not in group:
                shape = (count, *rows.shape[1:])
                chunk = (chunk_length(shape, rows.dtype.itemsize), *rows.shape[1:])
                _new(group, name, axes, shape, chunk, rows.dtype)
            if len(rows):
                array = _checked(name, group[name])
                array[first : first + len(rows)] = rows
                _sync_rows(path / name, array, first, first + len(rows))


def shorten(path: Path, length: int) -> None:
    """Cut the arrays along time to what was reached, remove unfinished chunks, and consolidate the metadata."""
    for leftover in path.rglob(_UNFINISHED):
        leftover.unlink(missing_ok=True)
    with _damage(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # consolidated metadata are no part of the zarr v3 specification yet
        for name, array in _arrays(path, _opened(path, "r+")).items():
            if _along_time(_checked(name, array)) and array.shape[0] > length:
                array.resize((length, *array.shape[1:]))
        zarr.consolidate_metadata(str(path), zarr_format=3)


def read(
    path: Path, length: int | None = None, only: Collection[str] | None = None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Attributes and arrays; with ``length`` only so many saves of the arrays along time, with ``only`` only some."""
    with _damage(path):
        group = _opened(path, "r")
        chosen = {name: array for name, array in _arrays(path, group).items() if only is None or name in only}
        return dict(group.attrs), {name: _values(path / name, array, length) for name, array in chosen.items()}


def _opened(path: Path, mode: str) -> Any:
    # format 3 only, because format 2 may hold pickled objects
    return zarr.open_group(str(path), mode=mode, zarr_format=3, use_consolidated=False)


def _arrays(path: Path, group: Any) -> dict[str, Any]:
    """The arrays of a group, opened one at a time: zarr opens all at once, and logs a traceback for every further one
    that is damaged."""
    names = sorted(entry.name for entry in path.iterdir() if (entry / "zarr.json").is_file())
    found = {name: group[name] for name in names}
    return {name: array for name, array in found.items() if isinstance(array, zarr.Array)}


def _new(group: Any, name: str, axes: Axes, shape: Sequence[int], chunk: Sequence[int], dtype: np.dtype[Any]) -> Any:
    return group.create_array(
        name,
        shape=tuple(shape),
        chunks=tuple(max(1, size) for size in chunk),
        dtype=dtype.name,
        serializer=BytesCodec(),
        compressors=(Crc32cCodec(),),
        fill_value=-1 if dtype.kind == "i" else float("nan"),
        chunk_key_encoding={"name": "default", "separator": "."},
        dimension_names=axes,
        overwrite=True,  # of what a killed process left of it
    )


def _every_chunk() -> Any:
    """zarr leaves out chunks that hold nothing but the fill value; here nan is data, and a missing chunk is damage."""
    return zarr.config.set({"array.write_empty_chunks": True})


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """zarr has many ways to say that a store is broken; the user sees one sentence."""
    try:
        with _every_chunk():
            yield
    except FileNotFoundError as error:
        raise damaged(path.parent, f"{path.name}: {reason(error)}") from error
    except OSError:
        raise  # the disk's fault, not the record's
    except InputError as error:
        raise damaged(path.parent, reason(error)) from error
    except Exception as error:
        raise damaged(path.parent, f"{path.name}: {reason(error)}") from error


def _checked(name: str, array: Any) -> Any:
    """An array as `_new` makes them; another could hide code or claim any size."""
    codecs = [type(codec).__name__ for codec in array.metadata.codecs]
    fine = codecs == ["BytesCodec", "Crc32cCodec"] and array.dtype.name in DTYPES and array.ndim > 0
    fine = fine and array.chunks[1:] == tuple(max(1, size) for size in array.shape[1:])
    fine = fine and len(array.metadata.dimension_names or ()) == array.ndim
    if not fine or getattr(array.metadata.chunk_key_encoding, "separator", None) != ".":
        raise InputError(f"its array {name!r} is stored in a way that records are not")
    return array


def _values(folder: Path, array: Any, length: int | None) -> np.ndarray:
    name = folder.name
    _checked(name, array)
    rows = array.shape[0] if length is None or not _along_time(array) else min(length, array.shape[0])
    with os.scandir(folder) as entries:
        there = {entry.name: entry.stat().st_size for entry in entries if entry.is_file(follow_symlinks=False)}
    size = array.dtype.itemsize * math.prod(array.chunks) + _CHECKSUM
    count = -(-rows // array.chunks[0])
    if len(there) < count or any(there.get(_chunk(array, k)) != size for k in range(count)):
        raise InputError(f"parts of its array {name!r} are missing, or no files of the right size")
    return np.asarray(array[:rows])


def _along_time(array: Any) -> bool:
    return bool(array.metadata.dimension_names[0] == "time")


def _chunk(array: Any, number: int) -> str:
    """The file of a chunk: arrays are cut along their first axis only."""
    return ".".join(["c", str(number), *["0"] * (array.ndim - 1)])


def _sync_rows(folder: Path, array: Any, first: int, end: int) -> None:
    """zarr's writes survive a killed process; this makes them survive a power cut."""
    length = array.chunks[0]
    for k in range(first // length, -(-end // length)):
        sync(folder / _chunk(array, k))
    sync(folder)
