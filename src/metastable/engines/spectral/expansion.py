"""Attention on the circle and on S^2 in time proportional to n.

The kernel e^{beta <q_i, k_j>} is expanded in Fourier modes or spherical harmonics, so the keys enter through their
moments only (`fourier`, `harmonics`; where tokens see earlier ones only, moments run along with them). The rank follows
from the tolerance by a bound that holds for any tokens (`ranks`) and from how much a few rows, summed exactly, see;
those rows are then compared. A row whose Z_i is so small that the bound fails there, for example a lone token opposite
a large cluster, is summed exactly instead.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from metastable.engines.exact.task import Sums, checked
from metastable.engines.simd import packing as pack
from metastable.engines.simd import threads
from metastable.engines.simd.exponential import LOG2E
from metastable.engines.spectral import fourier as circle
from metastable.engines.spectral import harmonics as sphere
from metastable.engines.spectral import ranks
from metastable.engines.spectral.points import GROUP, Points, cuts, exact_rows, points, settle

_COMPARED = 8  # rows compared with the exact sum
_LESS = 0.9  # of what the compared rows see, others are expected to see at least this much
_RESCUED = 0.02  # share of rows that may be summed exactly before more modes, or the exact sum, are the better choice


class Expanded(NamedTuple):
    """A linear-time sum: value and log_z as in `exact`, with what is known of its error."""

    sums: Sums
    rank: int  # highest mode
    error: float  # bound on the error of any row of the value, in units of the keys' length
    measured: float  # largest difference from the exact sum among the rows compared
    rescued: int  # rows summed exactly


def refusal(dimension: int, kappa: float, kind: str, view: str, tol: float) -> str | None:
    """Why a sum with these parts has no useful expansion, or None."""
    if kind not in ("softmax", "unnormalised"):
        return f"{kind} has no expansion"
    if view not in ("all", "earlier"):
        return "an expansion needs every token to see all tokens, or all up to itself"
    if dimension not in ranks.MOST:
        return f"the rank is too high in dimension {dimension}"
    if not kappa <= ranks.HIGHEST:
        return f"beta |q| |k| = {kappa:.3g} is above {ranks.HIGHEST:g}"
    if first_rank(dimension, kappa, tol) is None:
        return f"a tolerance of {tol:.1e} is below rounding or needs too many modes"
    return None


@lru_cache(maxsize=64)
def first_rank(dimension: int, kappa: float, tol: float) -> int | None:
    """The rank for tokens that see at least half as much as evenly spread ones."""
    share = ranks.uniform_share(dimension, kappa) / 2
    return ranks.rank_for(dimension, kappa, tol * share - ranks.ROUNDING)


def spectral(
    q: np.ndarray,
    k: np.ndarray,
    beta: float = 1.0,
    *,
    kind: str = "softmax",
    view: str = "all",
    weights: np.ndarray | None = None,
    tol: float = 1e-12,
    radial: bool = True,
) -> Expanded | str:
    """sum_j A_ij k_j for queries of one length and keys of one length in dimension 2 or 3.

    Parameters
    ----------
    q, k, beta, kind, weights
        As in `exact`; the values are the keys.
    view : {"all", "earlier"}
        Whether a query sees all keys, or those up to its own place.
    tol : float
        Error allowed in any row of the value, in units of the keys' length.
    radial : bool
        False leaves out the part of the value along q_i: what is left is the velocity of tokens q = k on the sphere.

    Returns
    -------
    Expanded, or the reason why the exact sum is the better choice.

    Examples
    --------
    >>> spectral(np.eye(2), np.eye(2), beta=2.0).sums.value.round(4).tolist()
    [[0.8808, 0.1192], [0.1192, 0.8808]]
    """
    same = q is k
    q, k, _, weights = checked(q, k, None, weights)
    if k.shape[1] not in ranks.MOST:
        return f"the rank is too high in dimension {k.shape[1]}"
    given = points(q, q if same else k, beta, weights)
    why = refusal(given.dimension, given.kappa, kind, view, tol)
    if why is None and not given.slack <= tol / 2:
        why = "queries, or keys, differ in length"
    if why is not None:
        return why
    seen = _seen(given.n, weights, view)
    got = _within_tolerance(given, seen, view, tol, bool(radial))
    if isinstance(got, str):
        return got
    if not got.measured <= 4 * got.error + 4 * ranks.ROUNDING:
        return f"the expansion is off by {got.measured:.1e} where {got.error:.1e} was promised"
    value, log_z = got.sums
    if kind == "unnormalised":
        value *= np.exp(log_z - np.log(seen))[:, None]
    return got._replace(sums=Sums(value.astype(np.result_type(q, k), copy=False), log_z))


def _within_tolerance(given: Points, seen: np.ndarray, view: str, tol: float, radial: bool) -> Expanded | str:
    """The sums with few rows beyond the tolerance, or the reason why not."""
    allowed = tol - given.slack
    count = min(_COMPARED, given.n)
    rows = np.arange(count) * (given.n - 1) // max(count - 1, 1)
    known = _exactly(given, rows, view)
    share = np.sort(known[0] / (seen if len(seen) == 1 else seen[rows]))
    least = float(share[min(1, count - 1)])  # one row may be an exception
    rank = ranks.rank_for(given.dimension, given.kappa, _LESS * allowed * least - ranks.ROUNDING, radial)
    if rank is None:
        rank = first_rank(given.dimension, given.kappa, allowed)
    made, many = Sums(np.empty((given.n, given.dimension)), np.empty(given.n)), max(_COMPARED, int(_RESCUED * given.n))
    for _ in range(2):
        if rank is None:
            break
        floors = seen * (ranks.tail(given.dimension, given.kappa, rank, radial) + ranks.ROUNDING) / allowed
        out, missed, surplus = _settled(given, rank, view, radial, floors, made)
        if missed <= many:
            poor = np.flatnonzero(~((out[0, : given.n] >= floors) & (floors > 0.0))) if missed else rows[:0]
            measured = _difference(given, made.value, rows, known, poor, radial)
            bound = max(allowed / surplus + given.slack, ranks.ROUNDING)
            if missed:
                _rescue(given, made, poor, view, radial)
            return Expanded(made, rank, bound, measured, missed)
        share = np.maximum(out[0, : given.n], 0.0) / seen
        least = float(np.partition(share, many // 2)[many // 2])  # few digits of it are known, but enough
        rank = ranks.rank_for(given.dimension, given.kappa, 0.99 * allowed * least - ranks.ROUNDING, radial)
    return "many tokens see so little of the others that rounding or rank would spoil the expansion"


def _settled(
    given: Points, rank: int, view: str, radial: bool, floors: np.ndarray, made: Sums
) -> tuple[np.ndarray, int, float]:
    """(sums, rows whose Z misses its floor, least Z / floor of the others), with the result in ``made``."""
    notes: list[tuple[int, float]] = []

    def finish(out: np.ndarray, first: int, last: int) -> None:
        notes.append(settle(given, out, first, last, floors, radial, made))

    out = (_causal if view == "earlier" else _full)(given, rank, radial, finish)
    return out, sum(missed for missed, _ in notes), min(surplus for _, surplus in notes)


def _difference(
    given: Points, value: np.ndarray, rows: np.ndarray, known: np.ndarray, poor: np.ndarray, radial: bool
) -> float:
    """The largest difference between values and exact sums ``known`` of some rows, the poor ones left out."""
    d = given.dimension
    gap = value[rows].T / given.length - known[1 : 1 + d] / known[0]
    gap = gap if radial else _across(gap, given.Q[:d, rows])
    return float(np.abs(gap[:, ~np.isin(rows, poor)] if len(poor) else gap).max(initial=0.0))


def _across(u: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The part of u across x, for unit columns x."""
    return u - np.einsum("ci,ci->i", u, x) * x  # type: ignore[no-any-return]


