"""What real models add to the scores to tell positions: a bias by position, or a rotation of queries and keys.

A position has ``rotate(q, rows)``, applied to queries and keys (..., h, m, k) of the tokens ``rows``; ``bias(rows,
columns)``, added to the scores, (h, m, n) or None; and ``fits(n, width, heads)``, a reason why it does not fit or None.
Add one: a class and, if it needs no numbers, a line in POSITIONS.
"""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from metastable.backend import Array, is_traced, jnp, register
from metastable.equation.short_forms import part_line
from metastable.equation.weights import Stack, Timed
from metastable.errors import InputError, door, unknown


@runtime_checkable
class Position(Protocol):
    """What a position answers."""

    def rotate(self, q: Array, rows: Array) -> Array: ...

    def bias(self, rows: Array, columns: Array) -> Array | None: ...

    def fits(self, n: int, width: int, heads: int) -> str | None: ...


def _table(name: str, value: Any) -> Any:
    """A finite float array, or a traced one as it is."""
    if is_traced(value):
        return value
    try:
        table = np.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a real array, not {type(value).__name__}.") from error
    if not np.isfinite(table).all():
        raise InputError(f"{name} must be finite; use a mask to hide tokens.")
    return table


class _Added:
    """A position that only adds to the scores."""

    def rotate(self, q: Array, rows: Array) -> Array:
        return q


def _heads_fit(found: int, heads: int) -> str | None:
    return None if found in (1, heads) else f"the position bias has {found} heads and the weights have {heads}"


@door
@register
@dataclass(frozen=True, repr=False)
class Bias(_Added):
    """An additive score bias: ``table`` (h, n, n) or (n, n) by absolute positions i, j."""

    table: Any

    __repr__ = part_line

    def __post_init__(self) -> None:
        table = _table("A position bias", self.table)
        if table.ndim not in (2, 3) or table.shape[-1] != table.shape[-2]:
            raise InputError(f"A position bias has shape (heads, n, n) or (n, n), not {table.shape}.")
        object.__setattr__(self, "table", table[None] if table.ndim == 2 else table)

    def bias(self, rows: Array, columns: Array) -> Array:
        return jnp.asarray(self.table)[:, rows[:, None], columns[None, :]]  # (h, m, n)

    def fits(self, n: int, width: int, heads: int) -> str | None:
        shape = np.shape(self.table)
        if shape[-1] != n:
            return f"the position bias is made for {shape[-1]} tokens, not {n}; its shape is {shape}"
        return _heads_fit(shape[0], heads)


@door
@register
@dataclass(frozen=True, repr=False)
class Relative(_Added):
    """A bias that depends on j - i only: ``table`` (h, 2n - 1), entry n - 1 + (j - i) (T5)."""

    table: Any

    __repr__ = part_line

    def __post_init__(self) -> None:
        table = _table("A relative bias", self.table)
        if table.ndim not in (1, 2) or table.shape[-1] % 2 == 0:
            raise InputError(f"A relative bias has shape (heads, 2n - 1) or (2n - 1,), not {table.shape}.")
        object.__setattr__(self, "table", table[None] if table.ndim == 1 else table)

    def bias(self, rows: Array, columns: Array) -> Array:
        middle = (self.table.shape[-1] - 1) // 2
        return jnp.asarray(self.table)[:, middle + columns[None, :] - rows[:, None]]  # (h, m, n)

    def fits(self, n: int, width: int, heads: int) -> str | None:
        shape = np.shape(self.table)
        if shape[-1] != 2 * n - 1:
            return f"the relative bias is made for {(shape[-1] + 1) // 2} tokens, not {n}; its shape is {shape}"
        return _heads_fit(shape[0], heads)


@door
@register
@dataclass(frozen=True, repr=False)
class Alibi(_Added):
    """ALiBi: -slope |i - j|, one slope for each head; it serves any number of tokens.

    >>> np.asarray(Alibi().bias(np.arange(1), np.arange(3))).tolist()
    [[[0.0, -0.00390625, -0.0078125]]]
    """

    slopes: Any = 2.0**-8

    __repr__ = part_line

    def __post_init__(self) -> None:
        slopes = np.atleast_1d(_table("ALiBi's slopes", self.slopes)) if not is_traced(self.slopes) else self.slopes
        object.__setattr__(self, "slopes", slopes)

    def bias(self, rows: Array, columns: Array) -> Array:
        far = jnp.abs(columns[None, :] - rows[:, None])
        return -jnp.asarray(self.slopes)[:, None, None] * far + 0.0  # (h, m, n)

    def fits(self, n: int, width: int, heads: int) -> str | None:
        return _heads_fit(len(self.slopes), heads)


