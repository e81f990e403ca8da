"""Fixed steps of a rescaled run in its chart, by kernels: `metastable.engines.chart.steps.advance_fixed`."""

from typing import Any

import numpy as np

from metastable.engines.chart import kernel_references as references
from metastable.engines.chart import kernels
from metastable.engines.chart.basis import CAP
from metastable.engines.simd.vectors import inner, kernel


@kernel
def run(
    basis: Any, room: Any, before: Any, after: Any, now: Any, refs: Any, k: int, counts: Any, thetas: Any, dt: float,
    every: int, tableau: Any, layer: float, low: Any, high: Any, shake: float, y_out: Any, refs_out: Any, zeta_out: Any,
) -> None:  # fmt: skip
    """All steps of one run from step k on; references are chosen anew, and digits shaken, ``every`` so many steps."""
    offsets = kernels.sort_out(refs, room.order)
    stages = tableau.shape[1]
    slopes = np.empty((stages, *now.shape))
    for m in range(len(counts)):
        for _ in range(counts[m]):
            t = k * dt
            if k % every == 0:
                if references.choose(basis, t, now, refs, offsets, low, high, room):
                    _change(basis, t, now, refs, room)
                    offsets = kernels.sort_out(refs, room.order)
                if shake != 0.0:
                    _shake(now, k, shake)
            _copy(now, before)
            for u in range(stages):
                node = 0.0
                for v in range(u):
                    node += tableau[u, v]
                if u > 0:
                    _ahead(before, tableau[u], u, dt, slopes, room.stage)
                stage = room.stage if u > 0 else before
                kernels.slope(basis, t + dt * node, t, layer, stage, refs, offsets, low, high, room, slopes[u])
            _ahead(before, tableau[stages], stages, dt, slopes, after)
            if layer > 0.0:
                _copy(after, before)
                _copy(after, now)
            else:
                _thaw(basis, dt, after, refs, room, now)
            k += 1
        state, theta = now, thetas[m]
        if theta < 1.0 and layer == 0.0:
            t, bend = (k - 1) * dt, theta * (theta - 1.0)  # as `metastable.solve.stepping.hermite`
            kernels.slope(basis, t, t, 0.0, before, refs, offsets, low, high, room, slopes[0])
            _between(before, after, theta + bend * (1.0 - 2.0 * theta), room.stage)
            _add(room.stage, bend * (theta - 1.0) * dt, slopes[0])
            kernels.slope(basis, t + dt, t, 0.0, after, refs, offsets, low, high, room, slopes[0])
            _add(room.stage, bend * theta * dt, slopes[0])
            _thaw(basis, theta * dt, room.stage, refs, room, room.s)
            state = room.s
        t = (k - 1 + theta) * dt
        for i in range(len(refs)):
            refs_out[m, i] = refs[i]
        _copy(state, y_out[m])
        _scaled_tokens(basis, t, state, refs, room, room.spare)
        _coordinates(basis, t, room.spare, refs, room, zeta_out[m])


@inner
def _copy(y: Any, out: Any) -> None:
    for i in range(y.shape[0]):
        for c in range(y.shape[1]):
            out[i, c] = y[i, c]


@inner
def _add(y: Any, h: float, slope: Any) -> None:
    """y += h slope."""
    for i in range(y.shape[0]):
        for c in range(y.shape[1]):
            y[i, c] += h * slope[i, c]


@inner
def _ahead(y: Any, row: Any, stages: int, h: float, slopes: Any, out: Any) -> None:
    """out = y + h sum_u row[u] slopes[u]: where the next stage begins, or the end of the step."""
    _copy(y, out)
    for u in range(stages):
        if row[u] != 0.0:
            _add(out, h * row[u], slopes[u])


@inner
def _between(x0: Any, x1: Any, part: float, out: Any) -> None:
    for i in range(x0.shape[0]):
        for c in range(x0.shape[1]):
            out[i, c] = x0[i, c] + part * (x1[i, c] - x0[i, c])


@inner
def _thaw(basis: Any, h: float, w: Any, refs: Any, room: Any, out: Any) -> None:
    """`state.thaw`: the state after a time h of a state that is held in the scale of its start."""
    kernels.factors(basis, h, h, 0.0, False, room.near)
    kernels.factors(basis, 0.0, h, 0.0, False, room.far)
    kernels.turned(room.far, room.near, basis.partner, basis.pairs, w, refs, out)


@inner
def _scaled_tokens(basis: Any, t: float, y: Any, refs: Any, room: Any, zeta: Any) -> None:
    """`state.scaled_tokens`: zeta, still unscaled in contracting directions."""
    kernels.factors(basis, -t, 0.0, 0.0, False, room.near)
    kernels.factors(basis, 0.0, 0.0, 0.0, False, room.far)
    kernels.turned(room.far, room.near, basis.partner, basis.pairs, y, refs, zeta)
    for i in range(len(refs)):
        if refs[i] != i:
            for c in range(y.shape[1]):
                zeta[i, c] += y[refs[i], c]


@inner
def _coordinates(basis: Any, t: float, zeta: Any, refs: Any, room: Any, out: Any) -> None:
    """`state.rescaled_coordinates` of scaled tokens."""
    kernels.factors(basis, 0.0, -t, 0.0, False, room.near)
    kernels.turned(room.near, room.near, basis.partner, basis.pairs, zeta, refs, out)
    for i in range(zeta.shape[0]):
        for c in range(zeta.shape[1]):
            if -basis.grow[c] * t > 2.0 * CAP and zeta[i, c] != 0.0:
                out[i, c] = np.inf


@inner
def _change(basis: Any, t: float, y: Any, refs: Any, room: Any) -> None:
    """`state.change`: y relative to the references room.best, which become ``refs``."""
    n, d = y.shape
    best, old, turned = room.best, room.stage, room.spare
    _copy(y, old)
    kernels.factors(basis, -t, 0.0, 0.0, False, room.near)
    kernels.turned(room.near, room.near, basis.partner, basis.pairs, old, refs, turned)
    for i in range(n):
        for c in range(d):
            if best[i] != i:  # what lies between the two references
                y[i, c] = old[refs[i], c] - old[refs[best[i]], c]
            elif refs[i] != i:
                y[i, c] = old[refs[i], c] + turned[i, c]
    kernels.factors(basis, t, 0.0, 0.0, False, room.near)
    kernels.turned(room.near, room.near, basis.partner, basis.pairs, y, refs, turned)
    for i in range(n):
        new, mine = best[i], refs[i]
        theirs = refs[new]
        for c in range(d):
            if new != i:
                offset = (turned[i, c] if mine != theirs else 0.0) + (old[i, c] if mine != i else 0.0)
                y[i, c] = offset - (old[new, c] if theirs != new else 0.0)
    for i in range(n):
        refs[i] = best[i]


@inner
def _shake(y: Any, k: int, size: float) -> None:
    """Relative noise of the given size, its signs those of a hash of place, step number and the number itself.

    So two shaken runs that differ at all are shaken differently, whatever else is in the ensemble.
    """
    n, d = y.shape
    start = np.uint64(k + 1) * np.uint64(0xC2B2AE3D27D4EB4F)
    bits = y.view(np.uint64)
    for i in range(n):
        for c in range(d):
            h = np.uint64(i * d + c + 1) * np.uint64(0x9E3779B97F4A7C15) + start
            h = (h ^ bits[i, c]) * np.uint64(0xFF51AFD7ED558CCD)
            h = (h ^ (h >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
            y[i, c] *= 1.0 + (size if h >> np.uint64(63) else -size)
