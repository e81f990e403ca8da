"""Weights read from files when asked for: safetensors, torch files and GGUF, under the library's own names."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from metastable.errors import InputError
from metastable.models import gguf_file, torch_file
from metastable.models.families import Family, Tensors
from metastable.models.gguf_header import Header

Read = Callable[[slice], np.ndarray]  # some rows of one tensor
_NUMBERS = ("F64", "F32", "F16", "BF16")  # whole numbers in a file are tables that the library makes anew


class FileTensors(Tensors):
    """Tensors of a file by name; every look-up reads, widens to float64 and keeps nothing.

    Numbers that are not finite are refused when they are met.
    """

    def __init__(self, name: str, readers: Mapping[str, Read]) -> None:
        self._name = name
        self._readers = dict(readers)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.rows(name, slice(None))

    def rows(self, name: str, rows: slice) -> np.ndarray:
        """Some rows of a tensor, the only ones that are read."""
        found = np.array(self._readers[name](rows), dtype=np.float64)
        if not np.isfinite(found).all():
            raise InputError(f"The weights of {self._name!r} hold nan or inf in {name}; the file may be altered.")
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)

    def __contains__(self, name: object) -> bool:
        return name in self._readers


def from_folder(name: str, files: list[Path], family: Family, config: Any) -> FileTensors:
    """The tensors of a saved model, under the names of the base model: a head's prefix ("bert.") is taken off."""
    readers: dict[str, Read] = {}
    for file in files:
        readers |= _safetensors(name, file) if file.suffix == ".safetensors" else _torch(file)
    first = f"{family.layers(config)[0]}."
    prefix = next((key.partition(first)[0] for key in readers if first in key), "")
    return FileTensors(name, {_newer(k.removeprefix(prefix)): r for k, r in readers.items() if k.startswith(prefix)})


def _newer(key: str) -> str:
    """Norms were written with Greek names once."""
    stem, _, last = key.rpartition(".")
    return f"{stem}.{ {'gamma': 'weight', 'beta': 'bias'}.get(last, last) }" if stem else key


def _safetensors(name: str, path: Path) -> dict[str, Read]:
    import ml_dtypes  # noqa: F401, makes bfloat16 known to NumPy, which safetensors relies on
    from safetensors import SafetensorError, safe_open

    try:
        file: Any = safe_open(path, framework="numpy")
        slices = {key: file.get_slice(key) for key in file.keys()}  # noqa: SIM118, not a mapping
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"The weights of {name!r} cannot be read ({path.name}); the file may be truncated, altered or incomplete."
        ) from error
    return {key: partial(_rows, s) for key, s in slices.items() if s.get_shape() and s.get_dtype() in _NUMBERS}


def _rows(tensor: Any, rows: slice) -> np.ndarray:
    first, last, _ = rows.indices(tensor.get_shape()[0])  # safetensors refuses what NumPy would cut off
    return np.asarray(tensor[first:last])


def _torch(path: Path) -> dict[str, Read]:
    found = torch_file.read(path)
    return {key: array.__getitem__ for key, array in found.items() if array.ndim and array.dtype.kind not in "iub"}


def held(name: str, arrays: Mapping[str, np.ndarray]) -> FileTensors:
    """Arrays in memory, read as if they were in a file."""
    return FileTensors(name, {key: array.__getitem__ for key, array in arrays.items()})


def from_gguf(name: str, path: Path, header: Header, config: dict[str, Any]) -> FileTensors:
    """The tensors of a GGUF file, unpacked when asked for."""
    return FileTensors(name, gguf_file.tensor_readers(path, header, config))
