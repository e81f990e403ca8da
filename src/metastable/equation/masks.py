"""Who may attend to whom.

A mask says which keys a query sees, ``visible(i, j)``, and, where the keys of each query follow one another, between
which bounds, ``interval(i, n)``: engines that sum over intervals rely on it, others step aside.
Add a mask: one object and one line in MASKS.

>>> strided = Mask(lambda i, j: (i - j) % 3 == 0, name="strided")   # no interval: summed by the dense engine
>>> CAUSAL.bounds(3)[1].tolist()
[1, 2, 3]
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from metastable.backend import Array, Numeric, is_traced, jax, jnp, structure
from metastable.equation.part_fields import check_functions, check_name, is_function, shown
from metastable.errors import InputError, door, unknown

Visible = Callable[[Any, Any], Any]  # broadcasting index arrays i, j -> bool array
Interval = Callable[[Any, int], tuple[Any, Any]]  # (i, n) -> first visible column, and the one after the last
_MOST_ENTRIES = 2**22  # of a mask looked at at once
_CHECKED_ROWS = 256  # of a mask with an interval, compared with its function


@door
@structure
@dataclass(frozen=True)
class Mask:
    """Which tokens j a token i sees.

    Parameters
    ----------
    visible : function (i, j) -> bool array, or None
        Of index arrays that broadcast; None means that every token sees every token.
    interval : function (i, n) -> (first, last), optional
        The visible columns first <= j < last of row i, where they are an interval.
    name : str
    about : str
        What ``metastable list`` says of it.
    by_time : function of t, optional
        The mask at time t, where it changes (`by_layer`); ``visible`` is then what is seen at some time.
    """

    visible: Visible | None
    interval: Interval | None = None
    name: str = "custom"
    about: str = field(default="", compare=False)
    by_time: Callable[[Any], "Mask"] | None = None

    def __post_init__(self) -> None:
        check_functions(self, ("visible", "interval", "by_time"))
        check_name(self)

    def __repr__(self) -> str:
        return self.name

    def at(self, t: Any) -> "Mask":
        """The mask at time t."""
        return self if self.by_time is None else self.by_time(t)

    def rows(self, queries: Numeric, n: int) -> Array | None:
        """What some queries see of n tokens, (m, n), or None for everything."""
        if self.visible is None:
            return None
        seen: Array = self.visible(queries[:, None], np.arange(n)[None, :])
        return seen

    def bounds(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """The interval of each of n rows as two arrays (n,), checked against ``visible``."""
        if self.interval is None:
            raise InputError(f"The mask {self.name!r} declares no interval.")
        return _bounds(self, n)

    def blind(self, n: int) -> np.ndarray:
        """Which of n tokens see nobody, (n,): their attention is a row of zeros, whatever the normalisation."""
        return _blind(self, n)


@lru_cache(maxsize=32)
def _blind(mask: Mask, n: int) -> np.ndarray:
    if mask.visible is None:
        return np.zeros(n, np.bool_)
    block = max(1, _MOST_ENTRIES // n)
    found = []
    with jax.ensure_compile_time_eval():  # a mask is structure, also where tokens are traced
        if mask.interval is not None:
            low, high = mask.bounds(n)
            return np.asarray(low >= high)
        for first in range(0, n, block):
            rows = np.arange(first, min(first + block, n))
            found.append(np.broadcast_to(np.asarray(mask.rows(rows, n)), (len(rows), n)).any(axis=1))
    return ~np.concatenate(found)


@lru_cache(maxsize=32)
def _bounds(mask: Mask, n: int) -> tuple[np.ndarray, np.ndarray]:
    assert mask.interval is not None
    i = np.arange(n)
    try:
        first, last = mask.interval(i, n)
        low = np.broadcast_to(np.asarray(first), (n,)).astype(np.int64)
        high = np.broadcast_to(np.asarray(last), (n,)).astype(np.int64)
    except Exception as error:  # whatever a function of the user's own may raise
        raise InputError(f"The interval of the mask {mask.name!r} could not be had for n = {n}: {error}.") from error
    if (low < 0).any() or (high > n).any() or (low > high).any():
        raise InputError(f"The interval of the mask {mask.name!r} must lie within 0 and n = {n}.")
    some = np.unique(np.linspace(0, n - 1, min(n, _CHECKED_ROWS)).astype(int))
    seen = mask.rows(some, n)
    inside = (low[some, None] <= i) & (i < high[some, None])
    agree = np.array_equal(inside, np.ones_like(inside) if seen is None else np.asarray(seen))
    if not agree or not _bounded(mask, i, low, high):
        raise InputError(f"The interval of the mask {mask.name!r} disagrees with what `visible` says for n = {n}.")
    return low, high


def _bounded(mask: Mask, i: np.ndarray, low: np.ndarray, high: np.ndarray) -> bool:
    """Whether the first and last column of every row are seen, and those beside them not."""
    if mask.visible is None:
        return bool((low == 0).all() and (high == len(i)).all())
    there = [(low, low < high), (high - 1, low < high)]
    beyond = [(low - 1, low > 0), (high, high < len(i))]
    return all(
        bool((np.asarray(mask.visible(i[rows], j[rows])) == wanted).all())
        for wanted, places in ((True, there), (False, beyond))
        for j, rows in places
    )


@dataclass(frozen=True)
class _Window:
    """A window is compared by its numbers, so that two equal masks share compiled code."""

    width: int
    causal: bool

    def __call__(self, i: Any, j: Any) -> Any:
        near = (j - i <= self.width) & (i - j <= self.width)
        return near & (j <= i) if self.causal else near


@dataclass(frozen=True)
class _WindowInterval:
    """The bounds of a window, compared by its numbers too."""

    width: int
    causal: bool

    def __call__(self, i: Any, n: int) -> tuple[Any, Any]:
        return np.maximum(i - self.width, 0), i + 1 if self.causal else np.minimum(i + self.width + 1, n)


@door
def window(width: int, causal: bool = False) -> Mask:
    """Token i sees tokens at most ``width`` places away, and only earlier ones when ``causal``.

    >>> import numpy as np
    >>> window(1).visible(np.arange(3)[:, None], np.arange(3)).astype(int).tolist()
    [[1, 1, 0], [1, 1, 1], [0, 1, 1]]
    """
    if isinstance(width, bool) or not isinstance(width, (int, np.integer)) or not 0 <= width < 2**31:
        raise InputError(f"A window mask needs a whole number of places >= 0, not {shown(width)}.")
    numbers = (int(width), bool(causal))
    return Mask(
        _Window(*numbers), _WindowInterval(*numbers), f"window({width}, causal)" if causal else f"window({width})"
    )


@dataclass(frozen=True)
class Layers:
    """Masks that follow one another, compared by what they are."""

    masks: tuple[Mask, ...]
    dt: float

    def __call__(self, t: Any) -> Mask:
        layer = t / self.dt + 1e-9  # k * dt / dt may come out just below k
        if not is_traced(t):
            return self.masks[int(layer) % len(self.masks)]
        distinct = list(dict.fromkeys(self.masks))
        which = np.array([distinct.index(mask) for mask in self.masks])
        here = jnp.asarray(which)[jnp.floor(layer).astype(int) % len(which)]
        return Mask(lambda i, j: jnp.stack([_seen(mask, i, j) for mask in distinct])[here], name="layer")


@dataclass(frozen=True)
class _Union:
    """What one mask at least shows."""

    masks: tuple[Mask, ...]

    def __call__(self, i: Any, j: Any) -> Any:
        out = _seen(self.masks[0], i, j)
        for mask in self.masks[1:]:
            out = out | _seen(mask, i, j)
        return out


def _seen(mask: Mask, i: Any, j: Any) -> Any:
    return i - j == i - j if mask.visible is None else mask.visible(i, j)


@door
def by_layer(masks: Sequence["str | Mask | Visible | np.ndarray"], dt: float = 1.0) -> Mask:
    """A mask for each layer, in turn: time t has mask floor(t / dt) mod count, as in Gemma's alternating windows.

    By name the masks are written one after the other: ``mask="window(4, causal); causal"``.

    >>> by_layer(["window(4, causal)", "causal"]).at(3.0)
    causal
    """
    if not masks or isinstance(masks, str):
        raise InputError("by_layer takes a list of masks, one for each layer.")
    if isinstance(dt, bool) or not isinstance(dt, (int, float, np.number)) or not 0.0 < dt < np.inf:
        raise InputError(f"dt of by_layer must be a finite number > 0, not {dt!r}.")
    found = tuple(resolve(mask) for mask in masks)
    if any(mask.by_time is not None for mask in found):
        raise InputError("A layer has one mask: by_layer takes masks that do not change themselves.")
    return Mask(_Union(found), name="; ".join(mask.name for mask in found), by_time=Layers(found, float(dt)))


class Table:
    """Visibility from a boolean array (n, n), compared by its entries."""

    def __init__(self, entries: np.ndarray) -> None:
        self.entries = np.array(entries, np.bool_)
        self.entries.setflags(write=False)

    def __call__(self, i: Any, j: Any) -> Any:
        return jnp.asarray(self.entries)[i, j]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and np.array_equal(self.entries, other.entries)

    def __hash__(self) -> int:
        return hash((self.entries.shape, self.entries.tobytes()))


@door
def from_array(entries: Any) -> Mask:
    """A mask from an array (n, n) of zeros and ones: entry (i, j) says whether token i sees token j."""
    try:
        table = np.asarray(entries)
    except ValueError as error:
        raise InputError("A mask given as an array must be (n, n), but its rows have different lengths.") from error
    if table.ndim != 2 or table.shape[0] != table.shape[1] or not table.size:
        raise InputError(f"A mask given as an array must be (n, n), but its shape is {table.shape}.")
    if table.dtype.kind not in "bifu" or not np.isin(table, (0, 1)).all():
        raise InputError("A mask given as an array holds only True and False (or 1 and 0).")
    return Mask(Table(table.astype(bool)), name="array")


def _everywhere(i: Any, n: int) -> tuple[Any, Any]:
    return 0 * i, 0 * i + n


def _earlier(i: Any, j: Any) -> Any:
    return j <= i


def _up_to(i: Any, n: int) -> tuple[Any, Any]:
    return 0 * i, i + 1


FULL = Mask(None, _everywhere, "full", "Every token sees every token.")
CAUSAL = Mask(_earlier, _up_to, "causal", "Token i sees tokens j <= i: eq. (3) of the causal paper.")

MASKS: dict[str, Mask] = {mask.name: mask for mask in (FULL, CAUSAL)}
_WINDOW = re.compile(r"window\(\s*([^,();]*?)\s*(,\s*causal\s*)?\)")


def resolve(mask: str | Mask | Visible | np.ndarray) -> Mask:
    """The mask behind a name, a function or an array (n, n).

    Names are "full", "causal", "window(8)", "window(8, causal)", and several with ";" between, one for each layer.
    """
    if isinstance(mask, Mask):
        return mask
    if isinstance(mask, str):
        if mask in MASKS:
            return MASKS[mask]
        found = _WINDOW.fullmatch(mask)
        if found:
            width: Any = found[1]  # what is no number is refused there
            return window(int(width) if re.fullmatch("[0-9]{1,12}", width) else width, causal=found[2] is not None)
        if ";" in mask:
            return by_layer([part.strip() for part in mask.split(";")])
        raise unknown("mask", mask, [*MASKS, "window(8)", "window(8, causal)"])
    if is_function(mask):
        return Mask(mask, name=getattr(mask, "__name__", "custom"))
    if isinstance(mask, (np.ndarray, list, tuple)) or hasattr(mask, "__array__"):
        return from_array(mask)
    raise unknown("mask", mask, [*MASKS, "window(8)", "window(8, causal)"])
