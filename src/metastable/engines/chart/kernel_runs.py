"""Fixed steps of the rescaled flow by kernels: the same steps as `metastable.engines.chart.steps`, for any number of runs.

The two copies of a run (see `metastable.engines.chart.state`) never look at each other while they run, so each is a task of its
own and they share the cores; how far they part is read off afterwards, from the tokens each left at every change of
references. Arrays here have the runs in front: (B, 2, n, d).
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from metastable.engines.chart import kernels
from metastable.engines.chart.basis import Chart, quiet_product
from metastable.engines.chart.kernel_steps import parted, run
from metastable.engines.chart.steps import TABLEAUS, refer_every
from metastable.engines.simd.products import HEIGHT
from metastable.engines.simd.threads import cores, pieces, share
from metastable.equation import masks, normalise

_WORTH_SHARING = 2**22  # multiplications from which a second thread is worth waking
_MOST_KEPT = 2**22  # numbers kept of each copy of all runs between two comparisons


def unsupported(dyn: Any, method: str, dtype: str) -> str | None:
    """Why the kernels cannot take these steps, in words that follow "because", or None."""
    if method not in ("euler", "rk4", "layers") or dtype != "float64":
        return f"the kernels of the rescaled flow take float64 steps of euler, rk4 or layers, not {dtype} of {method}"
    plain = normalise.resolve(dyn.normalise) is normalise.softmax and dyn.position is None
    if not plain or masks.resolve(dyn.mask) not in (None, masks.causal):
        return "the kernels of the rescaled flow know softmax attention, full or causal, without positions"
    return None


class Stand(NamedTuple):
    """Where runs stand, as `rescaled_steps.Stepped` with the runs in front."""

    before: np.ndarray  # (B, 2, n, d)
    after: np.ndarray
    now: np.ndarray
    refs: np.ndarray  # (B, 2, n)
    k: int
    worst: np.ndarray  # (B,)


class Saved(NamedTuple):
    """What a run leaves: states of its first copy, their references, zeta, and how far the copies were apart."""

    y: np.ndarray  # (m, B, n, d)
    refs: np.ndarray  # (m, B, n)
    zeta: np.ndarray  # (m, B, n, d)
    apart: np.ndarray  # (m, B)


class Ways(NamedTuple):
    """What all runs have in common."""

    dt: float
    method: str
    causal: bool


def standing(state: dict[str, Any], lead: tuple[int, ...]) -> Stand:
    """Where runs of shape ``lead`` stand, from arrays (2, ..., n, d) as a record keeps them."""
    arrays = (np.asarray(state[name]) for name in ("before", "after", "now", "refs"))
    own = (np.array(np.moveaxis(a.reshape(2, -1, *a.shape[1 + len(lead) :]), 0, 1), order="C") for a in arrays)
    before, after, now, refs = own
    worst = np.full(len(now), float(state["worst"]))
    return Stand(before, after, now, refs.astype(np.int64), int(state["k"]), worst)


def kept(stand: Stand, lead: tuple[int, ...]) -> dict[str, np.ndarray]:
    """The arrays of `standing`, copies in front again."""
    arrays = {name: np.moveaxis(getattr(stand, name), 1, 0) for name in ("before", "after", "now", "refs")}
    whole = {name: a.reshape(2, *lead, *a.shape[2:]).copy() for name, a in arrays.items()}
    return {**whole, "k": np.asarray(stand.k), "worst": stand.worst.max()}


def tokens(zeta: np.ndarray, S: np.ndarray) -> np.ndarray:
    """z = S zeta, (m, ..., n, d); not finite where zeta has left the range of floats."""
    out, turned = np.empty(zeta.shape), np.swapaxes(S, -1, -2)

    def some(part: int) -> None:
        rows = slice(*cuts[part])
        with np.errstate(invalid="ignore", over="ignore"):
            out[rows] = quiet_product(zeta[rows], turned)

    cuts = pieces(len(zeta), 1 if zeta.size * S.shape[-1] < _WORTH_SHARING else cores())
    share(some, len(cuts))
    return out


def basis(chart: Chart) -> kernels.Basis:
    """The chart's numbers as the kernels want them."""
    G = np.array(chart.G, np.float64)
    d = len(G)
    turned_round = np.zeros((-(-d // HEIGHT) * HEIGHT, d))
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


def advance(
    charts: Sequence[kernels.Basis], stand: Stand, counts: np.ndarray, thetas: np.ndarray, ways: Ways
) -> tuple[Stand, Saved]:
    """Before each save take ``counts`` steps, then read the state at the fraction ``thetas`` of the last one.

    There is one chart for all runs or one for each. Arrays of ``stand`` are overwritten.
    """
    parts = []
    B, _, n, d = stand.now.shape
    most = max(1, _MOST_KEPT // (B * n * d)) * min(refer_every(chart.top, ways.dt) for chart in charts)
    for rows in _sittings(counts, thetas, most):
        taken, at, kept = (np.array(column) for column in zip(*rows))
        stand, saved = _sit(charts, stand, taken, at.astype(np.float64), ways)
        parts.append(saved if kept.all() else Saved(*(a[kept] for a in saved)))
    return stand, parts[0] if len(parts) == 1 else Saved(*(np.concatenate(arrays) for arrays in zip(*parts)))


def _sittings(counts: np.ndarray, thetas: np.ndarray, most: int) -> Iterator[list[tuple[int, float, bool]]]:
    """Rows (steps, fraction, whether the save was asked for) in groups of at most ``most`` steps and saves."""
    rows: list[tuple[int, float, bool]] = []
    left = most
    for count, theta in zip(counts.tolist(), thetas.tolist()):
        while count > left:
            yield [*rows, (left, 1.0, False)]
            count, rows, left = count - left, [], most
        rows.append((count, theta, True))
        left -= count
        if len(rows) >= most:
            yield rows
            rows, left = [], most
    if rows:
        yield rows


def _sit(
    charts: Sequence[kernels.Basis], stand: Stand, counts: np.ndarray, thetas: np.ndarray, ways: Ways
) -> tuple[Stand, Saved]:
    B, _, n, d = stand.now.shape
    steps, m = stand.k + np.cumsum(counts), len(counts)
    y, refs, zeta = np.empty((B, m, n, d)), np.empty((B, m, n), np.int64), np.empty((B, m, n, d))
    layer = ways.dt if ways.method == "layers" else 0.0
    tableau = np.array(TABLEAUS["euler" if layer else ways.method])
    plan = (stand.k, counts.astype(np.int64), thetas, ways.dt)
    every = [refer_every(chart.top, ways.dt) for chart in charts]
    marked = [-(-steps // e) - -(-stand.k // e) for e in every]  # choices of references before each save
    # scaled tokens of both copies at every save, then at every choice of references
    seen = [np.empty((2, m + int(marked[b % len(charts)][-1]), n, d)) for b in range(B)]

    def one(p: int) -> None:
        b, copy = divmod(p, 2)
        own = (stand.before[b, copy], stand.after[b, copy], stand.now[b, copy], stand.refs[b, copy])
        out, chart = (y[b], refs[b], zeta[b], seen[b][copy]), b % len(charts)
        run(charts[chart], kernels.room(n, d), *own, *plan, every[chart], tableau, layer, ways.causal, copy == 1, *out)

    share(one, 2 * B)
    apart, worst = np.empty((m, B)), np.empty(B)
    for b in range(B):
        found = np.empty(len(seen[b][0]))
        parted(seen[b], found)
        so_far = np.maximum.accumulate(np.append(stand.worst[b], found[m:]))
        apart[:, b], worst[b] = np.maximum(so_far[marked[b % len(charts)]], found[:m]), so_far[-1]
    saved = Saved(y.swapaxes(0, 1), refs.swapaxes(0, 1), zeta.swapaxes(0, 1), apart)
    return stand._replace(k=int(steps[-1]), worst=worst), saved
