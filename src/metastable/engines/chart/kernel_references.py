"""Which token each token of a rescaled run is held relative to, by kernels: `references.refer` beside this."""

import math
from typing import Any

from metastable.engines.chart.basis import CAP
from metastable.engines.chart.kernels import PANEL, WIDTH, factors, gaps, scores, turned
from metastable.engines.simd.loads import every, load, store
from metastable.engines.simd.vectors import fill, fma, inner, larger, reaches, total

_NEAR = 0.25  # a token joins a reference within this relative distance
_CHECKED = 8  # coordinates between two looks at whether any token of a panel can still be near


@inner
def choose(basis: Any, t: float, y: Any, refs: Any, offsets: int, low: Any, high: Any, room: Any) -> bool:
    """room.best = the references `references.refer` would choose; returns whether any is new."""
    n, d = y.shape
    W, X, T, row, square, held, best = room.W, room.X, room.T, room.row, room.square, room.held, room.best
    shift = min(0.0, CAP - basis.top * t)
    factors(basis, 0.0, 0.0, 0.0, False, room.near)
    factors(basis, t, 0.0, shift, False, room.far)
    turned(room.far, room.near, basis.partner, basis.pairs, y, refs, W)
    if offsets == 0 and not _most_held(d, W, X, square, row, held, best):
        return False  # no two tokens are near each other, whatever is attended to
    for i in range(n):
        held[i] = 0
    for i0 in range(0, n, PANEL):
        scores(basis, math.exp(shift), refs, i0, 0, W, X, room.Q, T)
        gaps(refs, room.order, offsets, low, high, i0, T, row)
        for lane in range(min(PANEL, n - i0)):
            j = 0
            while j < n - 1 and T[j, lane] != row[0, lane]:
                j += 1
            held[j] += 1
    for k in range(offsets):
        i = room.order[k]
        for c in range(d):
            W[i, c] = W[refs[i], c] + math.exp(shift) * W[i, c]  # all tokens as they are
    _most_held(d, W, X, square, row, held, best)
    new = False
    for i in range(n):
        j = best[i]
        while best[j] != j:  # ties go to the lower index, so chains never close
            j = best[j]
        best[i] = j
        new = new or j != refs[i]
    return new


@inner
def _most_held(d: int, W: Any, X: Any, square: Any, row: Any, held: Any, best: Any) -> bool:
    """best: the most attended token within a relative distance of `_NEAR`; returns whether any two are so near."""
    n, any_near = len(held), False
    for i in range(n):
        whole, squares = d // WIDTH * WIDTH, fill(W, 0.0)
        for c in range(0, whole, WIDTH):
            squares = fma(load(W, i, c), load(W, i, c), squares)
        best[i], square[i] = i, total(squares)
        for c in range(whole, d):
            square[i] += W[i, c] * W[i, c]
    for i0 in range(0, n, PANEL):
        for lane in range(PANEL):
            i = min(i0 + lane, n - 1)
            row[0, lane], row[2, lane] = square[i], held[i]  # row 2: the most attention held by any token near so far
            for c in range(d):
                X[c, lane] = W[i, c]
        first, second = load(row, 0, 0), load(row, 0, WIDTH)
        for j in range(n):
            other, part, zero = fill(X, square[j]), fill(X, _NEAR * _NEAR), fill(X, 0.0)
            left, right = part * (first + other - larger(first, other)), part * (second + other - larger(second, other))
            for c in range(d - 1, -1, -1):  # symmetric V: its largest eigenvalues, which tell tokens apart, come last
                at = every(W, j, c)
                apart, beyond = load(X, c, 0) - at, load(X, c, WIDTH) - at
                left, right = left - apart * apart, right - beyond * beyond
                if c % _CHECKED == 0 and total(reaches(left, zero) + reaches(right, zero)) == 0.0:
                    break
            if total(reaches(left, zero) + reaches(right, zero)) > 0.0:
                store(row, 1, 0, left)
                store(row, 1, WIDTH, right)
                for i in range(i0, min(i0 + PANEL, n)):
                    if row[1, i - i0] >= 0.0 and i != j:
                        any_near = True
                        if held[j] > row[2, i - i0] or (held[j] == row[2, i - i0] and j < best[i]):
                            row[2, i - i0], best[i] = held[j], j
    return any_near
