"""Attention summed over every visible pair, with memory for a block of it only.

    value_i = sum_j A_ij v_j,     log_z_i = log sum_j w_j e^{beta <q_i, k_j>}

| normalise      | A_ij                                             |
|----------------|--------------------------------------------------|
| `softmax`      | w_j e^{s_ij} / Z_i                               |
| `unnormalised` | w_j e^{s_ij} / sum of the visible w (their count)|
| `hardmax`      | w_j on the highest s_ij, shared between ties     |
| `sinkhorn`     | doubly stochastic scaling of e^{s_ij}            |

Every mask is an interval of columns per row, so a kernel needs two whole numbers per query and no n x n array.
"""

import re
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

NORMALISATIONS = ("softmax", "unnormalised", "hardmax", "sinkhorn")
_PARTS = 8  # private sums of the symmetric kernel, whatever the number of threads: sums come out the same
_INLINE = 60_000  # pairs below which starting threads costs more than it saves
# powers of two between the least and the largest possible weight up to which one bound serves a whole row
_SPAN = {np.dtype(np.float64): 900.0, np.dtype(np.float32): 100.0}
_WINDOW = re.compile(r"window\(\s*(\d+)\s*(,\s*causal\s*)?\)")


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
    normalise: str = "softmax",
    mask: str = "full",
    weights: np.ndarray | None = None,
    symmetric: bool | None = None,
) -> Sums:
    """sum_j A_ij v_j over every visible pair.

    Parameters
    ----------
    q, k : arrays (n, d)
        Queries and keys; the score is beta <q_i, k_j>. All float32 makes the sum float32. Under the full mask there
        may be any number of queries.
    v : array (n, v), optional
        What is summed; the keys when left out.
    beta : float
    normalise : {"softmax", "unnormalised", "hardmax", "sinkhorn"}
    mask : {"full", "causal", "window(w)", "window(w, causal)"}
    weights : array (n,), optional
        Token j counts as weights[j] tokens; one of weight 0 only looks on.
    symmetric : bool, optional
        Whether <q_i, k_j> = <q_j, k_i>, which halves the work; found out when left out.

    Examples
    --------
    >>> exact(np.eye(2), np.eye(2), beta=2.0).value.round(4).tolist()
    [[0.8808, 0.1192], [0.1192, 0.8808]]
    """
    if normalise not in NORMALISATIONS:
        raise unknown("normalisation", normalise, NORMALISATIONS)
    q, k, v, weights = checked(q, k, v, weights, square=mask != "full" or normalise == "sinkhorn")
    if normalise == "sinkhorn":
        return _sinkhorn(q, k, v, beta, weights, mask)
    low, high = reach(mask, len(q)) if mask != "full" else _everyone(len(q), len(k))
    if symmetric is None:
        symmetric = q is k or (mask == "full" and np.array_equal(q[0], k[0]) and np.array_equal(q, k))
    if symmetric and mask == "full" and weights is not None and not weights.all():
        return _with_onlookers(q, k, v, beta, normalise, weights)
    scaled = np.multiply(q, beta * LOG2E)
    task = Task(scaled, k, v, weights, low, high, np.result_type(q, k, v))
    if not all(np.isfinite(a.sum()) or np.isfinite(a).all() for a in (scaled, k, v)):
        return Sums(np.full((len(scaled), v.shape[1]), np.nan), np.full(len(scaled), np.nan))
    hard = normalise == "hardmax"
    out, z, power = _by_tiles(task, hard) if hard else _summed(task, symmetric and mask == "full")
    log_z = np.log(z) + LN2 * power
    if normalise != "unnormalised":
        return Sums(np.multiply(out, (1.0 / z[:, None]).astype(out.dtype)).astype(task.dtype, copy=False), log_z)
    with np.errstate(over="ignore"):  # e^{s} of a huge score is inf
        value = np.ldexp(out / visible_weight(weights, low, high)[:, None], power[:, None])
        return Sums(value.astype(task.dtype), log_z)


def _with_onlookers(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, beta: float, normalise: str, weights: np.ndarray
) -> Sums:
    """A symmetric sum in which tokens of weight 0 are queries only."""
    tokens = weights > 0
    seen = k[tokens], v[tokens], beta
    value, log_z = np.empty((len(q), v.shape[1]), np.result_type(q, k, v)), np.empty(len(q))
    for some, alike in ((tokens, True), (~tokens, False)):
        value[some], log_z[some] = exact(q[some], *seen, normalise=normalise, weights=weights[tokens], symmetric=alike)
    return Sums(value, log_z)


def reach(mask: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """First visible column of each row, and the one after the last.

    >>> [a.tolist() for a in reach("window(1)", 4)]
    [[0, 0, 1, 2], [2, 3, 4, 4]]
    """
    i = np.arange(n)
    found = _WINDOW.fullmatch(mask)
    if mask == "full":
        return _everyone(n, n)
    if mask == "causal":
        return np.zeros(n, np.int64), i + 1
    if found:
        w = int(found[1])
        return np.maximum(i - w, 0), i + 1 if found[2] else np.minimum(i + w + 1, n)
    raise unknown("mask", mask, ["full", "causal", "window(8)", "window(8, causal)"])


def _everyone(queries: int, keys: int) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(queries, np.int64), np.full(queries, keys)


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
        raise InputError(f"Queries and keys must be (n, d) and values (n, v), not {q.shape}, {k.shape} and {v.shape}.")
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


def _sinkhorn(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    beta: float,
    weights: np.ndarray | None,
    mask: str,
) -> Sums:
    """Potentials f, g with sum_j e^{s_ij + f_i + g_j} = 1 = sum_i: a potential is one more coordinate of the keys.

    The same iteration as `metastable.equation.normalise.sinkhorn`: columns, then rows, until the rows are right.
    """
    if mask != "full" or weights is not None:
        raise InputError("sinkhorn needs mask='full' and no weights.")
    ones = np.ones((len(q), 1), q.dtype)

    def log_sums(a: np.ndarray, b: np.ndarray, potential: np.ndarray, values: np.ndarray) -> Sums:
        wide = np.hstack([beta * a, ones]).astype(q.dtype), np.hstack([b, potential[:, None]]).astype(q.dtype)
        return exact(*wide, values)

    f = -log_sums(q, k, np.zeros(len(k)), ones).log_z
    tolerance, most = (1e-12, 2000) if q.dtype == np.float64 else (1e-6, 500)
    for _ in range(most):
        g = -log_sums(k, q, f, ones).log_z
        done = log_sums(q, k, g, v)
        gap = np.abs(np.expm1(f + done.log_z)).max()
        f = -done.log_z
        if not gap > tolerance:
            break
    return done
