"""Numbers as words of a sentence."""

from collections.abc import Sequence

import numpy as np


def percent(share: float | None, limit: float | None = None) -> str:
    """A share: almost all is not all, almost none is not none, and less than a limit does not read like the limit.

    >>> percent(0.999), percent(0.25), percent(0.004), percent(0.0), percent(None), percent(0.296, 0.3)
    ('99.9%', '25%', '0.4%', '0%', 'none', '29.6%')
    """
    if share is None or not np.isfinite(share):
        return "none"
    if 0.99 <= share < 1.0:
        text = f"{np.floor(1000 * share) / 10:.1f}%"
    else:
        text = f"{100 * share:.0f}%" if share >= 0.1 or share == 0 else f"{100 * share:.2g}%"
    return f"{_apart(100 * share, 100 * limit)}%" if limit is not None and text == percent(limit) else text


def two(value: float | None, limit: float | None = None) -> str:
    """Two decimals, or as many as tell a value from a limit, with a true minus sign.

    >>> two(-0.041), two(None), two(0.2481, 0.25)
    ('−0.04', 'none', '0.248')
    """
    if value is None or not np.isfinite(value):
        return "none"
    text = f"{value:.2f}"
    text = _apart(value, limit) if limit is not None and text == f"{limit:.2f}" else text
    return "0.00" if text == "-0.00" else text.replace("-", "\N{MINUS SIGN}")


def _apart(value: float, limit: float) -> str:
    """A number with as many decimals as tell it from a limit; the limit's own where it is the limit to 15 decimals."""
    texts = ((f"{value:.{digits}f}", f"{limit:.{digits}f}") for digits in range(16))
    return next((text for text, other in texts if text != other), f"{limit:g}")


def after(state: int) -> str:
    """Where in the model.

    >>> after(0), after(1), after(12)
    ('in the embedded text', 'after 1 layer', 'after 12 layers')
    """
    return "in the embedded text" if state == 0 else f"after {state} layer{'s' if state != 1 else ''}"


def listed(words: Sequence[str]) -> str:
    """Words with commas and a last "and".

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""


def span(low: float, high: float, word: str = "two") -> str:
    """A range over seeds, as one number where both ends read the same.

    >>> span(0.981, 0.984), span(0.1, 0.3, "percent")
    ('0.98', '10% to 30%')
    """
    write = percent if word == "percent" else two
    first, second = write(low), write(high)
    return first if first == second else f"{first} to {second}"
