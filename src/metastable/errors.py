"""The one error a user can cause, and the sentence that says how to mend it."""

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """Bad input: one sentence with what was wrong, what was given and what to do."""


def unknown(kind: str, given: object, options: Iterable[str]) -> InputError:
    """The error for a name that is in no table, with the nearest name that is.

    >>> str(unknown("mask", "casual", ["full", "causal"]))
    "Unknown mask 'casual'; did you mean 'causal'? Choose from: full, causal."
    """
    names = list(options)
    near = get_close_matches(str(given), names, n=1, cutoff=0.5)
    hint = f"; did you mean '{near[0]}'?" if near else "."
    return InputError(f"Unknown {kind} {given!r}{hint} Choose from: {', '.join(names)}.")
