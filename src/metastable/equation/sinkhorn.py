"""Doubly stochastic attention: e^{s_ij} scaled by a factor per row and per column until every sum is 1.

With rows scaled exactly, P_ij = e^{s_ij + v_j} / sum_l e^{s_il + v_l}, the column scalings v maximise the concave dual

    phi(v) = sum_j v_j - sum_i log sum_j e^{s_ij + v_j},   grad phi = 1 - c,   -Hess phi = diag(c) - P^T P,

where c_j are P's column sums. The Hessian is the n x n Schur complement of the problem in both scalings, and the
Laplacian of a graph with weights (P^T P)_jk >= 0: only its off-diagonal entries are computed, the diagonal is minus
their sum, so nothing cancels however close P is to a permutation. One column is held fixed, since v + const changes
nothing.

| what could go wrong                              | what is done                                                   |
|--------------------------------------------------|----------------------------------------------------------------|
| plain sweeps need thousands of rounds            | Newton steps h, or h log(1 + range h)/range h where that gains |
|                                                  | more: it always gains, since phi's third derivative along h is |
|                                                  | at most range h times its second                               |
| scores of size 1e5: Newton walks in small steps  | s/4^k first, then 4 log P for log P, k times (annealing)       |
| s + u + v rounds to eps |s|, and sums with it    | log P is carried, not u and v: sums are right to 1e-15, for    |
|                                                  | scores that differ from s by a rounding                        |
| links between blocks of P weaker than rounding   | a ridge of rounding size: they carry no mass that matters      |

By Kirchhoff's law an entry of P is off by at most half the sum of the column errors, however weak the links.
"""

from metastable.backend import jax, jnp
from metastable.errors import InputError

Array = jax.Array

_TOLERANCE = 1e-13  # of column sums; the last Newton step usually lands far below
_RIDGE = 7e-15  # below the tolerance, above the rounding of sums
_MOST_ROUNDS = 300  # Newton steps; 5 to 40 are usual
_GENTLE = 8.0  # scores within this range converge in a few steps from anywhere


def sinkhorn(scores: Array, visible: Array | None = None) -> Array:
    """Doubly stochastic attention (Sinkformer): e^{s} scaled until rows and columns all sum to 1.

    Sums are right to 1e-12 (1e-5 in float32; the work is done in float64 for both), or `sinkhorn_error` says by how
    much they are not. Derivatives of every order, forward and reverse, are those of the limit, by implicit
    differentiation; none goes through the iteration.

    Parameters
    ----------
    scores : array (..., h, n, n)
        Scores s_ij of query i and key j.
    visible : None
        Only full attention can be scaled to doubly stochastic.

    Returns
    -------
    array (..., h, n, n)

    Examples
    --------
    >>> A = sinkhorn(jnp.array([[0.0, 2.0], [3.0, 1.0]]))  # scaling keeps s_11 - s_12 - s_21 + s_22 = -4
    >>> print(A.round(6))  # so that A_11 / A_12 = e^{-4/2}
    [[0.119203 0.880797]
     [0.880797 0.119203]]
    """
    if visible is not None:
        raise InputError("sinkhorn needs mask='full': most masked matrices cannot be scaled to be doubly stochastic.")
    scores = jnp.asarray(scores)
    if scores.ndim < 2 or scores.shape[-1] != scores.shape[-2]:
        raise InputError(f"sinkhorn needs as many queries as keys, but the scores have shape {scores.shape}.")
    dtype = jnp.result_type(scores, jnp.float32)
    flat = scores.astype(jnp.float64).reshape(-1, *scores.shape[-2:])
    return jax.vmap(_scaled)(flat).reshape(scores.shape).astype(dtype)


def sinkhorn_error(A: Array) -> Array:
    """Largest deviation of any row or column sum of A (..., n, n) from 1; nan where A is not finite.

    >>> float(sinkhorn_error(jnp.array([[0.75, 0.25], [0.5, 0.5]])))
    0.25
    """
    rows, columns = (jnp.abs(A.sum(axis=axis) - 1.0).max(axis=-1) for axis in (-1, -2))
    return jnp.maximum(rows, columns)


