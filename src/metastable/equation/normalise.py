"""From scores to attention.

A normalisation turns scores (..., h, m, n) into attention of the same shape, one row per query: ``rows(scores,
visible)``, where ``visible`` is a boolean array (m, n) or None for full attention. What else it declares, engines may
rely on; a function of one's own declares nothing and is summed by the dense engine, all rows at once.
Add one: one object and one line in NORMALISATIONS.

>>> import numpy as np
>>> mine = Normalisation(lambda s, seen: SOFTMAX.rows(2.0 * s, seen), name="sharp", by_rows=True, shift_invariant=True)
>>> mine.holds_what_it_declares()
True
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from metastable.backend import Array, Scores, jnp, structure
from metastable.equation.part_fields import check_functions, check_name, check_switches, is_function
from metastable.equation.sinkhorn import sinkhorn, sinkhorn_error
from metastable.errors import InputError, door, unknown

Rows = Callable[[Any, Any], Any]


@door
@structure
@dataclass(frozen=True)
class Normalisation:
    """Attention from scores.

    Parameters
    ----------
    rows : function (scores, visible) -> attention
        Of arrays (..., h, m, n), written with ``jax.numpy``.
    shift_invariant : bool
        A number added to all scores of a row changes nothing: the chart of the rescaled flow needs it to be exact.
    stochastic : bool
        Rows sum to 1: a token's pull is then a mean of values.
    by_rows : bool
        Each row depends on its own scores only, so that many tokens may be taken block by block.
    unscaled : function, optional
        The same up to a factor per row: whoever sums over keys divides by the row's total afterwards.
    stream : str, optional
        The streaming kernel of `metastable.engines.exact` that sums it.
    masked : bool
        Whether it has a meaning where some keys are hidden.
    error : function of the attention, optional
        How far a result misses its own definition; the driver reports it where it exceeds 1e-12.
    """

    rows: Rows
    name: str = "custom"
    shift_invariant: bool = False
    stochastic: bool = False
    by_rows: bool = False
    unscaled: Rows | None = None
    stream: str | None = None
    masked: bool = True
    error: Callable[[Any], Any] | None = None
    about: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        check_functions(self, ("rows", "unscaled", "error"))
        check_switches(self, ("shift_invariant", "stochastic", "by_rows", "masked"))
        check_name(self)

    def __repr__(self) -> str:
        return self.name

    def __call__(self, scores: Scores, visible: Array | None) -> Scores:
        out: Scores = self.rows(scores, visible)
        return out

    def holds_what_it_declares(self) -> bool:
        """Try the declarations on a few random scores; the package's own parts are tried by its tests."""
        return any(self is part for part in _OWN) or _holds(self)


@lru_cache(maxsize=64)
def _holds(part: Normalisation) -> bool:
    if not (part.shift_invariant or part.stochastic or part.by_rows or part.unscaled or part.stream):
        return True  # nothing is declared, so nothing is relied on
    return all(_holds_under(part, seen) for seen in ((None, np.tri(5, dtype=bool)) if part.masked else (None,)))


def _holds_under(part: Normalisation, seen: np.ndarray | None) -> bool:
    """Whether the declarations hold for random scores of which each row sees some columns, or all."""
    scores = np.random.default_rng(0).normal(size=(1, 5, 5))

    def rows(function: Rows, scores: np.ndarray, seen: np.ndarray | None = seen) -> np.ndarray:
        return np.asarray(function(jnp.asarray(scores), None if seen is None else jnp.asarray(seen)))

    full = rows(part.rows, scores)
    if full.shape != scores.shape:
        raise InputError(f"The normalisation {part.name!r} turned scores (1, 5, 5) into {full.shape}; keep the shape.")
    same = True
    if part.shift_invariant:
        same = np.allclose(rows(part.rows, scores + np.arange(5.0)[:, None]), full, rtol=1e-9, atol=1e-12)
    if part.stochastic:
        same = same and np.allclose(full.sum(axis=-1), 1.0, rtol=1e-9)
    if part.by_rows:
        some = rows(part.rows, scores[:, 1:3], None if seen is None else seen[1:3])
        same = same and np.allclose(some, full[:, 1:3], rtol=1e-9, atol=1e-12)
    if part.unscaled is not None:
        unscaled = rows(part.unscaled, scores)
        same = same and np.allclose(unscaled / unscaled.sum(axis=-1, keepdims=True), full, rtol=1e-9)
    if part.stream is not None:
        same = same and part.stream in _STREAMS
        same = same and np.allclose(rows(_STREAMS[part.stream], scores), full, rtol=1e-9)
    return bool(same)


