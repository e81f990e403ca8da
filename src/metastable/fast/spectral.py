"""Attention on the circle and on S^2 in time proportional to n.

The kernel e^{beta <q_i, k_j>} is expanded in Fourier modes or spherical harmonics, so the keys enter through their
moments only (`circle`, `sphere`; under the causal mask moments run along with the tokens). The rank follows from the
tolerance by a bound that holds for any tokens (`ranks`). A row whose Z_i is so small that the bound fails there, for
example a lone token opposite a large cluster, is summed exactly instead, and a few rows are always compared with the
exact sum.
"""

import math
from typing import NamedTuple

import numpy as np

from metastable.fast import circle, pack, ranks, sphere, threads
from metastable.fast.exact import Sums, checked
from metastable.fast.points import GROUP, Points, cuts, exact_rows, points, settle
from metastable.fast.vexp import LOG2E

_COMPARED = 8  # rows compared with the exact sum
_RESCUED = 0.02  # share of rows that may be summed exactly before more modes, or the exact sum, are the better choice


class Expanded(NamedTuple):
    """A linear-time sum: value and log_z as in `exact`, with what is known of its error."""

    sums: Sums
    rank: int  # highest mode
    error: float  # bound on the error of any row of the value, in units of the keys' length
    measured: float  # largest difference from the exact sum among the rows compared
    rescued: int  # rows summed exactly


def refusal(dimension: int, kappa: float, normalise: str, mask: str, tol: float) -> str | None:
    """Why a sum with these parts has no useful expansion, or None."""
    if normalise not in ("softmax", "unnormalised"):
        return f"{normalise} has no expansion"
    if mask not in ("full", "causal"):
        return f"mask {mask} is short enough for the exact sum"
    if dimension not in ranks.MOST:
        return f"the rank is too high in dimension {dimension}"
    if not kappa <= ranks.HIGHEST:
        return f"beta |q| |k| = {kappa:.3g} is above {ranks.HIGHEST:g}"
    if first_rank(dimension, kappa, tol) is None:
        return f"a tolerance of {tol:.1e} is below rounding or needs too many modes"
    return None


def first_rank(dimension: int, kappa: float, tol: float) -> int | None:
    """The rank for tokens that see at least half as much as evenly spread ones."""
    share = ranks.uniform_share(dimension, kappa) / 2
    return ranks.rank_for(dimension, kappa, tol * share - ranks.ROUNDING)


