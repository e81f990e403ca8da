"""Velocities of the rescaled flow in its chart, by kernels; `metastable.engines.chart.state` derives them.

Sixteen queries go side by side in vector lanes, a *panel*. Let w_j be e^{top t} c_j for a reference and eta_j for a
token with an offset. One product T_ij = <e^{top t} x_i G, w_j> then holds everything a row of scores needs:

    score_ij - score_i,ref(i) = (T_i,ref(j) - T_i,ref(i)) + (T_ij if j has an offset)

where the bracket is exactly 0 for tokens of one reference. The sum over tokens is one product as well: a reference
carries the weight of all that follow it, and that of the query itself the opposite of all the others' weight.
Every score is rounded once and kept, so that its row's maximum is one of them to the last bit. Where G is diagonal and
no token has an offset T is symmetric, and what one panel computes the later ones need not.

Few functions with few arguments, and none that the kernels reach on several ways: compiling takes seconds as it is.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from metastable.engines.chart.basis import CAP
from metastable.engines.simd.exponential import LOG2E, exp2
from metastable.engines.simd.loads import load, store
from metastable.engines.simd.packing import blocks
from metastable.engines.simd.products import HEIGHT, VECTORS, multiply, multiply_add
from metastable.engines.simd.vectors import between, fill, inner, larger, magnitude, top

WIDTH = 8  # lanes of a vector of float64
PANEL = VECTORS * WIDTH  # queries side by side
_DEEP = 128  # tokens that are summed at once, or not at all: with a panel's scores 16 KB, half of a first cache
_MIRRORED = 512  # tokens up to which all of T is kept, to use that it is symmetric: 2 MB, a second cache


class Basis(NamedTuple):
    """The numbers of a `Chart` of V; see there. G is turned round and padded to whole blocks of rows."""

    G: np.ndarray  # (d padded, d): row c holds column c of G
    plain: bool  # G has nothing beside its diagonal
    scale: np.ndarray  # (d,): this diagonal, or ones
    a: np.ndarray
    b: np.ndarray
    grow: np.ndarray
    turn: np.ndarray
    partner: np.ndarray
    pairs: np.ndarray  # the directions of complex pairs, whose partner is another direction
    top: float


def refer_every(top: float, dt: float) -> int:
    """Steps between two choices of references: a quarter of the time in which the fastest direction grows e-fold."""
    return max(1, int(0.25 / max(top * dt, 1e-3)))


class Room(NamedTuple):
    """Arrays to work in, of one run."""

    near: np.ndarray  # (2, d): factors of directions (see `factors`) for tokens with offsets
    far: np.ndarray  # (2, d): and for references
    W: np.ndarray  # (n padded, d): w
    Wt: np.ndarray  # (blocks of tokens * d padded, _DEEP): the same turned round, block by block
    X: np.ndarray  # (d padded, 16): the tokens of a panel in units of e^{top t}
    Q: np.ndarray  # (d padded, 16): their queries, then sums
    T: np.ndarray  # (n padded, 16) for every panel, or for one: scores, then weights
    row: np.ndarray  # (5, 16): numbers of every query; the last two say what it sees
    s: np.ndarray  # (n, d): s_i of `state.gathered`
    stage: np.ndarray  # (n, d)
    spare: np.ndarray  # (n, d)
    held: np.ndarray  # (n,): how many rows attend to a token most
    best: np.ndarray  # (n,): the most attended token near each
    order: np.ndarray  # (n,): tokens with offsets, then references
    square: np.ndarray  # (n,): squared lengths


def room(n: int, d: int) -> Room:
    deep, tall = (-(-size // WIDTH) * WIDTH for size in (d, n))  # whole blocks of a product, and whole vectors
    panels = -(-n // PANEL) if n <= _MIRRORED else 1
    small, turned_round, scores = (2, d), (-(-n // _DEEP) * deep, _DEEP), (tall * panels, PANEL)
    panel, tokens = (deep, PANEL), (n, d)
    floats = blocks([small, small, (tall, d), turned_round, panel, panel, scores, (5, PANEL), tokens, tokens, tokens])
    held, best, order = np.zeros((3, n), np.int64)
    return Room._make([*floats, held, best, order, np.zeros(n)])


# --- maps of the chart ------------------------------------------------------------------------------------------


@inner
def factors(basis: Any, up: float, down: float, shift: float, led: bool, out: Any) -> None:
    """e^{tau L + shift}, tau = ``down`` where V contracts and ``up`` elsewhere, capped as `flow` is; ``led``: times L.

    Row 0 multiplies a direction itself and row 1 its partner: a complex number's real and imaginary part.
    """
    for c in range(len(basis.grow)):
        tau = down if basis.grow[c] < 0.0 else up
        along, across = math.exp(min(basis.grow[c] * tau + shift, 2.0 * CAP)), 0.0
        if basis.turn[c] != 0.0:
            along, across = along * math.cos(basis.turn[c] * tau), along * math.sin(basis.turn[c] * tau)
        if led:
            a, b = basis.a[c], basis.b[c]
            along, across = a * along - b * across, a * across + b * along
        out[0, c], out[1, c] = along, across


@inner
def turned(far: Any, near: Any, partner: Any, pairs: Any, y: Any, refs: Any, out: Any) -> None:
    """out = y times factors: ``far`` for references, ``near`` for others."""
    for i in range(len(refs)):
        F = far if refs[i] == i else near
        for c in range(y.shape[1]):
            out[i, c] = F[0, c] * y[i, c]
        for k in range(len(pairs)):
            c = pairs[k]
            out[i, c] += F[1, c] * y[i, partner[c]]


@inner
def sort_out(refs: Any, order: Any) -> int:
    """List tokens with offsets, then references; returns how many have offsets."""
    offsets = 0
    for i in range(len(refs)):
        if refs[i] != i:
            order[offsets] = i
            offsets += 1
    roots = offsets
    for i in range(len(refs)):
        if refs[i] == i:
            order[roots] = i
            roots += 1
    return offsets


# --- attention --------------------------------------------------------------------------------------------------


@inner
def scores(basis: Any, cap: float, refs: Any, i0: int, first: int, W: Any, X: Any, Q: Any, T: Any) -> None:
    """Q and T of the tokens i0 to i0 + 16, T from token ``first`` on; the last token fills up the last panel."""
    n, d = len(refs), len(basis.grow)
    out = Q if basis.plain else X
    for lane in range(PANEL):
        i = min(i0 + lane, n - 1)
        r = refs[i]
        also = cap if r != i else 0.0
        for c in range(d):
            out[c, lane] = (W[r, c] + also * W[i, c]) * basis.scale[c]
    if not basis.plain:
        for c in range(0, d, HEIGHT):
            multiply(basis.G, c, d, X, 0, Q, c, 0)
    for j in range(first, n, HEIGHT):
        multiply(W, j, d, Q, 0, T, j, 0)


@inner
def _mirror(n: int, tall: int, i0: int, T: Any) -> None:
    """What the panel of token i0 has computed, turned round for all later panels."""
    mine = T[i0 // PANEL * tall :]
    for j0 in range(i0 + PANEL, n, PANEL):
        theirs = T[j0 // PANEL * tall :]
        for u in range(PANEL):
            for lane in range(PANEL):
                theirs[i0 + u, lane] = mine[min(j0 + lane, n - 1), u]


@inner
def gaps(refs: Any, order: Any, offsets: int, low: Any, high: Any, i0: int, T: Any, row: Any) -> None:
    """T becomes score_ij - score_i,ref(i), -inf where hidden; row[0] gets the largest of each query."""
    n, first, end = len(refs), 0, len(refs)
    for lane in range(PANEL):
        i = min(i0 + lane, n - 1)
        row[0, lane], row[3, lane], row[4, lane] = T[refs[i], lane], low[i], high[i]
        first, end = max(first, low[i]), min(end, high[i])
    for lane in range(0, PANEL, WIDTH):
        mine, most, left, right = load(row, 0, lane), fill(T, -np.inf), load(row, 3, lane), load(row, 4, lane)
        for k in range(n):  # references come last: until then their scores are still there
            j = order[k]
            gap = load(T, refs[j], lane) - mine
            if k < offsets:
                gap = gap + load(T, j, lane)
            if j < first or j >= end:  # not every query of the panel sees token j
                gap = between(gap, fill(gap, float(j)), left, right, -np.inf)
            store(T, j, lane, gap)
            most = larger(gap, most)
        store(row, 0, lane, most)


@inner
def _weigh(refs: Any, order: Any, offsets: int, i0: int, T: Any, row: Any) -> None:
    """T becomes what each w_j is multiplied by, and row[1] the sum of each query's weights."""
    n = len(refs)
    for lane in range(0, PANEL, WIDTH):
        most = load(row, 0, lane)
        z = most - most  # 0, or nan for scores that are not finite
        for j in range(n):
            weight = exp2((load(T, j, lane) - most) * fill(most, LOG2E))
            store(T, j, lane, weight)
            z = z + weight
        store(row, 1, lane, z)
        for k in range(offsets):
            j = order[k]
            store(T, refs[j], lane, load(T, refs[j], lane) + load(T, j, lane))
    for lane in range(PANEL):
        T[refs[min(i0 + lane, n - 1)], lane] = 0.0
    for lane in range(0, PANEL, WIDTH):
        others = fill(T, 0.0)
        for k in range(offsets, n):
            others = others + load(T, order[k], lane)
        store(row, 2, lane, others)
    for lane in range(PANEL):
        T[refs[min(i0 + lane, n - 1)], lane] = -row[2, lane]


