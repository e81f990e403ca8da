"""From scores to attention: ``normalise(scores, visible) -> A``, both (..., h, m, n), one row per query.

``visible`` is a boolean array (m, n) or None for full attention. Add one: a function and a line in NORMALISATIONS.
"""

from collections.abc import Callable
from typing import Any

from metastable.backend import jax, jnp
from metastable.errors import unknown

Array = Any
Normalise = Callable[[Array, Array | None], Array]


def softmax(scores: Array, visible: Array | None) -> Array:
    """P_ij = e^{s_ij} / sum_l e^{s_il}: eq. (2) of both papers."""
    weights = exponentials(scores, visible)
    return weights / positive(weights.sum(axis=-1, keepdims=True))


def exponentials(scores: Array, visible: Array | None) -> Array:
    """Softmax up to a factor per row, e^{s_ij} with the row's maximum taken out: whoever sums over j divides after."""
    if visible is None:
        return jnp.exp(scores - scores.max(axis=-1, keepdims=True))  # (..., h, m, n)
    hidden = jnp.where(visible, scores, -jnp.inf)
    top = hidden.max(axis=-1, keepdims=True)
    return jnp.exp(hidden - jnp.where(jnp.isneginf(top), 0.0, top))


def positive(total: Array) -> Array:
    """A row's total to divide by; a token that sees nobody gets a row of zeros."""
    return jnp.where(total > 0, total, 1.0)


def unnormalised(scores: Array, visible: Array | None) -> Array:
    """e^{s_ij} / n (USA): rows need not sum to 1.

    Under a mask n is the number of visible tokens, so that a token still depends on its predecessors only.
    """
    if visible is None:
        return jnp.exp(scores) / scores.shape[-1]
    return jnp.where(visible, jnp.exp(jnp.where(visible, scores, 0.0)), 0.0) / visible.sum(axis=-1, keepdims=True)


def hardmax(scores: Array, visible: Array | None) -> Array:
    """All attention on the highest score, shared evenly between ties (the limit of softmax as beta grows).

    Scores closer than 16 roundings of the largest one count as tied, because equal inner products are not always
    equal floats.
    """
    hidden = scores if visible is None else jnp.where(visible, scores, -jnp.inf)
    top = hidden.max(axis=-1, keepdims=True)
    largest = jnp.where(jnp.isfinite(hidden), jnp.abs(hidden), 0.0).max(axis=-1, keepdims=True)
    won = (hidden >= top - 16 * jnp.finfo(scores.dtype).eps * largest).astype(scores.dtype)
    return won / won.sum(axis=-1, keepdims=True)


def sinkhorn(scores: Array, visible: Array | None) -> Array:
    """Doubly stochastic attention (Sinkformer): e^{s} scaled until rows and columns all sum to 1.

    Iterated in logarithms to marginals right to 1e-12, 2,000 rounds at most; a last row scaling makes rows exact.
    """
    tolerance, most = (1e-12, 2000) if scores.dtype == jnp.float64 else (1e-6, 500)

    def lse(a: Array, axis: int) -> Array:
        return jax.scipy.special.logsumexp(a, axis=axis, keepdims=True)

    def off(carry: tuple[Array, Array, Array]) -> Array:
        _, gap, rounds = carry
        return (gap > tolerance) & (rounds < most)

    def body(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        log_a, _, rounds = carry
        log_a = log_a - lse(log_a, -2)
        rows = lse(log_a, -1)
        return log_a - rows, jnp.abs(jnp.expm1(rows)).max(), rounds + 1

    start = (scores - lse(scores, -1), jnp.asarray(jnp.inf, scores.dtype), jnp.asarray(0))
    return jnp.exp(jax.lax.while_loop(off, body, start)[0])


NORMALISATIONS: dict[str, Normalise] = {
    "softmax": softmax,
    "unnormalised": unnormalised,
    "hardmax": hardmax,
    "sinkhorn": sinkhorn,
}


def resolve(normalise: str | Normalise) -> Normalise:
    """The normalisation behind a name, or the function given."""
    if callable(normalise):
        return normalise
    if normalise not in NORMALISATIONS:
        raise unknown("normalisation", normalise, NORMALISATIONS)
    return NORMALISATIONS[normalise]