def softmax(scores: Scores, visible: Array | None) -> Scores:
    """P_ij = e^{s_ij} / sum_l e^{s_il}: eq. (2) of both papers."""
    weights = exponentials(scores, visible)
    return weights / positive(weights.sum(axis=-1, keepdims=True))


def exponentials(scores: Scores, visible: Array | None) -> Scores:
    """Softmax up to a factor per row, e^{s_ij} with the row's maximum taken out: whoever sums over j divides after."""
    if visible is None:
        return jnp.exp(scores - scores.max(axis=-1, keepdims=True))  # (..., h, m, n)
    hidden = jnp.where(visible, scores, -jnp.inf)
    top = hidden.max(axis=-1, keepdims=True)
    return jnp.exp(hidden - jnp.where(jnp.isneginf(top), 0.0, top))


def positive(total: Array) -> Array:
    """A row's total to divide by; a token that sees nobody gets a row of zeros."""
    return jnp.where(total > 0, total, 1.0)


def unnormalised(scores: Scores, visible: Array | None) -> Scores:
    """e^{s_ij} / n (USA): rows need not sum to 1.

    Under a mask n is the number of visible tokens, so that a token still depends on its predecessors only.
    """
    if visible is None:
        return jnp.exp(scores) / scores.shape[-1]
    seen = jnp.asarray(visible)
    weights = jnp.where(seen, jnp.exp(jnp.where(seen, scores, 0.0)), 0.0)
    return weights / jnp.maximum(seen.sum(axis=-1, keepdims=True), 1)


def hardmax(scores: Scores, visible: Array | None) -> Scores:
    """All attention on the highest score, shared evenly between ties (the limit of softmax as beta grows).

    Scores closer than 16 roundings of the largest one count as tied, because equal inner products are not always
    equal floats.
    """
    hidden = scores if visible is None else jnp.where(visible, scores, -jnp.inf)
    top = hidden.max(axis=-1, keepdims=True)
    largest = jnp.where(jnp.isfinite(hidden), jnp.abs(hidden), 0.0).max(axis=-1, keepdims=True)
    won = (hidden >= top - 16 * jnp.finfo(scores.dtype).eps * largest).astype(scores.dtype)
    shared = jnp.where(jnp.isneginf(top), 0.0, won / positive(won.sum(axis=-1, keepdims=True)))  # 0: it sees nobody
    return jnp.where(jnp.isposinf(top) | jnp.isnan(top), jnp.nan, shared)  # scores beyond the range of floats


# what the streaming kernels of `metastable.engines.exact` sum
_STREAMS: dict[str, Rows] = {"softmax": softmax, "unnormalised": unnormalised, "hardmax": hardmax}

SOFTMAX = Normalisation(
    softmax, "softmax", shift_invariant=True, stochastic=True, by_rows=True, unscaled=exponentials, stream="softmax",
    about="P_ij = e^{s_ij} / sum_l e^{s_il}: eq. (2) of both papers.",
)  # fmt: skip
UNNORMALISED = Normalisation(
    unnormalised, "unnormalised", by_rows=True, stream="unnormalised",
    about="e^{s_ij} / n (USA): rows need not sum to 1.",
)  # fmt: skip
HARDMAX = Normalisation(
    hardmax, "hardmax", shift_invariant=True, stochastic=True, by_rows=True, stream="hardmax",
    about="All attention on the highest score, shared between ties: the limit of softmax as beta grows.",
)  # fmt: skip
SINKHORN = Normalisation(
    sinkhorn, "sinkhorn", shift_invariant=True, stochastic=True, masked=False, error=sinkhorn_error,
    about="Doubly stochastic attention (Sinkformer): e^{s} scaled until rows and columns all sum to 1.",
)  # fmt: skip

NORMALISATIONS: dict[str, Normalisation] = {part.name: part for part in (SOFTMAX, UNNORMALISED, HARDMAX, SINKHORN)}
_OWN = tuple(NORMALISATIONS.values())


def resolve(normalise: str | Normalisation | Rows) -> Normalisation:
    """The normalisation behind a name, a function or a part."""
    if isinstance(normalise, Normalisation):
        return normalise
    if isinstance(normalise, str):
        if normalise in NORMALISATIONS:
            return NORMALISATIONS[normalise]
        raise unknown("normalisation", normalise, NORMALISATIONS)
    if is_function(normalise):
        return Normalisation(normalise, getattr(normalise, "__name__", "custom"))
    raise unknown("normalisation", normalise, NORMALISATIONS)
