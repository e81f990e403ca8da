"""Attention summed over every visible pair, with memory for a block of it only.

    value_i = sum_j A_ij v_j,     log_z_i = log sum_j w_j e^{beta <q_i, k_j>}

| kind           | A_ij                                             |
|----------------|--------------------------------------------------|
| `softmax`      | w_j e^{s_ij} / Z_i                               |
| `unnormalised` | w_j e^{s_ij} / sum of the visible w (their count)|
| `hardmax`      | w_j on the highest s_ij, shared between ties     |

Every mask is an interval of columns per row, so a kernel needs two whole numbers per query and no n x n array.
"""

import numpy as np

from metastable.engines.calibrate import coefficient
from metastable.engines.exact import passes
from metastable.engines.exact.task import Sums, Task, checked, visible, visible_weight
from metastable.engines.simd import threads
from metastable.engines.simd.exponential import LN2, LOG2E
from metastable.errors import unknown

__all__ = ["KINDS", "Sums", "checked", "exact", "tile_cost", "visible_weight"]

KINDS = ("softmax", "unnormalised", "hardmax")


def exact(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray | None = None,
    beta: float = 1.0,
    *,
    kind: str = "softmax",
    low: np.ndarray | None = None,
    high: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    symmetric: bool | None = None,
) -> Sums:
    """sum_j A_ij v_j over every visible pair.

    Parameters
    ----------
    q, k : arrays (m, d), (n, d)
        Queries and keys; the score is beta <q_i, k_j>. All float32 makes the sum float32.
    v : array (n, v), optional
        What is summed; the keys when left out.
    beta : float
    kind : {"softmax", "unnormalised", "hardmax"}
    low, high : arrays of int (m,), optional
        Query i sees the keys low[i] <= j < high[i]; all of them when left out.
    weights : array (n,), optional
        Token j counts as weights[j] tokens; one of weight 0 is a query only.
    symmetric : bool, optional
        Whether <q_i, k_j> = <q_j, k_i>, which halves the work; found out when left out.

    Examples
    --------
    >>> exact(np.eye(2), np.eye(2), beta=2.0).value.round(4).tolist()
    [[0.8808, 0.1192], [0.1192, 0.8808]]
    >>> exact(np.eye(2), np.eye(2), low=np.array([0, 0]), high=np.array([1, 2])).value[0].tolist()
    [1.0, 0.0]
    """
    if kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    q, k, v, weights = checked(q, k, v, weights, square=False)
    full = low is None and high is None
    low, high = visible(low, high, len(q), len(k))
    if symmetric is None:
        symmetric = q is k or (full and np.array_equal(q[0], k[0]) and np.array_equal(q, k))
    symmetric = bool(symmetric and full)
    if symmetric and weights is not None and not weights.all():
        return _with_zero_weights(q, k, v, beta, kind, weights)
    scaled = np.multiply(q, beta * LOG2E)
    task = Task(scaled, k, v, weights, low, high, np.result_type(q, k, v))
    if not all(np.isfinite(a.sum()) or np.isfinite(a).all() for a in (scaled, k, v)):
        return Sums(np.full((len(scaled), v.shape[1]), np.nan), np.full(len(scaled), np.nan))
    out, z, power = _summed(task, symmetric, kind == "hardmax")
    log_z = np.log(z) + LN2 * power
    if kind != "unnormalised":
        return Sums(np.multiply(out, (1.0 / z[:, None]).astype(out.dtype)).astype(task.dtype, copy=False), log_z)
    with np.errstate(over="ignore"):  # e^{s} of a huge score is inf
        value = np.ldexp(out / visible_weight(weights, low, high)[:, None], power[:, None])
        return Sums(value.astype(task.dtype), log_z)


def _with_zero_weights(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, beta: float, kind: str, weights: np.ndarray
) -> Sums:
    """A symmetric sum in which tokens of weight 0 are queries only."""
    tokens = weights > 0
    seen = k[tokens], v[tokens], beta
    value, log_z = np.empty((len(q), v.shape[1]), np.result_type(q, k, v)), np.empty(len(q))
    for some, alike in ((tokens, True), (~tokens, False)):
        value[some], log_z[some] = exact(q[some], *seen, kind=kind, weights=weights[tokens], symmetric=alike)
    return Sums(value, log_z)


def _summed(task: Task, symmetric: bool, hard: bool) -> passes.Partial:
    """The quickest of the ways to make a sum."""
    d, v = task.k.shape[1], task.v.shape[1]
    bound = passes.bounds(task) if max(d, v) <= 3 and not hard else None
    pairs = float((task.high - task.low).sum())
    if bound is not None and symmetric and task.dtype == np.float64:
        return passes.by_symmetry(task, bound, _parts(pairs * coefficient("symmetric_pair")))
    if bound is not None:
        return passes.by_rows(task, bound, _parts(pairs * coefficient("pair")))
    own, blas = (tile_cost(how, d, v, task.dtype) for how in ("tile", "blas"))
    if hard or own <= blas:
        return passes.by_tiles(task, _parts(pairs * own), hard)
    return passes.by_blas(task, _parts(pairs * blas))


def tile_cost(how: str, d: int, v: int, dtype: np.dtype) -> float:
    """Seconds per pair of the tiles of ``how``, "tile" (our own products) or "blas", all cores busy."""
    return coefficient(f"{how}_pair_{dtype}") + coefficient(f"{how}_coordinate_{dtype}") * (d + v)


def _parts(seconds: float) -> int:
    """Pieces of a sum that takes all cores so many seconds: one, where waking them costs more than it saves."""
    cores = threads.cores()
    return 8 * cores if seconds * (cores - 1) > coefficient("share") else 1
