"""Arrays in every shape in which people have them: files, mappings, outputs of other libraries."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from metastable.equation.matrices import read_npy
from metastable.errors import InputError
from metastable.models.array_model import ArrayModel, array_model, as_array
from metastable.models.lens_model import cached_states, is_cache

_NAMES = {"states": "states", "hidden_states": "states", "attention": "attention", "attentions": "attention"}


_FILES = (".npy", ".npz")


def is_states(given: Any) -> bool:
    """Whether something is states rather than a model: arrays, a mapping or file of them, a cache of TransformerLens.

    >>> is_states(np.zeros((3, 5, 8))), is_states("states.npy"), is_states("minilm"), is_states(3)
    (True, True, False, False)
    """
    if isinstance(given, (str, Path)):
        return Path(given).suffix in _FILES
    tensor = hasattr(given, "detach") and hasattr(given, "ndim")
    return tensor or is_cache(given) or isinstance(given, (Mapping, np.ndarray, list, tuple))


def as_model(states: Any, attention: Any = None, tokens: Any = None, name: str = "arrays") -> ArrayModel:
    """The arrays as a model: see ``metastable.models.from_arrays``."""
    if isinstance(states, (str, Path)):
        path = Path(states)
        return as_model(_read(path), attention, tokens, path.name if name == "arrays" else name)
    if is_cache(states):
        states, attention = cached_states(states)
    elif isinstance(states, Mapping):
        states, attention, tokens = _by_name(states, attention, tokens)
    x = _texts(states, 3, "states")
    maps = None if attention is None else _texts(attention, 4, "attention")
    return array_model(x, maps, None if tokens is None else _token_lists(tokens, len(x)), name)


def _read(path: Path) -> Any:
    """A .npy file as an array, an .npz file as a mapping; nothing is unpickled."""
    try:
        if path.suffix == ".npy":
            return read_npy(path)
        found = np.load(path, allow_pickle=False)
        return found if isinstance(found, np.ndarray) else {key: found[key] for key in found.files}
    except FileNotFoundError as error:
        raise InputError(f"There is no file {str(path)!r}.") from error
    except Exception as error:  # NumPy has many ways to say that a header is broken
        raise InputError(f"{str(path)!r} cannot be read as a .npy or .npz file of numbers.") from error


def _by_name(given: Mapping[str, Any], attention: Any, tokens: Any) -> tuple[Any, Any, Any]:
    """States, maps and tokens of a mapping; those that were also given apart are taken as given."""
    found: dict[str, Any] = {}
    for key, value in given.items():
        part, _, number = key.partition("_") if re.fullmatch(r"(states|attention|tokens)_\d+", key) else (key, "", "")
        part = _NAMES.get(part, part)
        if number:
            found.setdefault(part, {})[int(number)] = value
        elif part in ("states", "attention", "tokens"):
            found[part] = value
    if "states" not in found:
        raise InputError(
            f"The mapping holds no 'states'; it holds {', '.join(map(repr, list(given)[:8])) or 'nothing'}."
        )
    whole = {part: [v[k] for k in sorted(v)] if isinstance(v, dict) else v for part, v in found.items()}
    here = whole.get("attention") if attention is None else attention
    return whole["states"], here, whole.get("tokens") if tokens is None else tokens


def _texts(given: Any, axes: int, what: str) -> list[Any]:
    """One array per text, with as many axes as one text has."""
    if isinstance(given, tuple):  # layers, as ``transformers`` hands them out, with a batch axis each
        layers = [as_array(one) for one in given]
        if not layers or any(one.shape != layers[0].shape for one in layers):
            raise InputError(f"A tuple of {what} is layer by layer, all of one shape; a list is text by text.")
        stacked = np.stack(layers)  # (layer, [batch,] ...)
        return list(np.moveaxis(stacked, 1, 0)) if stacked.ndim == axes + 1 else [stacked]
    if isinstance(given, list) and given and all(np.ndim(one) >= axes for one in given):
        return given
    array = as_array(given)
    return list(array) if array.ndim == axes + 1 else [array]


def _token_lists(tokens: Any, count: int) -> list[Any]:
    """One list of tokens per text."""
    tokens = tokens.tolist() if hasattr(tokens, "tolist") else tokens  # an array, or a tensor
    if not isinstance(tokens, (list, tuple)):
        raise InputError(
            "The tokens of given states are a list of ids or words, for several texts a list of lists, "
            f"not {type(tokens).__name__}."
        )
    nested = len(tokens) > 0 and not isinstance(tokens[0], (str, int, np.integer))
    return list(tokens) if nested else [tokens]
