"""Weights and dynamics in a line, and as cards for notebooks: sizes, parts and letters, never whole arrays."""

from dataclasses import fields
from typing import Any

import numpy as np

from metastable.backend import is_traced
from metastable.equation.html_cards import card, matrix_picture

_MAPS = ("Q", "K", "V", "O", "q_bias", "k_bias", "v_bias", "o_bias")
_MOST_NUMBERS = 2**18  # of a map whose norm is worth computing for a card
_SMALL = 6  # dimension up to which eigenvalues are listed
_ROWS = 12  # tokens of a mask that are drawn


def weights_line(w: Any) -> str:
    """Sizes of the weights, and which of the maps are the identity."""
    size = "any d" if w.dimension is None else f"d = {w.dimension}"
    words = [_map_words(name, getattr(w, name)) for name in ("Q", "K", "V")]
    words += [name for name in (*_MAPS[3:], "q_norm", "k_norm") if getattr(w, name) is not None]
    heads = f"{w.heads} head{'s' * (w.heads != 1)}"
    return ", ".join([heads, size, *words, *["changing with t"] * w.time_dependent])


def _map_words(name: str, W: Any) -> str:
    """The map of one head in a few letters where it is a small square matrix, else its letter."""
    if W is None:
        return f"{name} = I"
    small = isinstance(W, np.ndarray) and W.ndim == 3 and len(W) == 1 and W.shape[1] == W.shape[2] <= _SMALL
    return matrix_words(name, W[0]) if small and np.isfinite(W).all() else name


def matrix_words(name: str, M: np.ndarray) -> str:
    """A matrix in a few letters: a multiple of the identity, a diagonal, its eigenvalues, or its size.

    >>> matrix_words("V", -2.0 * np.eye(3)), matrix_words("V", np.diag([1.0, -0.5]))
    ('V = -2 I', 'V = diag(1, -0.5)')
    >>> matrix_words("V", np.array([[0.5, -2.0, 0.0], [2.0, 0.5, 0.0], [0.0, 0.0, 1.0]]))
    'V with eigenvalues 1, 0.5 ± 2i'
    """
    d = len(M)
    if np.array_equal(M, M[0, 0] * np.eye(d)):
        factor = float(M[0, 0])
        return f"{name} = " + ({1.0: "I", -1.0: "-I"}.get(factor) or f"{factor:.4g} I")
    if d > _SMALL:
        return f"{name} of spectral radius {np.abs(np.linalg.eigvals(M)).max():.3g}"
    if np.array_equal(M, np.diag(np.diag(M))):
        return f"{name} = diag({', '.join(f'{value:.4g}' for value in np.diag(M))})"
    return f"{name} with eigenvalues {_spectrum(M)}"


def _spectrum(M: np.ndarray) -> str:
    """Eigenvalues, largest real part first; a conjugate pair once."""
    values = sorted(np.linalg.eigvals(M), key=lambda value: (-value.real, -value.imag))
    shown = [
        f"{v.real:.3g}" if abs(v.imag) < 1e-12 else f"{v.real:.3g} ± {v.imag:.3g}i" for v in values if v.imag > -1e-12
    ]
    return ", ".join(shown)


def weights_card(w: Any) -> str:
    """Shape, norm and eigenvalues of every map, with a picture of V."""
    facts = [("heads", str(w.heads)), ("d", "that of the tokens" if w.dimension is None else str(w.dimension))]
    identities = [name for name in ("Q", "K", "V") if getattr(w, name) is None]
    facts += [(", ".join(identities), "identity")] if identities else []
    facts += [(name, _described(name, getattr(w, name))) for name in _MAPS if getattr(w, name) is not None]
    drawn = next((name for name in ("V", "Q", "K") if isinstance(getattr(w, name), np.ndarray)), None)
    picture = "" if drawn is None else matrix_picture(getattr(w, drawn)[0], f"{drawn} of the first head")
    return card("Weights", facts, picture)


def _described(name: str, value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return f"traced, shape {np.shape(value)}" if is_traced(value) else "a function of t"
    words = f"shape {value.shape}"
    if value.ndim != 3 or value.size > _MOST_NUMBERS:
        return words
    words += f", norm {np.linalg.norm(value, 2, axis=(-2, -1)).max():.3g}"
    if name == "V" and len(value) == 1 and value.shape[-1] == value.shape[-2] <= _SMALL:
        words += f", eigenvalues {_spectrum(value[0])}"
    return words


def part_line(part: Any) -> str:
    """A part of a block or a position in a line: what was given, arrays by their shapes.

    >>> import metastable as ms
    >>> part_line(ms.blocks.MLP(np.ones((8, 3)), np.ones((3, 8)), activation="gelu"))
    "MLP(W_in (8, 3), W_out (3, 8), activation='gelu')"
    """
    words = []
    for field in fields(part):
        value = getattr(part, field.name)
        if value is None:
            continue
        if np.ndim(value) or is_traced(value):
            words.append(f"{field.name} {np.shape(value)}")
        elif not (type(value) is type(field.default) and value == field.default):
            words.append(f"{field.name}={getattr(value, '__name__', None) or repr(value)}")
    return f"{type(part).__name__}({', '.join(words)})"


def number_words(value: Any) -> str:
    """A number, or the range of an array of them."""
    if is_traced(value):
        return "traced"
    array = np.asarray(value)
    return f"{float(array):g}" if array.ndim == 0 else f"{array.min():g} to {array.max():g} over {array.shape}"


def dynamics_line(dyn: Any) -> str:
    """The parts of the equation by name."""
    words = [f"beta = {number_words(dyn.beta)}", *(str(p) for p in (dyn.normalise, dyn.mask, dyn.geometry))]
    words += [f"score {dyn.score}"] if not dyn.score.is_dot else []
    words += [f"position {type(dyn.position).__name__}"] if dyn.position is not None else []
    words += ["block"] if dyn.block is not None else []
    words += [_noise_words(dyn)] if dyn.noisy else []
    return f"{', '.join(words)}; {weights_line(dyn.weights)}"


def _noise_words(dyn: Any) -> str:
    kind = "" if dyn.noise_kind.independent else f" {dyn.noise_kind}"
    return f"noise = {number_words(dyn.noise)}{kind}"


def dynamics_card(dyn: Any) -> str:
    """The equation with its parts in words, with a picture of the mask."""
    pull = "sum_h sum_j A^h_ij V_h x_j" + (" + MLP(x_i)" if dyn.block is not None else "")
    facts = [
        ("x_i' =", f"T( {pull} )" + (" + noise" if dyn.noisy else "")),
        ("geometry T", str(dyn.geometry)),
        ("A^h =", f"{dyn.normalise} of {'beta <Q x_i, K x_j>' if dyn.score.is_dot else f'score {dyn.score}'}"),
        ("mask", str(dyn.mask)),
        ("beta", number_words(dyn.beta)),
        *([("position", type(dyn.position).__name__)] if dyn.position is not None else []),
        *([("noise", _noise_words(dyn).removeprefix("noise = "))] if dyn.noisy else []),
        ("weights", weights_line(dyn.weights)),
    ]
    return card("Dynamics", facts, _mask_picture(dyn.mask))


def _mask_picture(mask: Any) -> str:
    table = getattr(mask.visible, "entries", None)
    n = _ROWS if table is None else len(table)
    seen = mask.rows(np.arange(n), n)
    return matrix_picture(
        np.ones((n, n)) if seen is None else np.asarray(seen, float), f"which of {n} tokens see which"
    )
