"""Rotary frequencies from a model's configuration, with every published way of stretching them.

A rotary model turns pair m of a query or key at position p by the angle p f_m, with f_m = base^(-2m/k) for m = 0 ..
k/2 - 1. To read longer texts than they were trained on, models change the f_m, and some lengthen queries and keys.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from metastable.errors import InputError

Array = np.ndarray
Parameters = Mapping[str, Any]


def parameters_of(config: Any, kind: str | None = None) -> dict[str, Any]:
    """What a configuration says about its rotary turns, in the library's newer words, whichever it was written in.

    ``kind`` is a layer's type where turns differ between layers ("sliding_attention" in Gemma 3).
    """
    found = dict(getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {})
    if kind is not None and isinstance(found.get(kind), Mapping):
        found = dict(found[kind])
    found.setdefault("rope_type", found.get("type") or "default")
    theta, part = getattr(config, "rope_theta", None), getattr(config, "partial_rotary_factor", None)
    found.setdefault("rope_theta", 10000.0 if theta is None else theta)
    found.setdefault("partial_rotary_factor", 1.0 if part is None else part)
    trained = getattr(config, "original_max_position_embeddings", None) or config.max_position_embeddings
    found.setdefault("original_max_position_embeddings", trained)
    return found


def frequencies(config: Any, n: int = 0, kind: str | None = None) -> tuple[Array, float]:
    """The frequencies (k/2,) that a text of n tokens is turned by, and the factor of queries and keys.

    Scores are multiplied by the square of the factor, which is 1 but for "yarn" and "longrope". The frequencies are
    rounded to float32, as the library keeps them.

    Parameters
    ----------
    config : object
        With ``rope_parameters`` (or the older ``rope_theta`` and ``rope_scaling``), ``max_position_embeddings``, and
        ``head_dim`` or ``hidden_size`` and ``num_attention_heads``.
    n : int
        Length of the text; it matters for "longrope" alone, which has one table for short texts and one for long ones.
    kind : str, optional
        The layer's type, where layers differ.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> config = SimpleNamespace(hidden_size=16, num_attention_heads=2, max_position_embeddings=64, rope_theta=10000.0)
    >>> frequencies(config)[0].round(6).tolist(), frequencies(config)[1]
    ([1.0, 0.1, 0.01, 0.001], 1.0)
    """
    given = parameters_of(config, kind)
    if given["rope_type"] not in ROPES:
        raise InputError(
            f"The rotary scaling {given['rope_type']!r} is not known; known are {', '.join(ROPES)}, "
            "and no turn is left out silently."
        )
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    k = int(width * given["partial_rotary_factor"])
    plain = float(given["rope_theta"]) ** (-np.arange(0, k, 2) / k)  # (k/2,)
    try:
        table, factor = ROPES[given["rope_type"]](plain, given, config.max_position_embeddings, n)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise InputError(f"The rotary scaling {given['rope_type']!r} of this model is incomplete.") from error
    return np.asarray(table, dtype=np.float32).astype(np.float64), float(factor)


def _default(plain: Array, given: Parameters, longest: int, n: int) -> tuple[Array, float]:
    """As trained; "dynamic" scaling is this too, up to the longest text that the model takes."""
    return plain, 1.0


def _linear(plain: Array, given: Parameters, longest: int, n: int) -> tuple[Array, float]:
    """Positions divided by a factor."""
    return plain / given["factor"], 1.0


def _llama3(plain: Array, given: Parameters, longest: int, n: int) -> tuple[Array, float]:
    """Slow turns divided by a factor, fast ones left alone, those between mixed.

    With r the number of turns in a trained text, the share left alone is (r - low) / (high - low), kept in [0, 1].
    """
    low, high = given["low_freq_factor"], given["high_freq_factor"]
    turns = given["original_max_position_embeddings"] * plain / (2.0 * np.pi)
    alone = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return plain * (alone + (1.0 - alone) / given["factor"]), 1.0


def _yarn(plain: Array, given: Parameters, longest: int, n: int) -> tuple[Array, float]:
    """YaRN: a ramp over the pairs between "left alone" and "divided", and longer queries and keys.

    Pair m(r) = k ln(L / 2 pi r) / (2 ln base) makes r turns in a trained text of L tokens; the ramp runs from
    m(beta_fast) to m(beta_slow). Queries and keys are lengthened by 1 + 0.1 ln(factor).
    """
    trained, base, pairs = given["original_max_position_embeddings"], given["rope_theta"], len(plain)
    factor = given.get("factor") or longest / trained
    bounds = [given.get("beta_fast") or 32.0, given.get("beta_slow") or 1.0]
    first, last = (pairs * np.log(trained / (2.0 * np.pi * turns)) / np.log(base) for turns in bounds)
    if given.get("truncate", True):
        first, last = np.floor(first), np.ceil(last)
    first, last = max(first, 0.0), min(last, 2.0 * pairs - 1.0)
    divided = np.clip((np.arange(pairs) - first) / (last - first if last != first else 1e-3), 0.0, 1.0)
    return plain * (1.0 - divided + divided / factor), _lengthened(given, factor)


def _lengthened(given: Parameters, factor: float) -> float:
    def length(multiplier: float) -> float:
        return 1.0 + 0.1 * multiplier * float(np.log(factor)) if factor > 1.0 else 1.0

    if given.get("attention_factor") is not None:
        return float(given["attention_factor"])
    if given.get("mscale") and given.get("mscale_all_dim"):
        return length(given["mscale"]) / length(given["mscale_all_dim"])
    return length(1.0)


def _longrope(plain: Array, given: Parameters, longest: int, n: int) -> tuple[Array, float]:
    """Every pair divided by a number of its own: one table up to the trained length, one beyond it."""
    trained = given["original_max_position_embeddings"]
    table = np.asarray(given["long_factor"] if n > trained else given["short_factor"], dtype=float)
    stretch = given.get("factor") or longest / trained
    factor = given.get("attention_factor")
    if factor is None:
        factor = np.sqrt(1.0 + np.log(stretch) / np.log(trained)) if stretch > 1.0 else 1.0
    return plain / table, float(factor)


ROPES: dict[str, Callable[[Array, Parameters, int, int], tuple[Array, float]]] = {
    "default": _default,
    "dynamic": _default,
    "linear": _linear,
    "llama3": _llama3,
    "yarn": _yarn,
    "longrope": _longrope,
}