@door
def alibi(heads: int = 1) -> Alibi:
    """ALiBi for a number of heads: slopes 2^{-8 h / heads}, h from 1, and for numbers between powers of two BLOOM's.

    These are the slopes of the power p below, and for the other heads every second slope of 2p.

    >>> (-np.log2(alibi(6).slopes)).tolist()
    [2.0, 4.0, 6.0, 8.0, 1.0, 3.0]
    """
    power = 2 ** int(math.log2(heads))
    exponents = [*(8.0 * np.arange(1, power + 1) / power), *(4.0 * np.arange(1, 2 * (heads - power), 2) / power)]
    return Alibi(2.0 ** -np.array(exponents))


@door
@register
@dataclass(frozen=True, repr=False)
class Rotary:
    """Rotary positions: pairs of coordinates of queries and keys turned by position times ``frequencies``.

    Parameters
    ----------
    frequencies : array (m,), or a ``Stack`` of them over layers
        Zero turns nothing: layers without positions (SmolLM3).
    partial : bool
        Turn the first 2m coordinates and leave the others as they are (GPT-NeoX, Phi); otherwise there are 2m.
    interleaved : bool
        Pairs are (0, 1), (2, 3), ... (GPT-J); otherwise (c, c + m), as Llama's weights expect.
    """

    frequencies: Any
    partial: bool = False
    interleaved: bool = False

    __repr__ = part_line

    def __post_init__(self) -> None:
        table = self.frequencies
        if callable(table):
            object.__setattr__(self, "frequencies", table if isinstance(table, (Stack, Timed)) else Timed(table, 1))
            table = table(0.0)
        table = _table("Rotary frequencies", table)
        if table.ndim != 1 or not table.shape[0]:
            raise InputError(f"Rotary frequencies are a list of k/2 numbers, but their shape is {np.shape(table)}.")
        if not callable(self.frequencies):
            object.__setattr__(self, "frequencies", table)

    def rotate(self, q: Array, rows: Array) -> Array:
        m = jnp.shape(self.frequencies)[0]
        angle = rows[:, None] * jnp.asarray(self.frequencies, q.dtype)[None, :]  # (n, m)
        cos, sin = jnp.cos(angle), jnp.sin(angle)
        if self.interleaved:
            a, b = q[..., 0 : 2 * m : 2], q[..., 1 : 2 * m : 2]
            pairs = jnp.stack([a * cos - b * sin, b * cos + a * sin], axis=-1)  # (..., n, m, 2)
            turned = pairs.reshape(*pairs.shape[:-2], 2 * m)
        else:
            a, b = q[..., :m], q[..., m : 2 * m]
            turned = jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)
        return turned if 2 * m == q.shape[-1] else jnp.concatenate([turned, q[..., 2 * m :]], axis=-1)

    def bias(self, rows: Array, columns: Array) -> Array | None:
        return None

    def fits(self, n: int, width: int, heads: int) -> str | None:
        count = np.shape(self.frequencies)[0]
        if 2 * count == width or (self.partial and 2 * count < width):
            return None
        most = "at most " if self.partial else ""
        return f"rotary positions have {count} frequencies, and queries of width {width} need {most}{width / 2:g}"


@door
def rotary(width: int, base: float = 10000.0, share: float = 1.0, interleaved: bool = False) -> Rotary:
    """Rotary positions for heads of ``width`` coordinates; a ``share`` of them is turned, at base^{-2c/turned}.

    >>> rotary(8, share=0.5).frequencies.round(6).tolist(), rotary(8, share=0.5).partial
    ([1.0, 0.01], True)
    """
    turned = int(width * share)
    if not 0.0 < share <= 1.0 or turned < 1:
        raise InputError(f"The share of coordinates that are turned must lie between 0 and 1, not {share!r}.")
    if turned % 2:
        of = "head width" if turned == width else "number of turned coordinates"
        raise InputError(f"Rotary positions need an even {of}, not {turned}.")
    table = np.exp(-math.log(base) * np.arange(0, turned, 2) / turned)
    return Rotary(table, partial=turned < width, interleaved=bool(interleaved))


# name -> function that makes a position; it may ask for the ``width`` of queries and the number of ``heads``
POSITIONS: dict[str, Callable[..., Position]] = {
    "alibi": alibi,
    "rotary": rotary,
}


def resolve(position: Any, width: int | None, heads: int) -> Position | None:
    """The position behind a name or an object; None stays None."""
    if position is None or (isinstance(position, str) and position == "none"):
        return None
    if isinstance(position, str):
        if position not in POSITIONS:
            raise unknown("position", position, ["none", *POSITIONS])
        wanted = inspect.signature(POSITIONS[position]).parameters
        if width is None and "width" in wanted:
            raise InputError(
                f"position={position!r} needs the width of queries, which is not known without Q, K or V; "
                f"give metastable.positions.{position}(width)."
            )
        given = {"width": width, "heads": heads}
        return POSITIONS[position](**{name: value for name, value in given.items() if name in wanted})
    if isinstance(position, type) or not isinstance(position, Position):  # a class has the methods too
        what = f"the class {position.__name__}" if isinstance(position, type) else type(position).__name__
        raise InputError(
            "position must be None, a name ('alibi', 'rotary') or an object with rotate, bias and fits, such as "
            f"Bias(table), not {what}."
        )
    return position
