"""Attention summed over every visible pair, with memory for a block of it only.

    value_i = sum_j A_ij v_j,     log_z_i = log sum_j w_j e^{beta <q_i, k_j>}

| kind           | A_ij                                             |
|----------------|--------------------------------------------------|
| `softmax`      | w_j e^{s_ij} / Z_i                               |
| `unnormalised` | w_j e^{s_ij} / sum of the visible w (their count)|
| `hardmax`      | w_j on the highest s_ij, shared between ties     |

Every mask is an interval of columns per row, so a kernel needs two whole numbers per query and no n x n array.
"""

from typing import NamedTuple

import numpy as np

from metastable.engines.exact import tiles
from metastable.engines.exact.rows import row_sums, symmetric_sums
from metastable.engines.simd import packing as pack
from metastable.engines.simd import products as product
from metastable.engines.simd import threads
from metastable.engines.simd.exponential import LN2, LOG2E
from metastable.engines.simd.vectors import WIDTH
from metastable.errors import InputError, unknown

KINDS = ("softmax", "unnormalised", "hardmax")
_PARTS = 8  # private sums of the symmetric kernel, whatever the number of threads: sums come out the same
_INLINE = 60_000  # pairs below which starting threads costs more than it saves
# powers of two between the least and the largest possible weight up to which one bound serves a whole row
_SPAN = {np.dtype(np.float64): 900.0, np.dtype(np.float32): 100.0}


class Sums(NamedTuple):
    """What attention gathers: ``value`` (n, v) and ``log_z`` (n,), the logarithm of each row's sum of weights."""

    value: np.ndarray
    log_z: np.ndarray


class Task(NamedTuple):
    """One exact sum, with beta * log2(e) in the queries and the visible columns low[i] <= j < high[i]."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    weights: np.ndarray | None
    low: np.ndarray
    high: np.ndarray
    dtype: np.dtype


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
    low, high = _visible(low, high, len(q), len(k))
    if symmetric is None:
        symmetric = q is k or (full and np.array_equal(q[0], k[0]) and np.array_equal(q, k))
    symmetric = bool(symmetric and full)
    if symmetric and weights is not None and not weights.all():
        return _with_zero_weights(q, k, v, beta, kind, weights)
    scaled = np.multiply(q, beta * LOG2E)
    task = Task(scaled, k, v, weights, low, high, np.result_type(q, k, v))
    if not all(np.isfinite(a.sum()) or np.isfinite(a).all() for a in (scaled, k, v)):
        return Sums(np.full((len(scaled), v.shape[1]), np.nan), np.full(len(scaled), np.nan))
    hard = kind == "hardmax"
    out, z, power = _by_tiles(task, hard) if hard else _summed(task, symmetric)
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


def _visible(low: np.ndarray | None, high: np.ndarray | None, queries: int, keys: int) -> tuple[np.ndarray, np.ndarray]:
    """Intervals of columns as int64 arrays, or a sentence."""
    low = np.zeros(queries, np.int64) if low is None else np.ascontiguousarray(low, np.int64)
    high = np.full(queries, keys, np.int64) if high is None else np.ascontiguousarray(high, np.int64)
    if low.shape != (queries,) or high.shape != (queries,):
        raise InputError(f"low and high must be {queries} whole numbers, one per query, not {low.shape}, {high.shape}.")
    if not ((low >= 0) & (low < high) & (high <= keys)).all():
        raise InputError(f"Every query must see at least one of the keys: 0 <= low < high <= {keys}.")
    return low, high


def visible_weight(weights: np.ndarray | None, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The weight (the number of tokens) that each row sees."""
    if weights is None:
        return (high - low).astype(np.float64)
    before = np.concatenate([[0.0], np.cumsum(weights, dtype=np.float64)])
    return before[high] - before[low]


