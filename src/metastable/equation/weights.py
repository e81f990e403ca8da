"""Weights: the matrices Q, K, V of each head.

Shapes: Q, K (h, k, d) and V (h, d, d); 2-D arrays mean one head, numbers mean d = 1, None means identity.
A pretrained head keeps its output map apart: V (h, v, d) with O (h, d, v). Any of them may be a function of time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from metastable.backend import is_traced, jnp, register
from metastable.equation.matrices import (
    FAMILIES,
    family,
    from_eigenvalues,
    from_file,
    ginibre,
    goe,
    identity,
    orthogonal,
    paranormal,
    perron,
    psd,
    sparse_symmetric,
)
from metastable.equation.part_fields import check_numbers
from metastable.equation.short_forms import part_line, weights_card, weights_line
from metastable.errors import InputError, door, kind_of, numbers

__all__ = [
    "FAMILIES", "Stack", "Timed", "Weights", "checked_value", "family", "from_eigenvalues", "from_file",
    "ginibre", "goe", "identity", "orthogonal", "paranormal", "perron", "psd", "resolve_time", "sparse_symmetric",
    "stack", "stacked", "varies",
]  # fmt: skip

Array = Any
Matrix = Any  # an array, a function of time, or None for the identity
Norm = Any  # a function of queries or keys (..., h, n, k), or None


@door
@register
@dataclass(frozen=True, repr=False)
class Weights:
    """Query, key and value maps of every head.

    Parameters
    ----------
    Q, K : array (k, d) or (h, k, d), function of t, or None
        Query and key maps; they may be rectangular. None is the identity.
    V : array (d, d) or (h, d, d), function of t, or None
        Value map, with the output map already in it; the heads are summed.
    O : array (h, d, v), optional
        Output map kept apart from a thin V (h, v, d), as in pretrained models.
    q_bias, k_bias, v_bias, o_bias : arrays (h, k), (h, k), (h, v) and (d,), optional
        Biases of the maps.
    q_norm, k_norm : HeadNorm or function of (..., h, n, k), optional
        Norms of queries Q x + q_bias and keys K x + k_bias (Qwen3, Gemma 3, OLMo 2).

    Examples
    --------
    >>> Weights(V=[[1.0, 0.0], [0.0, -1.0]]).V.shape
    (1, 2, 2)
    """

    Q: Matrix = None
    K: Matrix = None
    V: Matrix = None
    O: Matrix = None
    q_bias: Matrix = None
    k_bias: Matrix = None
    v_bias: Matrix = None
    o_bias: Matrix = None
    q_norm: Norm = None
    k_norm: Norm = None

    def __post_init__(self) -> None:
        for name, rank in _RANKS.items():
            object.__setattr__(self, name, _checked(name, getattr(self, name), rank))
        for name in ("q_norm", "k_norm"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise InputError(f"{name} must be a HeadNorm or a function, not {type(getattr(self, name)).__name__}.")
        _check_together(self)

    def __repr__(self) -> str:
        return f"Weights({weights_line(self)})"

    def _repr_html_(self) -> str:
        return weights_card(self)

    @cached_property
    def time_dependent(self) -> bool:
        """True when some map is a function of time."""
        return varies(self)

    def at(self, t: Array) -> "Weights":
        """The weights at time t, with every function of time evaluated."""
        return resolve_time(self, t) if self.time_dependent else self

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...] | None]:
        """The shape of every map and bias at one time; None for what is not there."""
        return {name: _shape(getattr(self, name)) for name in _RANKS}

    @property
    def dimension(self) -> int | None:
        """The token dimension d, or None when every map is the identity."""
        return next((shape[-1] for name in ("Q", "K", "V") if (shape := self.shapes[name])), None)

    @property
    def query_width(self) -> int | None:
        """The width k of queries and keys, or None when it is that of unknown tokens."""
        return next((shape[-2] for name in ("Q", "K") if (shape := self.shapes[name])), self.dimension)

    @property
    def biased(self) -> bool:
        """True when some map has a bias."""
        return any(b is not None for b in (self.q_bias, self.k_bias, self.v_bias, self.o_bias))

    @property
    def bilinear(self) -> bool:
        """True when <query, key> is the form <Q x_i, K x_j>, that is, no biases, and no norms of queries or keys."""
        return all(part is None for part in (self.q_bias, self.k_bias, self.q_norm, self.k_norm))

    @cached_property
    def heads(self) -> int:
        """The number of heads h."""
        return max(shape[0] if (shape := self.shapes[name]) else 1 for name in ("Q", "K", "V", "O"))

    def value_map(self, t: float = 0.0, d: int | None = None) -> np.ndarray:
        """O_h V_h as one (h, d, d) array, the V of the papers."""
        now = self.at(t)
        V = np.eye(_dimension(now, d))[None] if now.V is None else np.asarray(now.V)
        V = V if now.O is None else np.einsum("hdv,hve->hde", np.asarray(now.O), V)
        return _for_heads(V, self.heads)

    def score_map(self, t: float = 0.0, d: int | None = None) -> np.ndarray:
        """Q_h^T K_h as one (h, d, d) array."""
        now = self.at(t)
        size = _dimension(now, d)
        Q = np.eye(size)[None] if now.Q is None else np.asarray(now.Q)
        K = np.eye(size)[None] if now.K is None else np.asarray(now.K)
        if now.Q is None or now.K is None:
            A = K if now.Q is None else np.swapaxes(Q, -1, -2)
        else:
            A = np.einsum("hkd,hke->hde", *(np.broadcast_arrays(Q, K) if Q.shape != K.shape else (Q, K)))
        return _for_heads(A, self.heads)


_RANKS = {"Q": 3, "K": 3, "V": 3, "O": 3, "q_bias": 2, "k_bias": 2, "v_bias": 2, "o_bias": 1}


def _for_heads(maps: np.ndarray, heads: int) -> np.ndarray:
    return maps if len(maps) == heads else np.broadcast_to(maps, (heads, *maps.shape[1:]))


def _dimension(weights: Weights, d: int | None) -> int:
    size = d or weights.dimension
    if size is None:
        raise InputError("Every map is the identity, so the dimension is not known; give d.")
    return size


def _checked(name: str, value: Matrix, rank: int) -> Matrix:
    if value is None:
        return None
    if callable(value):
        try:
            first = value.values[0] if isinstance(value, Stack) else value(0.0)
        except Exception as error:  # whatever a function of the user's own may raise
            raise InputError(f"{name} as a function of time could not be called with t = 0: {error}.") from error
        checked_value(name, first, rank)
        return value if isinstance(value, (Stack, Timed)) else Timed(value, rank)
    return checked_value(name, value, rank)


def checked_value(name: str, value: Any, rank: int) -> np.ndarray:
    """``value`` as a float array with ``rank`` axes (a missing head axis is added), or a sentence."""
    try:
        kind = complex if np.iscomplexobj(value) else np.float64
        array = value if is_traced(value) else np.asarray(numbers(value), dtype=kind)
    except (TypeError, ValueError) as error:
        ragged = " whose rows differ in length" * ("inhomogeneous" in str(error))
        raise InputError(f"{name} must be a real array, not {kind_of(value)}{ragged}.") from error
    if kind is complex:
        raise InputError(f"{name} must be real, but it is complex; eigenvalues go to weights.from_eigenvalues.")
    if array.ndim == 0 and rank == 3:
        array = array.reshape(1, 1, 1)
    if array.ndim == rank - 1:
        array = array[None]
    if array.ndim != rank or 0 in array.shape:
        axes = f"{rank - 1} or {rank} axes"
        raise InputError(f"{name} must have {axes}, none of them empty; its shape is {np.shape(value)}.")
    if not is_traced(array) and not np.isfinite(array).all():
        raise InputError(f"{name} holds nan or inf; every entry must be finite.")
    return array


def _shape(value: Matrix) -> tuple[int, ...] | None:
    if isinstance(value, Stack):
        return tuple(np.shape(value.values)[1:])
    return None if value is None else tuple(np.shape(value(0.0) if callable(value) else value))


def _check_together(w: Weights) -> None:
    shape = w.shapes
    sizes = {name: shape[name][-1] for name in ("Q", "K", "V") if shape[name]}  # type: ignore[index]
    if len(set(sizes.values())) > 1:
        raise InputError(f"Q, K and V must act on tokens of one dimension, but their last axes are {sizes}.")
    d = next(iter(sizes.values()), None)
    rows = {name: (shape[name] or (1, d, d))[-2] for name in ("Q", "K")}
    if d is not None and rows["Q"] != rows["K"]:
        raise InputError(f"Q and K must have as many rows as each other, but they have {rows['Q']} and {rows['K']}.")
    if shape["O"] is not None:
        width = (shape["V"] or (1, d, d))[-2]
        if d is None or shape["O"][-1] != width or shape["O"][-2] != d:
            raise InputError(f"O must be (heads, d, v) = (h, {d}, {width}) to follow V, but it is {shape['O']}.")
    elif shape["V"] is not None and shape["V"][-1] != shape["V"][-2]:
        raise InputError(f"V must be square (or come with an output map O), but it is {shape['V'][-2:]}.")
    heads = {name: shape[name][0] for name in _RANKS if shape[name] and name != "o_bias"}  # type: ignore[index]
    if len(set(heads.values()) - {1}) > 1:
        raise InputError(f"All maps must have the same number of heads (or one), but they have {heads}.")


# --- weights that change with time ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Timed:
    """A user's function of time whose value gets a head axis when it has none."""

    function: Callable[[Array], Array]
    rank: int

    def __call__(self, t: Array) -> Array:
        value = jnp.asarray(self.function(t))
        value = value.reshape(1, 1, 1) if value.ndim == 0 and self.rank == 3 else value
        return value if value.ndim == self.rank else value[None]