def spectral(
    q: np.ndarray,
    k: np.ndarray,
    beta: float = 1.0,
    *,
    normalise: str = "softmax",
    mask: str = "full",
    weights: np.ndarray | None = None,
    tol: float = 1e-12,
    radial: bool = True,
) -> Expanded | str:
    """sum_j A_ij k_j for queries of one length and keys of one length in dimension 2 or 3.

    Parameters
    ----------
    q, k, beta, normalise, mask, weights
        As in `exact`; the values are the keys.
    tol : float
        Error allowed in any row of the value, in units of the keys' length.
    radial : bool
        False leaves out the part of the value along q_i, which a velocity on the sphere does not need.

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
    why = refusal(given.dimension, given.kappa, normalise, mask, tol)
    if why is None and not given.slack <= tol / 2:
        why = "queries, or keys, differ in length"
    if why is not None:
        return why
    seen = _seen(given.n, weights, mask)
    found = _within_tolerance(given, seen, mask, tol, radial)
    if isinstance(found, str):
        return found
    out, rank, error = found
    poor = np.flatnonzero(~(error <= tol))
    measured = _compare(given, out, error, poor, mask, radial)
    bound = float(np.delete(error, poor).max(initial=ranks.ROUNDING)) if len(poor) else float(error.max())
    if not measured <= 4 * bound + 4 * ranks.ROUNDING:
        return f"the expansion is off by {measured:.1e} where {bound:.1e} was promised"
    value = settle(given, out)
    log_z = np.log(out[0, : given.n]) + given.kappa
    if normalise == "unnormalised":
        value *= np.exp(log_z - np.log(seen))[:, None]
    kind = np.result_type(q, k)
    return Expanded(Sums(value.astype(kind, copy=False), log_z), rank, bound, measured, len(poor))


def _within_tolerance(
    given: Points, seen: np.ndarray, mask: str, tol: float, radial: bool
) -> tuple[np.ndarray, int, np.ndarray] | str:
    """(sums, rank, error of each row) with few rows beyond the tolerance, or the reason why not."""
    sound = min(1.0, (1.0 - given.slack / tol))
    rank = first_rank(given.dimension, given.kappa, tol * sound)
    for _ in range(2):
        if rank is None:
            break
        out = _causal(given, rank, radial) if mask == "causal" else _full(given, rank, radial)
        lost = float(ranks.bessel(given.dimension, given.kappa).tail[rank]) + ranks.ROUNDING
        share = np.maximum(out[0, : given.n], 0.0) / seen
        with np.errstate(divide="ignore"):
            error = lost / share + given.slack
        many = max(_COMPARED, int(_RESCUED * given.n))
        if np.count_nonzero(~(error <= tol)) <= many:
            return out, rank, error
        least = float(np.partition(share, many // 2)[many // 2])
        rank = ranks.rank_for(given.dimension, given.kappa, tol * sound * least / 2 - ranks.ROUNDING)
    return "many tokens see so little of the others that rounding or rank would spoil the expansion"


def _seen(n: int, weights: np.ndarray | None, mask: str) -> np.ndarray:
    """The weight that each row sees; one number when all see the same."""
    if mask == "full":
        return np.array(float(n) if weights is None else weights.sum())
    return np.arange(1.0, n + 1.0) if weights is None else np.cumsum(weights)


def _compare(given: Points, out: np.ndarray, error: np.ndarray, poor: np.ndarray, mask: str, radial: bool) -> float:
    """Put exact rows in the place of the poor ones; the largest difference met among some others."""
    fine = error if len(poor) == 0 else np.where(error <= error[poor].min(), error, 0.0)
    others = np.append(np.linspace(0, given.n - 1, _COMPARED - 1).astype(np.int64), np.argmax(fine))
    asked = np.setdiff1d(others, poor)
    rows = np.concatenate([poor, asked])
    known = exact_rows(given, rows, rows + 1 if mask == "causal" else np.full(len(rows), given.n))
    out[:, poor] = known[:, : len(poor)]
    known = known[:, len(poor) :]
    gap = out[1 : 1 + given.dimension, asked] / out[0, asked] - known[1 : 1 + given.dimension] / known[0]
    if not radial:
        along = given.Q[: given.dimension, asked]
        gap -= np.einsum("ci,ci->i", gap, along) * along
    return float(np.abs(gap).max(initial=0.0))


def _gathered(given: Points, rank: int, g: np.ndarray, parts: list[tuple[int, int]]) -> np.ndarray:
    """Moments of each piece of tokens, (pieces, 2, entries)."""
    entries = rank + 1 if given.dimension == 2 else (rank + 1) * (rank + 2) // 2
    sums = pack.aligned((len(parts) * 2 * entries, 8), np.float64).reshape(len(parts), 2, entries, 8)

    def one(p: int) -> None:
        if given.dimension == 2:
            circle.moments(given.K, given.S, *parts[p], rank, sums[p, 0], sums[p, 1])
        else:
            sphere.moments(given.K, given.S, *parts[p], rank, g, sums[p, 0], sums[p, 1])

    threads.share(one, len(parts))
    return sums.sum(axis=-1)  # type: ignore[no-any-return]


def _full(given: Points, rank: int, radial: bool) -> np.ndarray:
    """Z_i e^{-kappa} and the summed vector, (4, n)."""
    scale, g = ranks.tables(given.dimension, given.kappa, rank)
    parts = cuts(given.K.shape[1], GROUP)
    C, S = _gathered(given, rank, g, parts).sum(axis=0)
    kappa, out = max(given.kappa, ranks.LEAST), pack.aligned((4, given.K.shape[1]), np.float64)
    table = np.zeros((len(C), 4 if given.dimension == 2 else 6))
    if given.dimension == 2:
        circle.coefficients(C, S, scale, rank, table)
        threads.share(lambda p: circle.evaluate(given.Q, *parts[p], rank, table, kappa, radial, out), len(parts))
    else:
        sphere.coefficients(C, S, scale, rank, table)
        threads.share(lambda p: sphere.evaluate(given.Q, *parts[p], rank, g, table, kappa, radial, out), len(parts))
    return out


def _causal(given: Points, rank: int, radial: bool) -> np.ndarray:
    """As `_full`, each query over its predecessors: moments of all earlier pieces first, then piece by piece."""
    scale, g = ranks.tables(given.dimension, given.kappa, rank)
    entries = scale.shape[1]
    block = max(64, min(512, int(5.0 * math.sqrt(entries)) // GROUP * GROUP))
    parts = cuts(given.K.shape[1], block)
    before = np.zeros((len(parts), 2, entries))
    if len(parts) > 1:
        before[1:] = np.cumsum(_gathered(given, rank, g, parts[:-1]), axis=0)
    kappa, out = max(given.kappa, ranks.LEAST), pack.aligned((4, given.K.shape[1]), np.float64)
    i = np.arange(given.n)
    scaled, shift = given.Q * (kappa * LOG2E), np.full(given.n, kappa * LOG2E)
    common = (given.Q, given.K, given.S, scaled, i // block * block, i + 1, shift)

    def one(p: int) -> None:
        C, S = before[p]
        if given.dimension == 2:
            circle.causal(*common, *parts[p], block, rank, scale, kappa, radial, C, S, out)
        else:
            sphere.causal(*common, *parts[p], block, rank, g, scale, kappa, radial, C, S, out)

    threads.share(one, len(parts))
    return out
