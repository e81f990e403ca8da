"""Who may attend to whom: a mask is a function of index arrays, ``visible(i, j) -> bool array``.

``None`` stands for full attention, which needs no array at all. Add a mask: one function and one line in MASKS.
"""

import re
from collections.abc import Callable
from typing import Any

from metastable.errors import InputError, unknown

Mask = Callable[[Any, Any], Any]


def causal(i: Any, j: Any) -> Any:
    """Token i sees tokens j <= i: eq. (3) of the causal paper."""
    return j <= i


def window(width: int, causal: bool = False) -> Mask:
    """Token i sees tokens at most ``width`` places away, and only earlier ones when ``causal``.

    >>> import numpy as np
    >>> window(1)(np.arange(3)[:, None], np.arange(3)).astype(int).tolist()
    [[1, 1, 0], [1, 1, 1], [0, 1, 1]]
    """
    if isinstance(width, bool) or not isinstance(width, int) or width < 0:
        raise InputError(f"A window mask needs a whole number of places >= 0, not {width!r}.")
    return _Window(width, bool(causal))


class _Window:
    """A window is compared by its numbers, so that two equal masks share compiled code."""

    def __init__(self, width: int, causal: bool) -> None:
        self.width, self.causal = width, causal

    def __call__(self, i: Any, j: Any) -> Any:
        near = (j - i <= self.width) & (i - j <= self.width)
        return near & (j <= i) if self.causal else near

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Window) and (self.width, self.causal) == (other.width, other.causal)

    def __hash__(self) -> int:
        return hash((self.width, self.causal))

    def __repr__(self) -> str:
        return f"window({self.width}, causal)" if self.causal else f"window({self.width})"


def interval(mask: str | Mask, n: int) -> tuple[Any, Any]:
    """(low, high): token i sees low[i] <= j < high[i]; (None, None) for full attention."""
    import numpy as np

    found, i = resolve(mask), np.arange(n)
    if found is None:
        return None, None
    if isinstance(found, _Window):
        last = i + 1 if found.causal else np.minimum(i + found.width + 1, n)
        return np.maximum(i - found.width, 0), last
    if found is causal:
        return np.zeros(n, np.int64), i + 1
    raise InputError("The mask is a function.")


MASKS: dict[str, Mask | None] = {
    "full": None,
    "causal": causal,
}
_WINDOW = re.compile(r"window\(\s*(\d+)\s*(,\s*causal\s*)?\)")


def resolve(mask: str | Mask) -> Mask | None:
    """The mask behind a name ("full", "causal", "window(8)", "window(8, causal)") or a function."""
    if callable(mask):
        return mask
    if mask in MASKS:
        return MASKS[mask]
    found = _WINDOW.fullmatch(str(mask))
    if found:
        return window(int(found[1]), causal=found[2] is not None)
    raise unknown("mask", mask, [*MASKS, "window(8)", "window(8, causal)"])