@register
@dataclass(frozen=True, repr=False)
class Stack:
    """Layers as a function of time: entry ``floor(t / dt)`` of ``values`` (L, ...), the last one from then on."""

    values: Array
    dt: float = 1.0

    __repr__ = part_line

    def __post_init__(self) -> None:
        check_numbers(self, ("dt",), above=0.0)

    def __call__(self, t: Array) -> Array:
        # 1e-9 of a layer: k * dt / dt may come out just below k
        index = jnp.floor(jnp.asarray(t) / self.dt + 1e-9).astype(int)
        return jnp.take(jnp.asarray(self.values), index, axis=0, mode="clip")


@door
def stack(layers: Sequence[Weights], dt: float = 1.0) -> Weights:
    """One ``Weights`` whose time is the layer, from a list with one ``Weights`` per layer."""
    if not layers:
        raise InputError("A stack of layers needs at least one.")
    names = [f.name for f in fields(Weights) if any(getattr(w, f.name) is not None for w in layers)]
    missing = [n for n in names for w in layers if getattr(w, n) is None]
    if missing:
        raise InputError(f"Every layer must have the same maps, but some lack {sorted(set(missing))}.")
    return Weights(**{n: stacked([getattr(w, n) for w in layers], dt) for n in names})


def stacked(values: Sequence[Any], dt: float = 1.0) -> Any:
    """One value whose time is the layer: a ``Stack`` of arrays, or a part of the same kind with its arrays stacked."""
    first = values[0]
    if any(type(value) is not type(first) for value in values):
        kinds = sorted({type(value).__name__ for value in values})
        raise InputError(f"Layers with {' and '.join(kinds)} in the same place cannot be stacked.")
    if isinstance(first, np.ndarray):
        return Stack(np.stack(values), float(dt))
    if hasattr(first, "__dataclass_fields__"):
        return replace(first, **{f.name: stacked([getattr(v, f.name) for v in values], dt) for f in fields(first)})
    if any(value != first for value in values):
        raise InputError(f"Layers can be stacked where only arrays differ, but they have {first!r} and others.")
    return first


def varies(part: Any) -> bool:
    """Whether some value of a frozen part, or of a part inside it, is a function of time."""
    found = (getattr(part, f.name) for f in fields(part))
    return any(isinstance(v, (Stack, Timed)) or (hasattr(v, "__dataclass_fields__") and varies(v)) for v in found)


def resolve_time(part: Any, t: Array) -> Any:
    """A copy of a frozen part in which every function of time (also inside nested parts) is evaluated at t."""
    changes = {}
    for f in fields(part):
        value = getattr(part, f.name)
        if isinstance(value, (Stack, Timed)):
            changes[f.name] = value(t)
        elif hasattr(value, "__dataclass_fields__"):
            changes[f.name] = resolve_time(value, t)
    if not changes:
        return part
    copy = object.__new__(type(part))  # the parts were checked when first built
    for f in fields(part):
        object.__setattr__(copy, f.name, changes.get(f.name, getattr(part, f.name)))
    return copy
