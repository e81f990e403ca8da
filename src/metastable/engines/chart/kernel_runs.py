"""Fixed steps of the rescaled flow by kernels, for any number of runs: those of `metastable.engines.chart.steps`.

Members of an ensemble do not interact, so each is a task of its own and they share the cores. A certified run is two
members: itself, and a copy whose digits are shaken at every choice of references; the driver compares what they save.
Arrays here have the members in front, (B, n, d).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from metastable.engines.chart import kernels
from metastable.engines.chart.basis import Chart, quiet_product
from metastable.engines.chart.kernel_steps import run
from metastable.engines.simd.threads import cores, pieces, share

_SHARED = 2**16  # numbers (512 KB) that are moved in about the 20 microseconds of waking another thread


class State(NamedTuple):
    """The last step's two ends in the scale of its start, the state itself, its references, and the steps taken."""

    before: np.ndarray  # (B, n, d)
    after: np.ndarray
    now: np.ndarray
    refs: np.ndarray  # (B, n)
    k: int


class Saved(NamedTuple):
    """What is saved: states of the first members and their references, and zeta of all."""

    y: np.ndarray  # (m, kept, n, d)
    refs: np.ndarray  # (m, kept, n)
    zeta: np.ndarray  # (m, B, n, d)


def start(y: np.ndarray, refs: np.ndarray) -> State:
    """The state of members that begin at y (B, n, d) with references (B, n)."""
    y = np.array(y, np.float64, order="C")
    return State(y, y.copy(), y.copy(), np.array(refs, np.int64, order="C"), 0)


def advance(
    bases: Sequence[kernels.Basis],
    state: State,
    counts: np.ndarray,
    thetas: np.ndarray,
    dt: float,
    tableau: np.ndarray,
    layer: float,
    low: np.ndarray,
    high: np.ndarray,
    shakes: np.ndarray,
    kept: int | None = None,
) -> tuple[State, Saved]:
    """Before each save take ``counts`` steps, then read the state at the fraction ``thetas`` of the last one.

    Parameters
    ----------
    bases : sequence of Basis
        One per member; members may share one.
    state : State
        Its arrays are overwritten.
    counts, thetas : arrays (m,)
    dt : float
    tableau : array (stages + 1, stages)
        An explicit Runge-Kutta scheme: a, and b in the last row.
    layer : float
        0, or the strength of the discrete layers taken in place of steps (whose tableau is Euler's).
    low, high : arrays of int (n,)
        Token i sees the tokens low[i] <= j < high[i].
    shakes : array (B,)
        Relative size of the noise put on a member's digits at every choice of references; 0 for none.
    kept : int, optional
        Of how many members, from the first on, states are saved; of copies zeta will do. By default of all.
    """
    B, n, d = state.now.shape
    kept = B if kept is None else kept
    counts, m = np.ascontiguousarray(counts, np.int64), len(counts)
    steps = (state.k, counts, np.ascontiguousarray(thetas, np.float64), float(dt))
    tableau = np.ascontiguousarray(tableau, np.float64)
    low, high = (np.ascontiguousarray(a, np.int64) for a in (low, high))
    y, refs, zeta = np.empty((kept, m, n, d)), np.empty((B, m, n), np.int64), np.empty((B, m, n, d))

    def one(b: int) -> None:
        own = (state.before[b], state.after[b], state.now[b], state.refs[b])
        every = kernels.refer_every(bases[b].top, dt)
        scheme = (every, tableau, float(layer), low, high, float(shakes[b]))
        states = y[b] if b < kept else zeta[b]  # states that nobody wants are overwritten by zeta
        run(bases[b], kernels.room(n, d), *own, *steps, *scheme, states, refs[b], zeta[b])

    share(one, B)
    return state._replace(k=state.k + int(counts.sum())), Saved(*(a.swapaxes(0, 1) for a in (y, refs[:kept], zeta)))


def basis(chart: Chart) -> kernels.Basis:
    """The chart's numbers as the kernels want them."""
    G = np.array(chart.G, np.float64)
    d = len(G)
    turned_round = np.zeros((-(-d // kernels.WIDTH) * kernels.WIDTH, d))
    turned_round[:d] = G.T
    plain = not (G - np.diag(np.diagonal(G))).any()
    turning = (np.zeros(d), np.zeros(d), np.arange(d)) if chart.turn is None else (chart.b, chart.turn, chart.partner)
    b, turn, partner = (np.array(a) for a in turning)  # kernels are compiled for arrays that can be written
    pairs = np.flatnonzero(partner != np.arange(d))
    a, grow = np.array(chart.a), np.array(chart.grow)
    scale = np.array(np.diagonal(G)) if plain else np.ones(d)
    return kernels.Basis(
        turned_round, plain, scale, a, b, grow, turn, partner.astype(np.int64), pairs, float(chart.top)
    )


def tokens(zeta: np.ndarray, S: np.ndarray) -> np.ndarray:
    """z = S zeta, (m, ..., n, d); not finite where zeta has left the range of floats."""
    out = np.empty(zeta.shape)
    turned = np.ascontiguousarray(np.swapaxes(S, -1, -2))  # BLAS takes half the time for it

    def some(part: int) -> None:
        rows = slice(*cuts[part])
        with np.errstate(invalid="ignore", over="ignore"):
            quiet_product(zeta[rows], turned, out[rows])

    cuts = pieces(len(zeta), cores() if zeta.size > _SHARED else 1)
    share(some, len(cuts))
    return out
