"""Attention and what it gathers, summed by JAX: any part, any device.

    A^h  = normalise( score_h(y_i, y_j) [+ position_ij],  mask )             eq. (2) of both papers
    mix  = sum_h sum_j A^h_ij V_h x_j                                         the sum in eq. (1)

Other engines make the same sum in other ways; this is the one that they are compared with.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from metastable.backend import Array, Scores, Tokens, jax, jnp
from metastable.equation.masks import Mask
from metastable.equation.normalise import Normalisation, Rows, positive
from metastable.equation.positions import Position
from metastable.equation.scores import Score
from metastable.equation.weights import Weights


class Parts(Protocol):
    """What attention is made of: a `Dynamics`, as far as it is needed here."""

    @property
    def weights(self) -> Weights: ...

    @property
    def beta(self) -> Any: ...

    @property
    def normalise(self) -> Normalisation: ...

    @property
    def mask(self) -> Mask: ...

    @property
    def score(self) -> Score: ...

    @property
    def position(self) -> Position | None: ...


_MOST_ENTRIES = 2**23  # attention entries held at once; beyond it queries are taken block by block


def rows(dyn: Parts, q: Array, k: Array, queries: Array, part: Rows | None = None, axes: int = 3) -> Scores:
    """Rows of the attention matrix for some queries, (..., h, m, n); q and k have ``axes`` axes behind the runs.

    ``part`` takes the place of the normalisation.
    """
    columns = jnp.arange(k.shape[-2])
    scores = dyn.score(q, k, _along(dyn.beta, q, axes))
    bias = None if dyn.position is None else dyn.position.bias(queries, columns)
    seen = dyn.mask.rows(queries, k.shape[-2])
    out: Scores = (part or dyn.normalise.rows)(scores if bias is None else scores + bias, seen)
    return out


def matrix(dyn: Parts, now: Weights, y: Tokens) -> Scores:
    """The whole attention matrix computed from y, (..., h, n, n)."""
    A = rows(dyn, queries(dyn, now, y), keys(dyn, now, y), jnp.arange(y.shape[-2]))
    return jnp.broadcast_to(A, (*A.shape[:-3], dyn.weights.heads, *A.shape[-2:]))  # heads may share one pattern


def mix(dyn: Parts, now: Weights, y: Tokens, x: Tokens) -> Tokens:
    """sum_h sum_j A^h_ij V_h x_j with attention computed from y, (..., n, d); blockwise when n is large."""
    n = x.shape[-2]
    q, k, v = queries(dyn, now, y), keys(dyn, now, y), values(now, x)
    lead = int(np.prod(np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])))
    block = max(1, min(n, _MOST_ENTRIES // max(1, lead * n)))

    def some(these: Array, q_rows: Array) -> Tokens:
        if dyn.normalise.unscaled is not None and dyn.score.pull == "value":
            return output(now, _divided_last(dyn, q_rows, k, v, these, dyn.normalise.unscaled))
        A = rows(dyn, q_rows, k, these)  # (..., h, m, n)
        mixed = jnp.einsum("...hmn,...hnv->...hmv", A, v)
        if dyn.score.pull == "difference":
            mixed = mixed - A.sum(axis=-1, keepdims=True) * jnp.take(v, these, axis=-2)
        return output(now, mixed)  # (..., m, d)

    if block >= n or not dyn.normalise.by_rows:
        return some(jnp.arange(n), q)
    return by_blocks(some, q, n, block)


def _divided_last(dyn: Parts, q: Array, k: Array, v: Array, these: Array, unscaled: Rows) -> Array:
    """Attention applied to v, (..., h, m, v): one product gives numerators and totals."""
    plain = dyn.position is None and dyn.score.is_dot
    lone = plain and q.shape[-3] == k.shape[-3] == v.shape[-3] == 1
    if lone:  # without an axis of heads the compiler makes one loop of what follows
        q, k, v = (a[..., 0, :, :] for a in (q, k, v))
    weights = rows(dyn, q, k, these, unscaled, 2 if lone else 3)
    ones = jnp.ones((*v.shape[:-1], 1), v.dtype)
    mixed = jnp.einsum("...mn,...nv->...mv", weights, jnp.concatenate([v, ones], axis=-1))
    out = mixed[..., :-1] / positive(mixed[..., -1:])
    return out[..., None, :, :] if lone else out


def queries(dyn: Parts, now: Weights, y: Tokens) -> Array:
    """Q_h y_i, normed if need be and turned by its position, (..., h, n, k)."""
    q = mapped(now.Q, now.q_bias, y)
    return _turned(dyn, q if now.q_norm is None else now.q_norm(q))


def keys(dyn: Parts, now: Weights, y: Tokens) -> Array:
    """K_h y_j, normed if need be and turned by its position, (..., h, n, k)."""
    k = mapped(now.K, now.k_bias, y)
    return _turned(dyn, k if now.k_norm is None else now.k_norm(k))


def values(now: Weights, x: Tokens) -> Array:
    """V_h x_j, (..., h, n, v)."""
    return mapped(now.V, now.v_bias, x)


def output(now: Weights, mixed: Array) -> Tokens:
    """The sum over heads of O_h times what each head gathered, (..., n, d)."""
    if now.O is None:
        out = mixed.sum(axis=-3)
    else:
        out = jnp.einsum("hdv,...hnv->...nd", jnp.asarray(now.O, mixed.dtype), mixed)
    return out if now.o_bias is None else out + jnp.asarray(now.o_bias, mixed.dtype)


def mapped(W: Array | None, bias: Array | None, y: Tokens) -> Array:
    """W_h y_i + bias_h for every head, (..., h, n, k)."""
    if W is None:
        out = y[..., None, :, :]
    else:
        out = jnp.einsum("hkd,...nd->...hnk", jnp.asarray(W, y.dtype), y)
    return out if bias is None else out + jnp.asarray(bias, y.dtype)[:, None, :]


def _turned(dyn: Parts, q: Array) -> Array:
    return q if dyn.position is None else dyn.position.rotate(q, jnp.arange(q.shape[-2]))


def by_blocks(some: Callable[[Array, Array], Array], q: Array, n: int, block: int) -> Array:
    """``some(rows, q of these rows)``, (..., m, .), for all n rows, ``block`` at a time."""
    count = -(-n // block)
    order = jnp.minimum(jnp.arange(count * block), n - 1).reshape(count, block)  # the last block repeats token n - 1
    parts = jax.lax.map(lambda r: some(r, jnp.take(q, r, axis=-2)), order)  # (count, ..., block, d)
    joined = jnp.moveaxis(parts, 0, -3)
    return joined.reshape(*joined.shape[:-3], count * block, joined.shape[-1])[..., :n, :]


def _along(beta: Array | float, q: Array, axes: int) -> Array:
    """beta with axes to stand beside the last ``axes`` of q, (..., h, n, k)."""
    b = jnp.asarray(beta, q.dtype)
    return b if b.ndim == 0 else b.reshape(*b.shape, *[1] * axes)