@inner
def _turn_round(n: int, d: int, W: Any, deep: int, Wt: Any) -> None:
    """Wt of W, a few tokens at a time so that both stay in the cache."""
    for j in range(0, n, WIDTH):
        row, column = j // _DEEP * deep, j % _DEEP
        for c in range(d):
            for u in range(WIDTH):  # rows beyond the last token are 0
                Wt[row + c, column + u] = W[j + u, c]


@inner
def _sums(n: int, d: int, Wt: Any, T: Any, row: Any, out: Any) -> None:
    """out[c] = sum_j T_j w_jc over the sum of weights, for each query of a panel."""
    deep = out.shape[0]
    for c in range(deep):
        for lane in range(0, PANEL, WIDTH):
            store(out, c, lane, fill(out, 0.0))
    for j0 in range(0, n, _DEEP):
        size = fill(T, 0.0)
        for j in range(j0, min(j0 + _DEEP, n)):
            for lane in range(0, PANEL, WIDTH):
                size = larger(magnitude(load(T, j, lane)), size)
        if top(size) > 0.0:  # saturated attention leaves most tokens without any weight
            for c in range(0, d, HEIGHT):
                multiply_add(Wt, j0 // _DEEP * deep + c, min(_DEEP, n - j0), T, j0, out, c, 0)
    for lane in range(0, PANEL, WIDTH):
        share = fill(out, 1.0) / load(row, 1, lane)
        for c in range(d):
            store(out, c, lane, load(out, c, lane) * share)


@inner
def slope(
    basis: Any, t: float, since: float, layer: float, w: Any, refs: Any, offsets: int, low: Any, high: Any, room: Any,
    out: Any,
) -> None:  # fmt: skip
    """out = w' at time t of a state in the scale of ``since`` (`state.frozen_velocity`).

    With a ``layer`` > 0 it is what a layer of that strength adds, divided by it (`steps.layers`).
    """
    n, d = w.shape
    near, far, s = room.near, room.far, room.s
    W, Q, T, row = room.W, room.Q, room.T, room.row
    tall, mirrored = len(W), basis.plain and offsets == 0 and n <= _MIRRORED
    shift = min(0.0, CAP - basis.top * t)
    factors(basis, t - since, t - since, 0.0, False, near)
    factors(basis, t, t - since, shift, False, far)
    turned(far, near, basis.partner, basis.pairs, w, refs, W)
    _turn_round(n, d, W, len(Q), room.Wt)
    for i0 in range(0, n, PANEL):
        if mirrored:
            T = room.T[i0 // PANEL * tall :]
        scores(basis, math.exp(shift), refs, i0, i0 if mirrored else 0, W, room.X, Q, T)
        if mirrored:
            _mirror(n, tall, i0, room.T)
        gaps(refs, room.order, offsets, low, high, i0, T, row)
        _weigh(refs, room.order, offsets, i0, T, row)
        _sums(n, d, room.Wt, T, row, Q)
        for lane in range(min(PANEL, n - i0)):
            for c in range(d):
                s[i0 + lane, c] = Q[c, lane]
    for k in range(offsets):
        j = room.order[k]
        for c in range(d):
            s[j, c] -= s[refs[j], c]
    if layer > 0.0:  # references that are held unscaled: a layer moves all of them
        for i in range(n):
            for c in range(d):
                if refs[i] == i and basis.grow[c] < 0.0:
                    s[i, c] += w[i, c]
    factors(basis, since - t, since - t, 0.0, True, near)
    factors(basis, -t - layer, since - t, 0.0, True, far)
    turned(far, near, basis.partner, basis.pairs, s, refs, out)
    if layer == 0.0 and offsets > 0:
        factors(basis, 0.0, 0.0, 0.0, True, near)
        turned(near, near, basis.partner, basis.pairs, w, refs, s)
        for k in range(offsets):
            j = room.order[k]
            for c in range(d):
                out[j, c] -= s[j, c]