def _rescue(given: Points, made: Sums, poor: np.ndarray, view: str, radial: bool) -> None:
    """Put exact rows in the place of the poor ones."""
    d, known = given.dimension, _exactly(given, poor, view)
    mean = known[1 : 1 + d] / known[0]
    made.value[poor] = given.length * (mean if radial else _across(mean, given.Q[:d, poor])).T
    made.log_z[poor] = np.log(known[0]) + given.kappa


def _exactly(given: Points, rows: np.ndarray, view: str) -> np.ndarray:
    """Z and the summed vector of some rows, pair by pair, (4, rows)."""
    return exact_rows(given, rows, rows + 1 if view == "earlier" else np.full(len(rows), given.n))


def _seen(n: int, weights: np.ndarray | None, view: str) -> np.ndarray:
    """The weight that each row sees; one number when all see the same."""
    if view == "all":
        return np.array([float(n) if weights is None else weights.sum()])
    return np.arange(1.0, n + 1.0) if weights is None else np.cumsum(weights)


def _gathered(given: Points, rank: int, g: np.ndarray, parts: list[tuple[int, int]]) -> np.ndarray:
    """Moments of each piece of tokens, (pieces, entries, 2 or 4)."""
    flat = given.dimension == 2
    sums = np.zeros((len(parts), rank + 1, 2) if flat else (len(parts), g.shape[1] - 1, 4))

    def one(p: int) -> None:
        if flat:
            circle.moments(given.K, given.S, *parts[p], rank, sums[p])
        else:
            sphere.moments(given.K, given.S, *parts[p], rank, g, sums[p])

    threads.share(one, len(parts))
    return sums


