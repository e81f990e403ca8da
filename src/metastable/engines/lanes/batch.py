"""Small systems in the lanes of a vector: eight runs side by side, each with its own weights and beta, or eight
tokens of one run.

All of a run stays in the first cache while its steps are taken, no sum crosses lanes, and the exponential costs what
the hardware allows; groups of eight runs are shared between the cores. What is computed is the step of an explicit
Runge-Kutta tableau with `Dynamics.velocity`, for the plain case: softmax of dot scores over an interval of tokens, R^d
or the sphere, constant weights.

Arrays of a group are (rows, 8): tokens in rows i * d + c, matrices in rows (h * d + a) * d + b. Alone, a run has its
tokens 8 i to 8 i + 7 in the lanes of rows i * d + c, the last of them repeated. Either way every sum over tokens is
taken in their order, so a run has the same digits alone and among others.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from metastable.engines.lanes.lane_steps import LANES, room_for, run_group, to_tokens
from metastable.engines.simd.exponential import LOG2E
from metastable.engines.simd.packing import aligned
from metastable.engines.simd.threads import share
from metastable.equation.dynamics import Dynamics


def maps(members: Sequence[Dynamics], d: int, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """beta Q^T K and V of every run, (B, h, d, d) each; one member may serve all runs."""
    weights = {id(m.weights): m.weights for m in members}  # members that differ in beta only share theirs
    made = {key: (w.score_map(0.0, d), w.value_map(0.0, d)) for key, w in weights.items()}
    if len(members) == 1:
        A, V = (a[None] for a in made[id(members[0].weights)])
    else:
        A, V = (np.stack([made[id(m.weights)][k] for m in members]) for k in (0, 1))
    same = len(members) == 1 and (beta == beta[0]).all()
    return (beta[:1] if same else beta)[:, None, None, None] * A, V


class Scheme(NamedTuple):
    """What all runs have in common.

    ``tableau`` (stages + 1, stages) holds a and, in its last row, b. Token i sees the tokens low[i] <= j < high[i].
    ``sphere`` puts tokens back on the sphere after every step; ``tangent`` moves them by the part of the pull along it
    (discrete layers on the sphere take the pull itself).
    """

    dt: float
    tableau: np.ndarray
    low: np.ndarray
    high: np.ndarray
    sphere: bool
    tangent: bool


def advance(
    A: np.ndarray, V: np.ndarray, ends: np.ndarray, counts: np.ndarray, thetas: np.ndarray, scheme: Scheme
) -> tuple[np.ndarray, np.ndarray]:
    """Before each save take ``counts`` steps, then read the state at the fraction ``thetas`` of the last one.

    ``A`` (B or 1, h, d, d) holds beta Q^T K and ``V`` (B or 1, h, d, d) the value maps of every run, ``ends``
    (2, B, n, d) the tokens before and after the last step. Returns the ends and the saved tokens (m, B, n, d).
    """
    B, n, given = ends.shape[1:]
    more = max(0, 3 - given)  # coordinates that stay 0: the kernel for three is quicker than the general one
    A, x = A * LOG2E, ends
    if more:
        A, V = (np.pad(a, [(0, 0), (0, 0), (0, more), (0, more)]) for a in (A, V))
        x = np.pad(ends, [(0, 0), (0, 0), (0, 0), (0, more)])
    d, heads = given + more, A.shape[1]
    steps = (np.ascontiguousarray(counts, np.int64), np.ascontiguousarray(thetas, np.float64), float(scheme.dt))
    tableau = np.ascontiguousarray(scheme.tableau, np.float64)
    saved, state = np.empty((len(counts), B, n, given)), np.empty((2, B, n, given))
    blocks = -(-n // LANES)
    few = B < LANES and B * blocks <= n  # fewer rows one by one than side by side
    views = _views(scheme.low, scheme.high, few)
    kind = (d, heads, bool(scheme.sphere), bool(scheme.tangent))

    def run(
        maps: list[np.ndarray], ends: list[np.ndarray], size: int, keys: int | None
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        (before, now), out = ends, aligned((len(counts) * size * d, LANES), np.float64)
        room = room_for(size, n, d, tableau.shape[1])
        run_group(*maps, before, now, *steps, tableau, *views, size, keys, *kind, room, out)
        return [(saved, out), (state[:1], before), (state[1:], now)]

    def group(g: int) -> None:
        first, last = g * LANES, min((g + 1) * LANES, B)
        runs = np.minimum(np.arange(first, first + LANES), B - 1)  # the last run fills up the last group
        maps = [_upright(a, runs, heads * d * d) for a in (A, V)]
        for kept, rows in run(maps, [_upright(a, runs, n * d) for a in x], n, None):
            tokens = rows.reshape(len(kept), n, d, LANES)[:, :, :given, : last - first]
            kept[:, first:last] = tokens.transpose(0, 3, 1, 2)

    def alone(b: int) -> None:
        maps = [_everywhere(a[0 if len(a) == 1 else b]) for a in (A, V)]
        for kept, rows in run(maps, [_across(a[b]) for a in x], blocks, n):
            to_tokens(rows, d, b, kept)

    share(alone if few else group, B if few else -(-B // LANES))
    return state, saved


def _views(low: np.ndarray, high: np.ndarray, across: bool) -> tuple[np.ndarray, np.ndarray]:
    """What rows see: spans (rows, 4), the first and end of any lane and of all lanes; bounds (2 rows, 8) per lane."""
    low, high = np.asarray(low, np.int64), np.asarray(high, np.int64)
    if not across:
        return np.stack([low, high, low, high], axis=1), np.empty((0, LANES))
    order = np.minimum(np.arange(-(-len(low) // LANES) * LANES), len(low) - 1).reshape(-1, LANES)
    low, high = low[order], high[order]
    spans = np.stack([low.min(axis=1), high.max(axis=1), low.max(axis=1), high.min(axis=1)], axis=1)
    return spans, np.ascontiguousarray(np.concatenate([low, high], axis=1).reshape(-1, LANES), np.float64)


def _across(x: np.ndarray) -> np.ndarray:
    """Tokens (n, d) of one run with eight in the lanes of each row; the last fills up the last row."""
    n, d = x.shape
    order = np.minimum(np.arange(-(-n // LANES) * LANES), n - 1)
    out = aligned((len(order) // LANES * d, LANES), np.float64)
    out.reshape(-1, d, LANES)[:] = x[order].reshape(-1, LANES, d).transpose(0, 2, 1)
    return out


def _everywhere(a: np.ndarray) -> np.ndarray:
    """One array in all lanes, (rows, LANES)."""
    out = aligned((a.size, LANES), np.float64)
    out[:] = a.reshape(-1, 1)
    return out


def _upright(a: np.ndarray, runs: np.ndarray, rows: int) -> np.ndarray:
    """The arrays of some runs, (rows, LANES); one array may serve all runs."""
    chosen = a[np.zeros_like(runs) if len(a) == 1 else runs]
    out = aligned((rows, len(runs)), np.float64)
    out[:] = chosen.reshape(len(runs), rows).T
    return out