def checked(
    q: np.ndarray, k: np.ndarray, v: np.ndarray | None, weights: np.ndarray | None, square: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """The arrays as floats of shapes that fit, or a sentence."""
    same = k is q
    q = _floats(q)
    k = q if same else _floats(k)
    v = k if v is None else _floats(v)
    flat = q.ndim == k.ndim == v.ndim == 2 and 0 not in (*q.shape, *k.shape, *v.shape)
    if not flat or q.shape[1] != k.shape[1] or len(v) != len(k) or (square and len(q) != len(k)):
        raise InputError(
            f"Queries and keys must be (m, d) and (n, d), values (n, v), not {q.shape}, {k.shape} and {v.shape}."
        )
    if weights is not None:
        weights = np.asarray(weights, np.float64)
        if weights.shape != (len(k),) or not (weights >= 0).all() or not weights.any():
            raise InputError(f"Weights must be {len(k)} numbers >= 0, not all of them 0.")
    return q, k, v, weights


def _floats(a: np.ndarray) -> np.ndarray:
    a = np.asarray(a)
    return a if a.dtype == np.float32 else a.astype(np.float64, copy=False)


def _summed(task: Task, symmetric: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(out, z, power): sums and totals of the weights over 2^power, one whole number per row."""
    if max(task.k.shape[1], task.v.shape[1]) > 3:
        return _by_tiles(task)
    # the longest key up to a row's last one, so that a causal token does not depend on later ones in any digit
    longest = np.maximum.accumulate(np.einsum("jd,jd->j", task.k, task.k, dtype=np.float64))[task.high - 1]
    bound = np.ceil(np.sqrt(np.einsum("id,id->i", task.q, task.q, dtype=np.float64) * longest))  # >= every score
    if not 2 * bound.max() <= _SPAN[task.dtype]:
        return _by_tiles(task)
    symmetric = symmetric and task.dtype == np.float64
    if symmetric:
        bound = np.full(len(bound), bound.max())
    width = WIDTH[task.dtype]
    Q, K = (pack.coordinates(a, 3, task.dtype) for a in (task.q, task.k))
    S = pack.sources(task.v, task.weights, 4, task.dtype)
    sums = _symmetric(Q, K, S, bound[0], width) if symmetric else _rows(Q, K, S, task, bound, width)
    out = sums[1 : 1 + task.v.shape[1], : len(task.q)].T
    return out, sums[0, : len(task.q)], bound.astype(np.int64)


def _symmetric(Q: np.ndarray, K: np.ndarray, S: np.ndarray, shift: float, width: int) -> np.ndarray:
    parts = 1 if K.shape[1] ** 2 < _INLINE else max(_PARTS, threads.cores())
    out = np.zeros((parts, *S.shape))
    threads.share(lambda p: symmetric_sums(Q, K, S, shift, p, parts, out[p], width), parts)
    return out.sum(axis=0)  # type: ignore[no-any-return]


def _rows(Q: np.ndarray, K: np.ndarray, S: np.ndarray, task: Task, shift: np.ndarray, width: int) -> np.ndarray:
    out = np.zeros((4, len(task.q)))
    cuts = _pieces(task, 1)
    threads.share(lambda p: row_sums(Q, K, S, task.low, task.high, shift, *cuts[p], out, width), len(cuts))
    return out


def _pieces(task: Task, step: int) -> list[tuple[int, int]]:
    pairs = float((task.high - task.low).sum())
    return threads.pieces(len(task.q), 1 if pairs < _INLINE else 8 * threads.cores(), step)


def _by_tiles(task: Task, hard: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n, width = len(task.k), WIDTH[task.dtype]
    panel = product.VECTORS * width
    columns = -(-n // panel) * panel
    Q = pack.upright(task.q, tiles.ROWS, task.dtype)
    K = pack.key_panels(task.k, panel, task.dtype)
    V = pack.value_panels(task.v, columns, panel, task.dtype)
    w = pack.aligned((1, columns), task.dtype)
    w[0, :n] = 1.0 if task.weights is None else task.weights
    out = pack.aligned((len(Q), len(V) // columns * panel), task.dtype)
    z, m = np.zeros(len(Q)), np.full(len(Q), -np.inf)
    run = tiles.hard_sums if hard else tiles.tile_sums
    cuts = _pieces(task, tiles.ROWS)

    def one(p: int) -> None:
        room = pack.aligned((tiles.ROWS, tiles.COLUMNS), task.dtype)
        run(Q, K, V, w, task.low, task.high, *cuts[p], room, out, z, m, width)

    threads.share(one, len(cuts))
    rows = len(task.q)
    power = np.zeros(rows, np.int64) if hard else m[:rows].astype(np.int64)
    return out[:rows, : task.v.shape[1]], z[:rows], power
