"""Attention sinks: what each token receives, beside what its position alone would give it."""

import numpy as np
from numpy.typing import ArrayLike

from metastable.errors import InputError
from metastable.observables import arrays
from metastable.observables.arrays import Bools, Floats, Ints


def sink_mass(P: ArrayLike, visible: ArrayLike | None = None, per: str = "viewer") -> Floats:
    """Mean attention that token j receives, (..., n).

    Compare with `sink_baseline`: early tokens receive more under a causal mask even when attention is
    uniform.

    Parameters
    ----------
    P : array (..., n, n)
    visible : boolean array (n, n), optional
        ``visible[i, j]`` when token i may attend to token j; everything when left out.
    per : {"viewer", "token"}
        "viewer" averages over the tokens that can see j (itself included); "token" over all n, so that the
        masses are shares of all attention and add up to 1. The ratio to the baseline is the same.

    Examples
    --------
    >>> sink_mass([[1.0, 0.0], [0.8, 0.2]], visible=[[True, False], [True, True]]).tolist()
    [0.9, 0.2]
    """
    P = arrays.attention(P)
    seen = _visible(visible, P.shape[-1])
    return np.asarray((P * seen).sum(axis=-2) / _viewers(seen, per))


def sink_baseline(n: int, visible: ArrayLike | None = None, per: str = "viewer") -> Floats:
    """The sink mass of attention that is uniform over the visible tokens, (n,).

    For the causal mask and ``per="token"`` it is (1/n) sum_{i >= j} 1/i; for ``per="viewer"`` the same sum
    divided by n - j + 1, the number of tokens that can see token j.

    >>> sink_baseline(2, visible=[[True, False], [True, True]]).tolist()
    [0.75, 0.5]
    """
    seen = _visible(visible, n)
    uniform = seen / seen.sum(axis=1, keepdims=True)  # (n, n)
    return np.asarray(uniform.sum(axis=0) / _viewers(seen, per))


def _visible(visible: ArrayLike | None, n: int) -> Bools:
    seen = np.ones((n, n), dtype=np.bool_) if visible is None else np.asarray(visible)
    if seen.shape != (n, n) or seen.dtype != np.bool_:
        raise InputError(f"visible must be a boolean array ({n}, {n}), not {seen.dtype} {seen.shape}.")
    if not (seen.any(axis=0).all() and seen.any(axis=1).all()):
        raise InputError("Every token must see some token and be seen by one.")
    return seen


def _viewers(seen: Bools, per: str) -> Ints | int:
    if per == "viewer":
        return np.asarray(seen.sum(axis=0))  # (n,)
    if per == "token":
        return len(seen)
    raise InputError(f"per must be 'viewer' or 'token', not {per!r}.")
