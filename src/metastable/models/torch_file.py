"""Tensors of a file written by ``torch.save``, read in NumPy: without torch, and without unpickling.

The older format is a row of pickles (a magic number, a protocol number, facts of the system, the dictionary of tensors,
the list of storage keys) and then, for each key, a length (int64) and the raw numbers. The newer one is a zip archive
of one pickle (``data.pkl``) and a file of raw numbers for each key. A tensor is a storage key, an offset, sizes and
strides. The pickles are not given to Python's unpickler: the opcodes that torch writes are followed by a machine which
can build dictionaries, lists, tuples and tensors, and has no way of importing or calling anything.
"""

import io
import math
import mmap
import pickletools
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import ml_dtypes
import numpy as np

from metastable.errors import InputError

_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
_ORDERED, _REBUILD = "collections OrderedDict", "torch._utils _rebuild_tensor_v2"
_STORAGES: dict[str, Any] = {
    "torch DoubleStorage": "<f8",
    "torch FloatStorage": "<f4",
    "torch HalfStorage": "<f2",
    "torch BFloat16Storage": ml_dtypes.bfloat16,
    "torch LongStorage": "<i8",
    "torch IntStorage": "<i4",
    "torch ShortStorage": "<i2",
    "torch CharStorage": "i1",
    "torch ByteStorage": "u1",
    "torch BoolStorage": "?",
    "torch ComplexFloatStorage": "<c8",
    "torch ComplexDoubleStorage": "<c16",
}
_LITERALS = {"BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, Callable[[], Any]] = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
# what reading past an end, or a value of the wrong kind, can raise
_BROKEN = (
    *(ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError),
    *(OSError, NotImplementedError, struct.error, zipfile.BadZipFile),
)


class _Refused(Exception):
    """The file asks for something that a file of tensors does not need."""


class _Name(str):
    """One of the few names that a file may mention."""


class _Storage(NamedTuple):
    key: str
    dtype: np.dtype[Any]
    length: int


class _Tensor(NamedTuple):
    storage: _Storage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]


