"""What a deep run will take, told before it starts: memory from sizes, time from one pass at the trained depth."""

import time
import warnings

from metastable.errors import InputError
from metastable.models.model import Given, Model
from metastable.models.one_pass import Pass
from metastable.models.stream import show
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


def check_cost(model: Model, given: Given, plan: Pass, texts: int, passes: int) -> None:
    """Refuse a deep run that does not fit, and say how long one will take where that is long.

    ``given`` is the first text as read; ``texts`` says how many there are at most, 0 where that is not known; each of
    the ``passes`` reads them all and reduces what it saw at the end. Added to that is one more pass of the first text
    through the network, which a film and a ``trajectory`` take.
    """
    few = model.depth
    if plan.layers <= _DEEP * few:
        return
    trial = plan.reducers(model, few)
    show(model, 0, given, list(trial.values()), 1)
    plan.results(model, given, trial)  # what is made once is not timed
    shown = show(model, 0, given, list(trial.values()), few)
    started = time.perf_counter()
    plan.results(model, given, trial)
    deep = plan.layers / few
    end, each = (time.perf_counter() - started) * deep, (shown.network + shown.reduction) * deep
    size = sum(array.nbytes for reducer in trial.values() for array in reducer.state().values()) * deep
    what = f"{plan.layers} layers of {model.name!r}"
    check_memory(f"Statistics of {what}", 2.0 * size, "give fewer layers")  # a checkpoint is written beside them
    total = passes * (each * max(texts, 1) + end) + shown.network * deep
    told = f"{what} take about {_span(each)} for a text of {shown.tokens} tokens{_all(texts, passes, total)}"
    told += f", and {_bytes(size)} of memory"
    if each > _DAY:
        raise InputError(f"{told}; give fewer layers.")
    if total > _LONG:
        warnings.warn(f"{told}.", UserWarning, stacklevel=3)


def _all(texts: int, passes: int, total: float) -> str:
    """What everything takes, as the rest of a sentence on one text.

    >>> _all(1, 1, 50.0), _all(100, 3, 5400.0)
    (', 50 s with all statistics', ', at most 1.5 hours for 100 texts in 3 passes')
    """
    if not texts:
        return " (how many there are is not known)"
    if texts == passes == 1:
        return f", {_span(total)} with all statistics"
    return f", at most {_span(total)} for {texts} text{'s' * (texts > 1)}" + f" in {passes} passes" * (passes > 1)


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
