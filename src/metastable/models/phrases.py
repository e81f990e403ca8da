"""Numbers as words of a sentence."""

from collections.abc import Sequence

import numpy as np


def percent(share: float | None) -> str:
    """A share: almost all is not all, and almost none is not none.

    >>> percent(0.999), percent(0.25), percent(0.004), percent(0.0), percent(None)
    ('99.9%', '25%', '0.4%', '0%', 'none')
    """
    if share is None or not np.isfinite(share):
        return "none"
    if 0.99 <= share < 1.0:
        return f"{np.floor(1000 * share) / 10:.1f}%"
    return f"{100 * share:.0f}%" if share >= 0.1 or share == 0 else f"{100 * share:.2g}%"


def two(value: float | None) -> str:
    """Two decimals, with a true minus sign.

    >>> two(-0.041), two(None)
    ('−0.04', 'none')
    """
    if value is None or not np.isfinite(value):
        return "none"
    text = f"{value:.2f}"
    return "0.00" if text == "-0.00" else text.replace("-", "\N{MINUS SIGN}")


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