def read(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a ``torch.save`` file by name: read-only arrays over the file, in its own precision.

    Parameters
    ----------
    path : Path
        A dictionary of tensors, such as ``pytorch_model.bin``, in torch's older format or its newer one.

    Examples
    --------
    >>> from metastable.models import zoo
    >>> tensors = read(zoo.fetch("reactions-albert") / "pytorch_model.bin")  # doctest: +SKIP
    >>> tensors["albert.embeddings.word_embeddings.weight"].shape  # doctest: +SKIP
    (591, 128)
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            whole = np.memmap(path, np.uint8, "r")
            return _zipped(file, whole) if data[:4] == b"PK\x03\x04" else _older(data, whole)
    except _Refused as error:
        raise InputError(f"{path.name} {error}, so it is not read; only plain tensors are taken from it.") from error
    except _BROKEN as error:
        raise InputError(f"{path.name} cannot be read as a torch file; it may be truncated or altered.") from error


def _older(data: mmap.mmap, whole: np.ndarray) -> dict[str, np.ndarray]:
    if _value(data, {}) != _MAGIC or _value(data, {}) != _PROTOCOL:
        raise ValueError("not a torch file")
    if _value(data, {})["little_endian"] is not True:
        raise _Refused("was written by a big-endian machine")
    storages: dict[str, _Storage] = {}
    tensors = _value(data, storages)
    keys, at, raw = _value(data, {}), data.tell(), {}
    if not all(type(key) is str for key in keys) or len(set(keys)) < len(keys):
        raise ValueError("a storage is listed twice")
    for key in keys:
        (length,) = struct.unpack_from("<q", data, at)
        if length != storages[key].length:
            raise ValueError("two lengths of one storage")
        raw[key], at = _numbers(whole, at + 8, storages[key])
    return _arrays(tensors, raw, len(whole))


def _zipped(file: IO[bytes], whole: np.ndarray) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(file) as archive:
        members = {info.filename.partition("/")[2]: info for info in archive.infolist()}
    if any(info.compress_type != zipfile.ZIP_STORED for info in members.values()):
        raise _Refused("is a compressed archive")
    if "byteorder" in members and _member(whole, members["byteorder"]).tobytes() != b"little":
        raise _Refused("was written by a big-endian machine")
    storages: dict[str, _Storage] = {}
    tensors = _value(io.BytesIO(_member(whole, members["data.pkl"]).tobytes()), storages)
    raw = {key: _numbers(_member(whole, members[f"data/{key}"]), 0, s)[0] for key, s in storages.items()}
    return _arrays(tensors, raw, len(whole))


def _member(whole: np.ndarray, info: zipfile.ZipInfo) -> np.ndarray:
    """A member's bytes in the archive, where they are: after a header of 30 bytes, a name and an extra field."""
    at = info.header_offset
    if at < 0:
        raise ValueError("a member before the archive")
    name, extra = struct.unpack_from("<HH", whole[at : at + 30].tobytes(), 26)
    return whole[at + 30 + name + extra :][: info.file_size]


def _numbers(whole: np.ndarray, at: int, storage: _Storage) -> tuple[np.ndarray, int]:
    end = at + storage.length * storage.dtype.itemsize
    if end > len(whole):
        raise ValueError("the file ends within a storage")
    return whole[at:end].view(storage.dtype), end


def _arrays(tensors: Any, raw: Mapping[str, np.ndarray], limit: int) -> dict[str, np.ndarray]:
    if not isinstance(tensors, dict) or not all(isinstance(v, _Tensor) for v in tensors.values()):
        raise _Refused("holds other things than a dictionary of tensors")
    return {str(name): _array(tensor, raw[tensor.storage.key], limit) for name, tensor in tensors.items()}


def _array(tensor: _Tensor, numbers: np.ndarray, limit: int) -> np.ndarray:
    """A view of the storage, after it is certain that nothing reaches beyond the storage's ends."""
    _, offset, size, stride = tensor
    if not all(type(k) is int and k >= 0 for k in (offset, *size, *stride)) or len(size) != len(stride):
        raise ValueError("an offset, a size or a stride is not a count")
    last = offset + sum((n - 1) * step for n, step in zip(size, stride))
    if math.prod(size) and last >= len(numbers):
        raise ValueError("a tensor reaches beyond its storage")
    if math.prod(size) * numbers.itemsize > limit:  # a stride of 0 can make a terabyte of one number
        raise _Refused("holds a tensor larger than the file")
    steps = [step * numbers.itemsize for step in stride]
    return np.lib.stride_tricks.as_strided(numbers[offset:], size, steps, writeable=False)


# --- the machine --------------------------------------------------------------------------------------------------


def _value(stream: Any, storages: dict[str, _Storage]) -> Any:
    """What one pickle describes; the storages that its tensors mention are noted in ``storages``."""
    stack: list[Any] = []
    marks: list[list[Any]] = []
    memo: dict[int, Any] = {}
    argument: Any
    for opcode, argument, _ in pickletools.genops(stream):
        name = opcode.name
        if name in _LITERALS:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name in ("BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name == "GLOBAL":
            stack.append(_allowed(argument))
        elif name == "MARK":
            marks.append(stack)
            stack = []
        elif name == "STOP":
            return stack.pop()
        elif name != "PROTO":
            stack = _combined(name, stack, marks, storages)
    raise ValueError("the pickle has no end")


def _combined(name: str, stack: list[Any], marks: list[list[Any]], storages: dict[str, _Storage]) -> list[Any]:
    """The stack after an opcode that makes one value of several, or puts values into one below them."""
    if name in ("TUPLE", "SETITEMS", "APPENDS"):
        items, stack = stack, marks.pop()
    if name == "TUPLE":
        stack.append(tuple(items))
    elif name in _TUPLES:
        stack[-_TUPLES[name] :] = [tuple(stack[-_TUPLES[name] :])]
    elif name == "BINPERSID":
        stack.append(_storage(stack.pop(), storages))
    elif name == "REDUCE":
        arguments = stack.pop()
        stack.append(_made(stack.pop(), arguments))
    elif name == "BUILD":  # the attributes of an OrderedDict: versions of modules, of no use here
        stack.pop()
    elif name in ("SETITEM", "SETITEMS"):
        pairs = items if name == "SETITEMS" else [stack.pop(-2), stack.pop()]
        if not all(type(key) in (str, int) for key in pairs[::2]):
            raise _Refused("has keys that are not words")
        stack[-1].update(zip(pairs[::2], pairs[1::2], strict=True))
    elif name in ("APPEND", "APPENDS"):
        more = items if name == "APPENDS" else [stack.pop()]
        stack[-1].extend(more)
    else:
        raise _Refused(f"uses the pickle operation {name}")
    return stack


def _allowed(name: str) -> _Name:
    if name not in (_ORDERED, _REBUILD, *_STORAGES):
        raise _Refused(f"asks for {name.replace(' ', '.')[:80]!r}")
    return _Name(name)


def _storage(identity: Any, storages: dict[str, _Storage]) -> _Storage:
    """A storage from its identity: the word "storage", a type, a key, a device, a length [, the view of another]."""
    word, kind, key, _, length, *view = identity
    known = isinstance(kind, _Name) and type(key) is str and type(length) is int
    if word != "storage" or not known or length < 0 or view not in ([], [None]):
        raise ValueError("not a storage")
    found = _Storage(key, np.dtype(_STORAGES[kind]), length)
    if storages.setdefault(found.key, found) != found:
        raise ValueError("one storage with two descriptions")
    return found


def _made(function: Any, arguments: Any) -> Any:
    if isinstance(function, _Name) and function == _ORDERED and arguments == ():
        return {}
    if isinstance(function, _Name) and function == _REBUILD and isinstance(arguments[0], _Storage):
        storage, offset, size, stride, *more = arguments  # whether gradients are wanted, hooks, and then marks
        if any(more[2:]):
            raise _Refused("marks a tensor as the negative or the conjugate of its numbers")
        if isinstance(size, tuple) and isinstance(stride, tuple):
            return _Tensor(storage, offset, size, stride)
        raise TypeError("sizes and strides are tuples")
    raise _Refused("calls something that makes no tensor")
