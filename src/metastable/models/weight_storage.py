"""How a model's weights are stored: quantised weights are not those that it was trained with."""

import json
import struct
from collections import Counter
from pathlib import Path

from metastable.errors import InputError
from metastable.models import zoo
from metastable.models.gguf_file import read_header

_PLAIN = {"F32", "F64"}
_WHOLE = {"I8", "I16", "I32", "I64", "U8", "BOOL"}


def stored(name: str) -> str:
    """One sentence on the numbers a model's files hold, empty where they are float32 or it is not known.

    >>> stored("title-t5")
    'Its weights are stored as int8 (ONNX) and were turned back into float32: they are rounded.'
    """
    try:
        kinds = _kinds(name)
    except (InputError, OSError, ValueError, KeyError, struct.error):
        return ""
    rounded = [kind for kind, _ in kinds.most_common() if kind not in _PLAIN]
    if not rounded:
        return ""
    return f"Its weights are stored as {' and '.join(rounded)} and were turned back into float32: they are rounded."


def _kinds(name: str) -> Counter[str]:
    """How many numbers there are of each kind."""
    if name in zoo.MODELS:
        names = list(zoo.MODELS[name].files)
        if any(file.endswith(".onnx") for file in names):
            return Counter({"int8 (ONNX)": 1})
        if not any(file.endswith((".gguf", ".safetensors")) for file in names):
            return Counter()
        path = zoo.fetch(name)
    else:
        path = Path(name).expanduser()
    found = [path] if path.is_file() else [*sorted(path.glob("*.safetensors")), *sorted(path.glob("*.gguf"))]
    total: Counter[str] = Counter()
    for file in found:
        total += _gguf(file) if file.suffix == ".gguf" else _safetensors(file)
    return total


def _gguf(path: Path) -> Counter[str]:
    from gguf import GGMLQuantizationType

    total: Counter[str] = Counter()
    for shape, code, _ in read_header(path).tensors.values():
        total[GGMLQuantizationType(code).name] += _size(shape)
    return total


def _safetensors(path: Path) -> Counter[str]:
    """The header is a length and a JSON object."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        if length > 2**27:
            raise ValueError("no header")
        header = json.loads(file.read(length))
    total: Counter[str] = Counter()
    for key, entry in header.items():
        if key != "__metadata__" and entry["dtype"] not in _WHOLE:
            total[entry["dtype"]] += _size(tuple(entry["shape"]))
    return total


def _size(shape: tuple[int, ...]) -> int:
    total = 1
    for side in shape:
        total *= int(side)
    return total
