"""Long horizons of the rescaled flow, eq. (4) of the second paper, without ever forming e^{tV} where it could overflow.

Why a chart. Attention depends on differences of inner products of size e^{2 lambda t}; tokens that have joined a
leader differ from it by less than rounding in z, yet this difference decides who leads. So, in a basis adapted to V
(V = S L S^{-1}, coordinates zeta = S^{-1} z, xi = e^{tL} zeta), the state holds for each token either

* itself, for *references*:  y_r = zeta_r   (e^{tL} zeta_r in directions where V contracts), or
* its offset from its reference in unscaled space:  y_j = eta_j = e^{tL} (zeta_j - zeta_ref).

With lambda = max(Re spectrum, 0), c_i = e^{-lambda t} xi_ref(i) and G = beta S^T Q^T K S, score gaps are

    score_ij - score_i,ref(i) = e^{lambda t} <c_i + e^{-lambda t} eta_i, G eta_j>     (same reference)

plus e^{2 lambda t} <., G (c_j - c_i)> between tokens of different references: nothing cancels. With
s_i = sum_m P_im (xi_m - xi_ref(i)), eq. (4) reads eta_j' = L (s_j - s_ref) and zeta_r' = L e^{-tL} s_r.
References are chosen anew as the run goes on; any choice is exact, a good one (leaders) keeps every digit.

This needs attention that does not change when a row of scores is shifted, and rows that sum to 1. Where a
normalisation does not declare that, scores are taken whole, and with row sums a_i the pull s_i gains
(a_i - 1) xi_ref(i). Every token is then its own reference: offsets would be lost in such scores, for a run and its
copies alike, and nobody would notice. The row of a token that sees nobody is 0 in any case, a_i = 0.
"""

from collections.abc import Callable

import numpy as np

from metastable.backend import Array, Numeric, jax, jnp
from metastable.engines.chart.basis import CAP, Chart, contracting, flow, quiet_product, shrunk_flow, times_L
from metastable.equation.dynamics import Dynamics
from metastable.equation.normalise import positive

MOST_ENTRIES = 2**23  # attention entries held at once


# --- the state --------------------------------------------------------------------------------------------------


def own(y: Array, refs: Array) -> Array:
    """True where a token is its own reference, (..., n, 1)."""
    return (refs == jnp.arange(y.shape[-2]))[..., None]


def gather(y: Array, refs: Array) -> Array:
    """The rows of y that belong to each token's reference."""
    return jnp.take_along_axis(y, refs[..., None], axis=-2)


