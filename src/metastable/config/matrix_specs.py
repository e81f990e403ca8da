"""Q, K and V from what a user writes.

| written                        | means                                                                     |
|--------------------------------|---------------------------------------------------------------------------|
| ``V.npy``, ``V.csv``           | a file: (d, d), or (heads, d, d) in .npy; Q and K may be rectangular       |
| ``goe``, ``0.5*goe(seed=3)``   | a family of `metastable.equation.weights.FAMILIES`, drawn anew for each head        |
| ``1,1,-0.5``                   | eigenvalues, on the diagonal                                              |
| ``0.5+2j,0.5-2j,1@orthogonal`` | eigenvalues in a random rotation of the axes, or ``@random`` oblique ones  |
| ``-1``                         | one number: that number times the identity                                |
| ``[[0, 1], [-1, 0]]``          | the matrix itself                                                         |
| ``model:NAME/head=4/top=3``    | taken from a pretrained model                                             |
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from metastable.config import named
from metastable.equation import weights
from metastable.errors import InputError, unknown
from metastable.models.spectra import simulator_value

_COMPLEX = rf"(?:nan|[-+]?inf|(?:{named.NUMBER})?(?:{named.NUMBER}[ij])?)"
_VALUES = re.compile(rf"\s*({_COMPLEX}(?:\s*,\s*{_COMPLEX})*)\s*(?:@\s*([\w-]+))?\s*")
_FILES = (".npy", ".csv")


def is_file(given: Any) -> bool:
    """True for the name of a file of numbers."""
    return isinstance(given, str) and Path(given).suffix in _FILES and not is_model(given)


def is_model(given: Any) -> bool:
    """True for a value taken from a pretrained model."""
    return isinstance(given, str) and given.startswith("model:")


def fits_any_dimension(given: Any) -> bool:
    """True when what is written has no dimension of its own (a family, one number, nothing)."""
    if isinstance(given, str):
        return not (is_file(given) or is_model(given) or given.lstrip().startswith("[") or _eigenvalues(given))
    return not isinstance(given, list)


def matrix(name: str, given: Any, d: int, seed: int, heads: int | None) -> np.ndarray | None:
    """The array behind what is written for Q, K or V, None for the identity; d is for what fits any dimension."""
    if given is None:
        return None
    if isinstance(given, str):
        return _from_text(name, given.strip(), d, seed, heads)
    if isinstance(given, (int, float)):
        return np.diag(np.full(d, float(given)))
    return _from_list(name, given)


def _from_text(name: str, text: str, d: int, seed: int, heads: int | None) -> np.ndarray:
    if is_model(text):
        return np.asarray(simulator_value(text.removeprefix("model:")), dtype=np.float64)
    if text.startswith("["):
        return _from_list(name, _json(name, text))
    if is_file(text):
        return weights.from_file(text)
    values = _eigenvalues(text)
    if values is not None:
        return _with_eigenvalues(name, *values, seed, heads)
    try:
        number = float(text)
    except ValueError:
        return _of_family(name, text, d, seed, heads)
    return np.diag(np.full(d, number))


def _eigenvalues(text: str) -> tuple[list[complex], str] | None:
    found = _VALUES.fullmatch(text)
    if found is None or ("," not in found[1] and found[2] is None):
        return None
    parts = [re.sub("i$", "j", part.replace(" ", "")) for part in found[1].split(",")]
    try:
        return [complex(part) for part in parts], found[2] or "diagonal"
    except ValueError:
        return None


def _with_eigenvalues(name: str, values: Sequence[complex], basis: str, seed: int, heads: int | None) -> np.ndarray:
    drawn = [weights.from_eigenvalues(values, basis, _seed(seed, name, h)) for h in range(heads or 1)]
    return np.stack(drawn) if heads is not None and basis != "diagonal" else drawn[0]


def _of_family(name: str, text: str, d: int, seed: int, heads: int | None) -> np.ndarray:
    parsed = named.parse(text)
    if parsed is None or parsed.name not in weights.FAMILIES:
        refused = unknown(f"{name}", text, weights.FAMILIES)
        raise InputError(f"{str(refused).rstrip('.')}, a .npy or .csv file, or eigenvalues such as 1,1,-0.5.")
    drawn = []
    for h in range(heads or 1):
        given = {"d": d, "seed": _seed(seed, name, h)}
        drawn.append(parsed.factor * named.call("family of matrices", weights.FAMILIES, parsed, given))
    return np.stack(drawn) if heads is not None else drawn[0]


def _seed(seed: int, name: str, head: int) -> Any:
    """A stream of its own for every matrix of every head, apart from those of the tokens (see `initial`)."""
    return [seed, ord(name), 1 + head]


def _from_list(name: str, given: Any) -> np.ndarray:
    """A nested list as a matrix, a plain list as eigenvalues on the diagonal."""
    try:
        array = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a list of rows of equal length, or of eigenvalues.") from error
    return np.diag(array) if array.ndim == 1 else array


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} is not a matrix: {text[:60]!r}; write rows as [[1, 0], [0, 1]].") from error
