"""The header of a GGUF file: keyed values and tensor records, by the format's specification, versions 2 and 3."""

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metastable.errors import InputError

# what the format calls its numbers: type code -> struct code
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
# what reading past an end, arrays nested too deeply, or an alignment that is no count can raise
_BROKEN = (struct.error, ArithmeticError, LookupError, MemoryError, RecursionError, TypeError, UnicodeDecodeError)


@dataclass(frozen=True)
class Header:
    """Keyed values, tensor records (name -> shape, type code, offset) and where the data begins."""

    values: dict[str, Any]
    tensors: dict[str, tuple[tuple[int, ...], int, int]]
    start: int


def read_header(path: Path) -> Header:
    """Everything before the data."""
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise InputError(f"{path.name} is not a GGUF file.")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                return _parse(data)
            except _BROKEN as error:
                raise InputError(
                    f"The header of {path.name} cannot be read; the file may be truncated or altered."
                ) from error


def _parse(data: mmap.mmap) -> Header:
    version, count, pairs = struct.unpack_from("<IQQ", data, 4)
    if version not in (2, 3):
        raise InputError(f"This GGUF file has version {version}; versions 2 and 3 are read.")
    at, values = 24, {}
    for _ in range(pairs):
        key, at = _string(data, at)
        (kind,) = struct.unpack_from("<I", data, at)
        values[key], at = _value(data, at + 4, kind)
    tensors = {}
    for _ in range(count):
        name, at = _string(data, at)
        (axes,) = struct.unpack_from("<I", data, at)
        *shape, kind, offset = struct.unpack_from(f"<{axes}QIQ", data, at + 4)
        tensors[name] = (tuple(reversed(shape)), kind, offset)
        at += 16 + 8 * axes
    align = values.get("general.alignment", 32)
    if type(align) is not int or align < 1:
        raise TypeError("the alignment is no count")
    return Header(values, tensors, -(-at // align) * align)


def _string(data: mmap.mmap, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("<Q", data, at)
    end = at + 8 + length
    if end > len(data):
        raise struct.error("a string runs beyond the end of the file")
    return data[at + 8 : end].decode("utf-8"), end


def _value(data: mmap.mmap, at: int, kind: int) -> tuple[Any, int]:
    if kind == _STRING:
        return _string(data, at)
    if kind != _ARRAY:
        code = "<" + _NUMBERS[kind]
        return struct.unpack_from(code, data, at)[0], at + struct.calcsize(code)
    inner, length = struct.unpack_from("<IQ", data, at)
    at += 12
    if inner in _NUMBERS:
        code = f"<{length}{_NUMBERS[inner]}"
        return list(struct.unpack_from(code, data, at)), at + struct.calcsize(code)
    items = []
    for _ in range(length):
        item, at = _value(data, at, inner)
        items.append(item)
    return items, at
