"""Folders and GGUF files read without PyTorch: weights, configuration and tokenizer of the families known here."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from metastable.backend import jax
from metastable.errors import InputError
from metastable.models import file_tensors, gguf_file, tokens
from metastable.models.families import FAMILIES, Tensors
from metastable.models.file_config import DEFAULTS, completed, read_config
from metastable.models.gguf_header import read_header
from metastable.models.own_model import OwnModel
from metastable.models.parts import Parts
from metastable.models.tokens import Tokenizer

LIBRARY = "install it with: pip install 'metastable[models]'"
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "*.gguf")


def weight_files(name: str, path: Path) -> list[Path]:
    """The files that hold a model's weights, all of one format."""
    if path.is_file():
        return [path]
    for pattern in _WEIGHTS:
        if found := sorted(path.glob(pattern)):
            return found
    raise InputError(f"The folder {name!r} holds no weights (safetensors, pytorch_model.bin or GGUF).")


def read_own(name: str, path: Path, dtype: str) -> OwnModel:
    """A saved folder or a GGUF file as a model that needs no PyTorch.

    Parameters
    ----------
    name : str
        What the model is called in messages and records.
    path : Path
        A folder in the layout of ``save_pretrained``, or a GGUF file.
    dtype : {"float32", "float64"}
        What it computes in.
    """
    files = weight_files(name, path)
    if files[0].suffix == ".gguf":
        return _from_gguf(name, files[0], dtype)
    entries = read_config(name, path)
    check_kind(name, entries.get("model_type"))
    config = completed(entries)
    family = FAMILIES[config.model_type]
    tensors = file_tensors.from_folder(name, files, family, config)
    return _checked(name, _tokenizer(path), tensors, config, dtype)


def check_kind(name: str, kind: object) -> None:
    """Refuse a kind of model that cannot be run without PyTorch."""
    if kind not in DEFAULTS:
        raise InputError(
            f"{name!r} is of the kind {kind!r}, which needs PyTorch ({LIBRARY}); without it, models of the kinds "
            f"{', '.join(DEFAULTS)} are run."
        )


def _from_gguf(name: str, path: Path, dtype: str) -> OwnModel:
    header = read_header(path)
    try:
        entries = gguf_file.read_config(path, header)
        tensors = file_tensors.from_gguf(name, path, header, entries)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path.name} cannot be read; it may be altered or incomplete.") from error
    beside = path.parent / "tokenizer.json"
    tokenizer = tokens.from_file(beside) if beside.is_file() else gguf_file.read_tokenizer(path)
    return _checked(name, tokenizer, tensors, completed(entries), dtype)


def _checked(name: str, tokenizer: Tokenizer | None, tensors: Tensors, config: Any, dtype: str) -> OwnModel:
    """The model, with every layer made once: what is missing or does not fit is found now."""
    model = OwnModel(name, tokenizer, Parts(name, FAMILIES[config.model_type], tensors, config), dtype)
    try:
        width = model.start([0]).shape[-1]
        _check_shapes(model)
    except KeyError as error:
        raise InputError(f"The weights of {name!r} lack the tensor {error.args[0]}.") from error
    except (ValueError, TypeError, AttributeError) as error:
        if isinstance(error, InputError) and "nan or inf" in str(error):
            raise
        raise InputError(f"The weights of {name!r} do not fit its config.json: {error}") from error
    if width != model.dimension:
        raise InputError(f"The weights of {name!r} do not fit its config.json: tokens are {width} wide.")
    return model


def _check_shapes(model: OwnModel) -> None:
    """Send the shape of a token, without its numbers, through every layer and the last norm (ValueError, TypeError)."""
    token, met = jax.ShapeDtypeStruct((1, model.dimension), model.precision), set()
    for number in model.parts.distinct:
        layer = model.layer(number, 1)
        shapes = tuple(np.shape(leaf) for leaf in jax.tree.leaves(layer))
        if shapes not in met:
            met.add(shapes)
            jax.eval_shape(partial(layer.layer, 0.0, dt=1.0), token)
    last = model.parts.final_norm()
    if last is not None:
        given = [array.shape for array in (last.gain, last.bias) if array is not None]
        np.broadcast_shapes((1, model.dimension), *given)


def _tokenizer(folder: Path) -> Tokenizer | None:
    """The folder's tokenizer, or None where it has none that can be read without the library."""
    vocabulary = folder / "vocab.txt"
    if (folder / "tokenizer.json").is_file():
        return tokens.from_file(folder / "tokenizer.json")
    if not vocabulary.is_file():
        return None
    if tokens.reads_smiles(vocabulary):
        return tokens.smiles(vocabulary)
    settings = folder / "tokenizer_config.json"
    given = json.loads(settings.read_text(encoding="utf-8")) if settings.is_file() else {}
    return tokens.word_pieces(vocabulary, lower=bool(given.get("do_lower_case", True)))
