"""Which token each token of a rescaled run is held relative to, and the noise that copies of a run get."""

import numpy as np

from metastable.backend import Array, jax, jnp
from metastable.engines.chart.basis import Chart, contracting, flow
from metastable.engines.chart.state import by_rows, gaps_below, gather, own, views
from metastable.equation.dynamics import Dynamics

_NEAR = 0.25  # a token joins a reference within this relative distance


def refer(dyn: Dynamics, chart: Chart, t: Array, y: Array, refs: Array) -> tuple[Array, Array]:
    """Choose references anew: each token follows the most attended token near it, to the end of the chain."""
    if not (dyn.normalise.shift_invariant and dyn.normalise.stochastic):
        return y, refs
    n = y.shape[-2]
    _, _, X = views(chart, t, y, refs)
    # attention held by each token: every row's is counted where it is highest, which blocks of rows can tell too
    choice = by_rows(dyn, y, lambda rows: gaps_below(dyn, chart, t, y, refs, rows).argmax(axis=-1)[..., None])
    held = _counts(choice[..., 0], n)
    square = (X**2).sum(axis=-1)
    sees = jnp.asarray(~dyn.mask.blind(n))  # a token that sees nobody stays where it is, and goes with nobody

    def best_near(some: Array | None) -> Array:
        # distances pick candidates only, so they need no care; ties go to the lower index, so chains never close
        rows: Array = jnp.arange(n) if some is None else some
        mine = jnp.take(square, rows, axis=-1)[..., :, None]
        apart = mine + square[..., None, :] - 2.0 * jnp.einsum("...id,...jd->...ij", jnp.take(X, rows, axis=-2), X)
        near = apart <= _NEAR**2 * jnp.minimum(mine, square[..., None, :])
        near = near & sees & jnp.take(sees, rows)[:, None]
        near = near | (rows[:, None] == jnp.arange(n))
        return jnp.argmax(jnp.where(near, held[..., None, :], -1.0), axis=-1)[..., None]

    best = by_rows(dyn, y, best_near)[..., 0]  # (..., n)
    for _ in range(max(1, int(np.ceil(np.log2(max(n, 2)))))):
        best = jnp.take_along_axis(best, best, axis=-1)
    return change(chart, t, y, refs, best), best


def _counts(choice: Array, n: int) -> Array:
    """How often each of n tokens is chosen, (..., n), without an n x n array: slower at n = 64 by 3, at 1,024 by 40."""
    flat = choice.reshape(-1, n)
    counts = jax.vmap(lambda row: jnp.zeros(n).at[row].add(1.0))(flat)
    return counts.reshape(choice.shape)


def change(chart: Chart, t: Array, y: Array, refs: Array, new: Array) -> Array:
    """The same tokens relative to other references."""
    eta = jnp.where(own(y, refs), 0.0, y)
    down = contracting(chart)
    base = gather(y, refs)  # each token's old reference
    old_of_new = jnp.take_along_axis(refs, new, axis=-1)
    moved = base - gather(base, new)
    moved = jnp.where((refs == old_of_new)[..., None], 0.0, jnp.where(down, moved, flow(chart, t, moved)))
    offset = moved + eta - gather(eta, new)
    root = base + jnp.where(down, eta, flow(chart, -t, eta))
    return jnp.where(own(y, new), root, offset)


def shaken(y: Array, k: Array, amount: Array) -> Array:
    """The state with relative noise of the size ``amount``.

    The signs are those of a fast sine of place and step number k: as good as random here, and quick to compile.
    """
    place = jnp.arange(y.size, dtype=y.dtype).reshape(y.shape)
    sign = jnp.sign(jnp.sin(12.9898 * place + 78.233 * k))
    return y * (1.0 + amount * sign)
