"""What a deep run will take, told before it starts: memory from sizes, time from one pass at the trained depth."""

import warnings
from collections.abc import Callable, Sequence

from metastable.errors import InputError
from metastable.models.model import Given, Model
from metastable.models.stream import Reducer, show
from metastable.solve.memory import free_memory

_DEEP = 8  # times the trained depth, from which the time is measured first
_SMALL = 1e9  # bytes that are always there
_LONG = 600.0  # seconds, from which a run is announced
_DAY = 86400.0


def check_memory(what: str, size: float, remedy: str) -> None:
    """Refuse what does not fit into the memory that is free."""
    free = free_memory()
    if size > free:
        raise InputError(f"{what} would take about {_bytes(size)} of memory, and {_bytes(free)} are free; {remedy}.")


def check_maps(name: str, heads: int, tokens: int, layers: int) -> None:
    """Refuse a text whose attention maps do not fit: those of ``layers`` layers, and three copies in the one at work.

    >>> check_maps("m", 8, 10**6, 1)
    Traceback (most recent call last):
    metastable.errors.InputError: The attention maps of 1000000 tokens in 'm' would take about 128000.0 GB of ...
    """
    size = 4.0 * (layers + 3) * heads * float(tokens) ** 2
    if size > _SMALL:
        check_memory(f"The attention maps of {tokens} tokens in {name!r}", size, "cut texts (longest)")


def check_cost(
    model: Model, given: Given, layers: int, texts: int | None, make: Callable[[int], Sequence[Reducer]]
) -> None:
    """Refuse a deep run that does not fit, and say how long one will take where that is long.

    ``given`` is the first text as read; ``make(layers)`` gives fresh reducers, as large as there are layers.
    """
    few = model.depth
    if layers <= _DEEP * few:
        return
    trial = list(make(few))
    show(model, 0, given, trial, 1)  # what is made once is not timed
    shown = show(model, 0, given, trial, few)
    each = (shown.network + shown.reduction) * layers / few
    size = sum(array.nbytes for reducer in trial for array in reducer.state().values()) * layers / few
    what = f"{layers} layers of {model.name!r}"
    check_memory(f"Statistics of {what}", 2.0 * size, "give fewer layers")  # a checkpoint is written beside them
    total = each * (texts or 1)
    rest = f", all {texts} texts about {_span(total)}" if texts and texts > 1 else ""
    told = f"{what} take about {_span(each)} for a text of {shown.tokens} tokens{rest}, and {_bytes(size)} of memory"
    if each > _DAY:
        raise InputError(f"{told}; give fewer layers.")
    if total > _LONG:
        warnings.warn(f"{told}.", UserWarning, stacklevel=3)


def _bytes(size: float) -> str:
    """
    >>> _bytes(7.2e9), _bytes(3e6)
    ('7.2 GB', '3 MB')
    """
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def _span(seconds: float) -> str:
    """
    >>> _span(42.0), _span(5400.0), _span(2e5)
    ('42 s', '1.5 hours', '2.3 days')
    """
    for unit, length in (("days", _DAY), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s"
