"""The mask behind attention maps that come without one, from a trial and from what a configuration says."""

from typing import Any

import numpy as np

_TRIAL = 8  # tokens of the text that a model of unknown structure is tried on
_WIDE = 512  # windows up to here are found by the trial, wider ones are taken from the configuration
_WINDOWS = ("sliding_window", "local_attention", "window_size", "attention_window")


def trial_text(config: Any, longest: int, vocabulary: int | None) -> list[int]:
    """Token ids enough to look beyond every window of the configuration, as far as the model can read.

    >>> from types import SimpleNamespace
    >>> trial_text(SimpleNamespace(sliding_window=4), 64, 5)
    [1, 2, 3, 4, 0, 1, 2, 3, 4, 0]
    """
    stated = [getattr(config, name, None) for name in _WINDOWS]
    widths = [width for width in stated if isinstance(width, int) and width <= _WIDE]
    n = min(max([_TRIAL, *(2 * width + 2 for width in widths)]), longest)
    return [(1 + i) % (vocabulary or 1) for i in range(n)]


def with_wide_window(config: Any, layer: int, seen: str) -> str:
    """The mask of a layer that a trial found, with a window too wide for the trial where the configuration has one."""
    kinds, width = getattr(config, "layer_types", None), getattr(config, "sliding_window", None)
    if seen == "causal" and kinds and kinds[layer] == "sliding_attention" and width:
        return f"window({int(width) - 1}, causal)"  # the library counts the token itself
    return seen


def mask_of(seen: np.ndarray) -> str:
    """The mask behind which tokens j are seen by which tokens i, (n, n) boolean, as far as n tokens show it.

    Examples
    --------
    >>> mask_of(np.tri(5, dtype=bool)), mask_of(np.tri(5, k=1, dtype=bool) & np.tri(5, k=1, dtype=bool).T)
    ('causal', 'window(1)')
    """
    n = len(seen)
    i, j = np.nonzero(seen)
    back, ahead = int((i - j).max(initial=0)), int((j - i).max(initial=0))
    if ahead == 0 and n > 1:
        return "causal" if back == n - 1 else f"window({back}, causal)"
    return f"window({back})" if back == ahead < n - 1 else "full"
