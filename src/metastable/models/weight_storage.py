"""How a model's weights are stored: quantised weights are not those that it was trained with."""

import json
import struct
from collections import Counter
from pathlib import Path

from metastable.errors import InputError
from metastable.models import torch_file, zoo
from metastable.models.gguf_header import read_header
from metastable.models.own_files import weight_files

_PLAIN = {"F32", "F64"}
_TORCH = {"float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64"}
_WHOLE = {"I8", "I16", "I32", "I64", "U8", "BOOL"}


def stored(name: str) -> str:
    """One sentence on the numbers a model's files hold, empty where they are float32 or it is not known.

    >>> stored("title-t5")
    'Its weights are stored as int8 (ONNX) and were turned back into float32: they are rounded.'
    """
    try:
        kinds = _kinds(name)
    except (InputError, ImportError, OSError, ValueError, KeyError, struct.error):
        return ""
    rounded = [kind for kind, _ in kinds.most_common() if kind not in _PLAIN]
    if not rounded:
        return ""
    return f"Its weights are stored as {' and '.join(rounded)} and were turned back into float32: they are rounded."


def _kinds(name: str) -> Counter[str]:
    """How many numbers there are of each kind."""
    if name in zoo.MODELS:
        if any(file.endswith(".onnx") for file in zoo.MODELS[name].files):
            return Counter({"int8 (ONNX)": 1})
        path = zoo.fetch(name)
    else:
        path = Path(name).expanduser()
        path = path if path.exists() else _in_the_hub_s_cache(name)
    total: Counter[str] = Counter()
    for file in weight_files(name, path):
        total += _READERS[file.suffix](file)
    return total


def _in_the_hub_s_cache(name: str) -> Path:
    """The folder of a model that was read from a hub."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(name, "config.json")
    if not isinstance(found, str):
        raise ValueError("not in the cache")
    return Path(found).parent


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


def _torch(path: Path) -> Counter[str]:
    """Kinds are told from the file's own description; no number is read."""
    total: Counter[str] = Counter()
    for array in torch_file.read(path).values():
        if (kind := _TORCH.get(array.dtype.name)) is not None:
            total[kind] += array.size
    return total


_READERS = {".gguf": _gguf, ".safetensors": _safetensors, ".bin": _torch}


def _size(shape: tuple[int, ...]) -> int:
    total = 1
    for side in shape:
        total *= int(side)
    return total