@jax.custom_jvp
def _scaled(scores: Array) -> Array:
    """Doubly stochastic scaling of e^{scores}, (n, n) float64."""
    log_p, stages = _started(scores)

    def unfinished(carry: tuple[Array, Array, Array, Array]) -> Array:
        _, stage, error, rounds = carry
        return ((error > _TOLERANCE) | (stage > 0)) & (rounds < _MOST_ROUNDS)

    def improve(carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        log_p, stage, error, rounds = carry
        close = (error < 0.5) & (stage > 0)  # the next step leaves little to do at these scores
        log_p = _newton(log_p)
        log_p = jnp.where(close, _swept(4.0 * log_p), _rows_scaled(log_p))
        return log_p, stage - close, _column_error(log_p), rounds + 1

    start = (log_p, stages, _column_error(log_p), jnp.asarray(0))
    return jnp.exp(jax.lax.while_loop(unfinished, improve, start)[0])


@_scaled.defjvp
def _derivative(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    """dP = P (ds + du_i + dv_j), where du and dv keep all sums at 1."""
    P, (ds,) = _scaled(*primals), tangents
    direct = P * ds
    rows = direct.sum(axis=1)
    dv = _solve(P, P.T @ rows - direct.sum(axis=0))
    du = -(rows + P @ dv)
    return P, direct + P * (du[:, None] + dv[None, :])


def _started(scores: Array) -> tuple[Array, Array]:
    """log P of scores / 4^k, and k: 0 where plain sweeps that cost about two Newton steps come close."""
    most = max(8, len(scores) // 20)

    def unfinished(carry: tuple[Array, Array, Array]) -> Array:
        return (carry[1] > _TOLERANCE) & (carry[2] < most)

    def sweep(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        columns = _log_sum(carry[0], axis=0)
        return _rows_scaled(carry[0] - columns), jnp.abs(jnp.expm1(columns)).max(), carry[2] + 1

    start = (_rows_scaled(scores), jnp.asarray(jnp.inf), jnp.asarray(0))
    log_p = jax.lax.while_loop(unfinished, sweep, start)[0]
    centred = scores - scores.max(axis=1, keepdims=True)
    centred = centred - centred.max(axis=0, keepdims=True)
    stages = jnp.ceil(jnp.log2(jnp.maximum(-centred.min() / _GENTLE, 1.0)) / 2).astype(int)
    stages = jnp.where(_column_error(log_p) < 0.5, 0, stages)
    gentle = _swept(jnp.ldexp(centred, -2 * stages))
    return jnp.where(stages > 0, gentle, log_p), stages


def _newton(log_p: Array) -> Array:
    """One damped Newton step on the dual; rows of P sum to 1 before it, not after."""
    P = jnp.exp(log_p)
    columns = P.sum(axis=0)
    h = _solve(P, 1.0 - columns)
    reach = jnp.maximum(h.max() - h.min(), jnp.finfo(h.dtype).tiny)
    safe = h * (jnp.log1p(reach) / reach)
    whole = (reach < 0.5) | (_dual_gain(log_p, h) > _dual_gain(log_p, safe))
    step = jnp.where(whole, h, safe)
    return log_p + jnp.where(jnp.isfinite(h).all(), step, -jnp.log(columns))  # a sweep where no factor exists


def _dual_gain(log_p: Array, h: Array) -> Array:
    """phi(v + h) - phi(v) where rows of P sum to 1; nan, which is larger than nothing, where h overflows."""
    return h.sum() - _log_sum(log_p + h, axis=1).sum()


def _solve(P: Array, b: Array) -> Array:
    """x with (diag(c) - P^T P) x = b and x_n = 0, for P with row sums 1 and sum(b) = 0."""
    n = len(b)
    free = jnp.arange(n) < n - 1
    off = jnp.where(jnp.eye(n, dtype=bool), 0.0, P.T @ P)  # weights of the graph, (n, n)
    degree = jnp.where(free, off.sum(axis=1) * (1.0 + _RIDGE) + _RIDGE, 1.0)
    grounded = jnp.diag(degree) - jnp.where(free[:, None] & free[None, :], off, 0.0)
    return jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(grounded), True), jnp.where(free, b, 0.0))


def _swept(log_p: Array) -> Array:
    """Columns scaled, then rows: one round of Sinkhorn's iteration, after which column sums are at least 1/n."""
    return _rows_scaled(log_p - _log_sum(log_p, 0))


def _rows_scaled(log_p: Array) -> Array:
    return log_p - _log_sum(log_p, 1)


def _log_sum(a: Array, axis: int) -> Array:
    top = a.max(axis=axis, keepdims=True)
    return top + jnp.log(jnp.exp(a - top).sum(axis=axis, keepdims=True))  # finite scores: shorter than logsumexp


def _column_error(log_p: Array) -> Array:
    return jnp.abs(jnp.exp(log_p).sum(axis=0) - 1.0).max()
