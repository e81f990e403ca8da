"""Leading eigenvalues of every head of a model, read as those of O V or of the square value block."""

from itertools import product

import numpy as np

from metastable.equation.weights import from_eigenvalues
from metastable.errors import InputError
from metastable.experiments import model_access
from metastable.models.folding import linear
from metastable.models.spectra import ov_eigenvalues, value_block_eigenvalues

READINGS = ("O V", "the value block")


def leading(values: np.ndarray, top: int) -> np.ndarray:
    """The ``top`` leading eigenvalues that make a real matrix: conjugate pairs stay together.

    >>> leading(np.array([-3.0, 1 + 2j, 1 - 2j, 0.5]), 2)
    array([-3. +0.j,  0.5+0.j])
    """
    chosen: list[complex] = []
    for value in values[values.imag >= 0.0]:
        pair = [complex(value)] if value.imag == 0.0 else [complex(value), complex(value.conjugate())]
        if len(chosen) + len(pair) <= top:
            chosen += pair
    if len(chosen) < top:
        raise InputError(f"This head has no {top} leading eigenvalues that make a real matrix; try top={top - 1}.")
    return np.array(chosen)


def cases(model: str, layer: int, drawn: int, top: int) -> tuple[np.ndarray, np.ndarray]:
    """(head, reading) of every case, (c, 2), and its leading eigenvalues, (c, top), where it has enough of them."""
    block = model_access.model_of(model).block(layer)
    if not 0 <= drawn < block.heads:
        raise InputError(f"{model!r} has heads 0 to {block.heads - 1}, not {drawn}.")
    folded = linear(block)
    names, values = [], []
    for head, reading in product(range(block.heads), range(len(READINGS))):
        found = value_block_eigenvalues(block, head) if reading else ov_eigenvalues(folded, head)[0]
        try:
            values.append(leading(found, top))
        except InputError:
            if head == drawn:
                raise
            continue
        names.append((head, reading))
    return np.array(names), np.stack(values)


def matrix(values: np.ndarray) -> np.ndarray:
    """V, diagonal with 2 x 2 blocks for complex pairs."""
    return from_eigenvalues([complex(v) for v in values])


def words(values: np.ndarray) -> str:
    """Eigenvalues as text.

    >>> words(np.array([1.0, 0.5 + 2j]))
    '1.00, 0.50+2.00i'
    """
    return ", ".join(f"{v.real:.2f}" if v.imag == 0 else f"{v.real:.2f}{v.imag:+.2f}i" for v in values)