Finish = Callable[[np.ndarray, int, int], None]  # what is done with the rows first to last once they have been summed


def _full(given: Points, rank: int, radial: bool, finish: Finish) -> np.ndarray:
    """Z_i e^{-kappa} and the summed vector, (4, n)."""
    scale, g, a = ranks.tables(given.dimension, given.kappa, rank)
    parts = cuts(given.K.shape[1], GROUP)
    M = _gathered(given, rank, g, parts).sum(axis=0)
    kappa, out = max(given.kappa, ranks.LEAST), pack.room("sums", (4, given.K.shape[1]))
    table = np.zeros((len(M), 4 if given.dimension == 2 else 12))
    if given.dimension == 2:
        circle.coefficients(M, scale, rank, table)
    else:
        sphere.coefficients(M, scale, a, rank, table)

    def one(p: int) -> None:
        if given.dimension == 2:
            circle.evaluate(given.Q, *parts[p], rank, table, kappa, radial, out)
        else:
            sphere.evaluate(given.Q, *parts[p], rank, g, table, kappa, radial, out)
        finish(out, *parts[p])

    threads.share(one, len(parts))
    return out


def _causal(given: Points, rank: int, radial: bool, finish: Finish) -> np.ndarray:
    """As `_full`, each query over its predecessors: moments of all earlier pieces first, then piece by piece."""
    scale, g, a = ranks.tables(given.dimension, given.kappa, rank)
    entries = scale.shape[1] * (given.dimension - 1)
    block = max(64, min(512, int(5.0 * math.sqrt(entries)) // GROUP * GROUP))
    parts = cuts(given.K.shape[1], block)
    before = np.cumsum(_gathered(given, rank, g, parts), axis=0)
    before = np.concatenate([np.zeros_like(before[:1]), before[:-1]])
    kappa, out = max(given.kappa, ranks.LEAST), pack.room("sums", (4, given.K.shape[1]))
    i = np.arange(given.n)
    scaled, shift = given.Q * (kappa * LOG2E), np.full(given.n, kappa * LOG2E)
    common = (given.Q, given.K, given.S, scaled, i // block * block, i + 1, shift)

    def one(p: int) -> None:
        if given.dimension == 2:
            circle.causal(*common, *parts[p], block, rank, scale, kappa, radial, before[p], out)
        else:
            sphere.causal(*common, *parts[p], block, rank, g, scale, a, kappa, radial, before[p], out)
        finish(out, *parts[p])

    threads.share(one, len(parts))
    return out