def start(chart: Chart, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Chart state at t = 0: every token its own reference. The basis may have a leading axis of runs, as z has."""
    y = quiet_product(np.asarray(z), np.swapaxes(np.asarray(chart.S_inv), -1, -2))
    return y, np.broadcast_to(np.arange(z.shape[-2]), z.shape[:-1])


def sums_to_one(dyn: Dynamics, n: int) -> bool:
    """Whether all rows of attention between n tokens sum to 1; that of a token that sees nobody sums to 0."""
    return bool(dyn.normalise.stochastic and not dyn.mask.blind(n).any())


def scaled_tokens(chart: Chart, t: Array, y: Array, refs: Array) -> Array:
    """zeta for all tokens, still unscaled in contracting directions (finite there whatever t)."""
    down = contracting(chart)
    eta = jnp.where(own(y, refs), 0.0, y)
    back = flow(chart, -t, eta)
    return gather(y, refs) + jnp.where(down, eta, back)


def rescaled_coordinates(chart: Chart, t: Array, y: Array, refs: Array) -> Array:
    """zeta, (..., n, d); inf where a contracting direction has left the range of floats."""
    zeta = scaled_tokens(chart, t, y, refs)
    lost = -jnp.asarray(chart.grow) * t > 2 * CAP  # where flow caps its exponents, which must not pass for a result
    back = jnp.where(lost & (zeta != 0.0), jnp.inf, flow(chart, -t, zeta))
    return jnp.where(contracting(chart), back, zeta)


def tokens(chart: Chart, t: Array, y: Array, refs: Array) -> Array:
    """z = S zeta, (..., n, d)."""
    return rescaled_coordinates(chart, t, y, refs) @ jnp.asarray(chart.S).T


@jax.jit
def zeta_at(chart: Chart, times: Array, y: Array, refs: Array) -> Array:
    """zeta at many saved times, (m, ..., n, d)."""
    return jax.vmap(rescaled_coordinates, (None, 0, 0, 0))(chart, times, y, refs)


@jax.jit
def tokens_at(chart: Chart, times: Array, y: Array, refs: Array) -> Array:
    """z at many saved times, (m, ..., n, d)."""
    return jax.vmap(tokens, (None, 0, 0, 0))(chart, times, y, refs)


# --- attention and velocity -------------------------------------------------------------------------------------


def views(chart: Chart, t: Array, y: Array, refs: Array) -> tuple[Array, Array, Array]:
    """(c, eta, X): scaled references, offsets, and scaled tokens, all at time t."""
    shrink = jnp.exp(-chart.top * t)
    base = jnp.where(contracting(chart), y * shrink, shrunk_flow(chart, t, y))  # e^{-top t} xi, for references
    c = gather(base, refs)
    eta = jnp.where(own(y, refs), 0.0, y)
    return c, eta, c + shrink * eta


def _scores(dyn: Dynamics, chart: Chart, t: Array, y: Array, refs: Array, rows: Array | None, whole: bool) -> Array:
    """Scores of all queries, or of ``rows`` of them, (..., m, n), less that of their own reference unless ``whole``."""
    far, near = score_parts(chart, t, y, refs, rows, whole)
    scores = far + near
    queries: Array = jnp.arange(y.shape[-2]) if rows is None else rows
    return scores if chart.bias is None else scores + jnp.asarray(chart.bias)[queries]


def score_parts(
    chart: Chart, t: Array, y: Array, refs: Array, rows: Array | None, whole: bool = False
) -> tuple[Array, Array]:
    """The parts of `_scores` from references and offsets; beyond e^CAP in units of e^{2k} and e^k, k = top t - CAP.

    All products are made by ``einsum``, what follows only adds: a compiler that computes a score twice, once for the
    maximum and once for the difference, could otherwise round its products differently, and at e^{2 lambda t} one
    rounding decides everything.
    """
    queries: Array = jnp.arange(y.shape[-2]) if rows is None else rows
    c, eta, X = views(chart, t, y, refs)
    E = jnp.exp(jnp.minimum(chart.top * t, CAP))
    XG = E * ((X if rows is None else jnp.take(X, queries, axis=-2)) @ jnp.asarray(chart.G))  # (..., m, d)
    far = jnp.einsum("...id,...jd->...ij", E * XG, c)
    near = jnp.einsum("...id,...jd->...ij", XG, eta)
    if whole:
        return far, near
    mine = jnp.diagonal(far, axis1=-2, axis2=-1)[..., None] if rows is None else _pick(far, queries)
    return jnp.where(_same(refs, queries), 0.0, far - mine), near


def gaps_below(dyn: Dynamics, chart: Chart, t: Array, y: Array, refs: Array, rows: Array | None = None) -> Array:
    """Scores below their row's best, for all queries or for ``rows`` of them, (..., m, n); -inf where hidden."""
    gaps = _scores(dyn, chart, t, y, refs, rows, whole=False)
    seen = dyn.mask.rows(jnp.arange(y.shape[-2]) if rows is None else rows, y.shape[-2])
    gaps = gaps if seen is None else jnp.where(seen, gaps, -jnp.inf)
    top = gaps.max(axis=-1, keepdims=True)
    return gaps - jnp.where(jnp.isneginf(top), 0.0, top)  # a token that sees nobody has no best score


def attention(dyn: Dynamics, chart: Chart, t: Numeric, y: Numeric, refs: Numeric) -> Array:
    """P_ij, (..., n, n)."""
    return attention_of(dyn, chart, jnp.asarray(t), jnp.asarray(y), jnp.asarray(refs), None)


def attention_of(dyn: Dynamics, chart: Chart, t: Array, y: Array, refs: Array, rows: Array | None) -> Array:
    """P_ij for all queries or for ``rows`` of them, (..., m, n)."""
    return _summing_to_one(dyn, _attended(dyn, chart, t, y, refs, rows))


def weights_of(dyn: Dynamics, chart: Chart, gaps: Array, seen: Array | None) -> Array:
    """P_ij of scores below their row's best, for a normalisation that does not change with shifts."""
    return _summing_to_one(dyn, _weights(dyn, chart, gaps, seen))


def _summing_to_one(dyn: Dynamics, P: Array) -> Array:
    return P / positive(P.sum(axis=-1, keepdims=True)) if dyn.normalise.stochastic else P


def _attended(dyn: Dynamics, chart: Chart, t: Array, y: Array, refs: Array, rows: Array | None = None) -> Array:
    """Attention for all queries or for ``rows`` of them, (..., m, n), up to a factor per row where rows sum to 1."""
    n, part = y.shape[-2], dyn.normalise
    seen = dyn.mask.rows(jnp.arange(n) if rows is None else rows, n)
    if not part.shift_invariant:
        scores = _scores(dyn, chart, t, y, refs, rows, whole=True)
        whole: Array = part.rows(scores[..., None, :, :], seen)
        return whole[..., 0, :, :]
    return _weights(dyn, chart, gaps_below(dyn, chart, t, y, refs, rows), seen)


def _weights(dyn: Dynamics, chart: Chart, gaps: Array, seen: Array | None) -> Array:
    """What a normalisation that does not change with shifts makes of scores below their row's best."""
    part = dyn.normalise
    if part.unscaled is not None and part.stochastic:
        unscaled: Array = part.unscaled(gaps[..., None, :, :], seen)
        return unscaled[..., 0, :, :]
    if part.by_rows:  # so that a rounding of the largest score is small beside a gap
        gaps = jnp.maximum(gaps, -jnp.asarray(chart.deepest, gaps.dtype))
    rows_of_gaps: Array = part.rows(gaps[..., None, :, :], seen)
    return rows_of_gaps[..., 0, :, :]


def _pick(far: Array, rows: Array) -> Array:
    """Entry (i, rows[i]) of each row, (..., m, 1)."""
    return jnp.take_along_axis(far, jnp.broadcast_to(rows[:, None], (*far.shape[:-1], 1)), axis=-1)


def _same(refs: Array, rows: Array) -> Array:
    """Which tokens share the reference of the queries ``rows``, (..., m, n)."""
    return jnp.take(refs, rows, axis=-1)[..., :, None] == refs[..., None, :]


def by_rows(dyn: Dynamics, y: Array, some: Callable[[Array | None], Array]) -> Array:
    """``some(rows)``, (..., m, .), for all queries: at once (None), or in blocks when n x n entries are too many."""
    n = y.shape[-2]
    block = max(1, min(n, MOST_ENTRIES // max(1, y[..., 0].size)))
    if block >= n or not dyn.normalise.by_rows:
        return some(None)
    count = -(-n // block)
    rows = jnp.minimum(jnp.arange(count * block), n - 1).reshape(count, block)
    parts = jnp.moveaxis(jax.lax.map(some, rows), 0, -3)  # (..., count, block, .)
    return parts.reshape(*parts.shape[:-3], count * block, parts.shape[-1])[..., :n, :]


def gathered(dyn: Dynamics, chart: Chart, t: Array, y: Array, refs: Array) -> tuple[Array, Array]:
    """s_i = sum_m P_im (xi_m - xi_ref(i)) in unscaled space at time t, (..., n, d), and row sums a_i (..., n, 1)."""
    c, eta, _ = views(chart, t, y, refs)
    E = jnp.exp(jnp.minimum(chart.top * t, CAP))

    def some(rows: Array | None) -> Array:
        P = _attended(dyn, chart, t, y, refs, rows)
        mine = c if rows is None else jnp.take(c, rows, axis=-2)
        cross = jnp.where(_same(refs, jnp.arange(y.shape[-2]) if rows is None else rows), 0.0, P)
        ones = jnp.ones_like(c[..., :1])
        pulled = jnp.einsum("...ij,...jd->...id", P, jnp.concatenate([eta, ones], axis=-1))
        jumped = jnp.einsum("...ij,...jd->...id", cross, jnp.concatenate([c, ones], axis=-1))
        jump = jumped[..., :-1] - jumped[..., -1:] * mine
        s, total = pulled[..., :-1] + E * jump, pulled[..., -1:]
        if dyn.normalise.stochastic:
            sees = jnp.asarray(~dyn.mask.blind(y.shape[-2]), y.dtype)
            sees = (sees if rows is None else jnp.take(sees, rows))[:, None]
            return jnp.concatenate([s / positive(total), jnp.broadcast_to(sees, total.shape)], axis=-1)
        return jnp.concatenate([s, total], axis=-1)

    both = by_rows(dyn, y, some)
    return both[..., :-1], both[..., -1:]


def closest_gap(dyn: Dynamics, chart: Chart, t: Array, y: Array, refs: Array) -> Array:
    """The largest score below a row's best; when it is far below 0, attention is saturated."""

    def some(rows: Array | None) -> Array:
        gaps = gaps_below(dyn, chart, t, y, refs, rows)
        return jnp.where(gaps == 0.0, -jnp.inf, gaps).max(axis=-1, keepdims=True)

    return by_rows(dyn, y, some).max()


# A step holds the state in the scale of its start, ``since``. In a *frozen* state w all scales stay there: it is
# linear in z, so a Runge-Kutta step in w is the same step taken in z. In a *moving* state offsets follow their scale
# (they come to rest when attention saturates, so adaptive steps can grow) and only references stay frozen.


def frozen_velocity(dyn: Dynamics, chart: Chart, t: Array, w: Array, refs: Array, since: Array) -> Array:
    """w' of a frozen state."""
    roots, offsets = pulls(dyn, chart, t, thaw(chart, t - since, w, refs), refs, w)
    rest = flow(chart, since - t, offsets) - w
    return times_L(chart, jnp.where(own(w, refs), root_pull(chart, t, roots, since, dyn, w), rest))


def moving_velocity(dyn: Dynamics, chart: Chart, t: Array, y: Array, refs: Array, since: Array) -> Array:
    """y' of a moving state: eta' = L (s - s_ref)."""
    roots, offsets = pulls(dyn, chart, t, settle(chart, t - since, y, refs), refs, y)
    return times_L(chart, jnp.where(own(y, refs), root_pull(chart, t, roots, since, dyn, y), offsets))


Pull = tuple[Array, Array]  # s, and a - 1


def pulls(dyn: Dynamics, chart: Chart, t: Array, y: Array, refs: Array, held: Array) -> tuple[Pull, Array]:
    """What moves references, (s, a - 1), and what moves offsets, s_j - s_ref + (a_j - a_ref) xi_ref."""
    s, total = gathered(dyn, chart, t, y, refs)
    offsets = s - gather(s, refs)
    if not sums_to_one(dyn, y.shape[-2]):
        c, _, _ = views(chart, t, y, refs)
        xi = jnp.exp(jnp.minimum(chart.top * t, CAP)) * c
        offsets = offsets + (total - gather(total, refs)) * xi
    return (s, total - 1.0), offsets


def root_pull(chart: Chart, t: Array, pull: Pull, since: Array, dyn: Dynamics, w: Array) -> Array:
    """What moves references w held in the scale of ``since`` where V contracts, before L is applied."""
    s, excess = pull
    moved = jnp.where(contracting(chart), flow(chart, since - t, s), flow(chart, -t, s))
    return moved if sums_to_one(dyn, w.shape[-2]) else moved + excess * w


def settle(chart: Chart, h: Array, y: Array, refs: Array) -> Array:
    """The state at time since + h of a moving state."""
    return jnp.where(own(y, refs), flow(chart, h, y, only=contracting(chart)), y)


def thaw(chart: Chart, h: Array, w: Array, refs: Array) -> Array:
    """The state at time since + h of a frozen state."""
    return jnp.where(own(w, refs), flow(chart, h, w, only=contracting(chart)), flow(chart, h, w))
