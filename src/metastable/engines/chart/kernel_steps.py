"""Fixed steps of one copy of a rescaled run in its chart, by kernels: `metastable.engines.chart.steps.advance_fixed`."""

from typing import Any

import numpy as np

from metastable.engines.chart import kernel_references as references
from metastable.engines.chart import kernels
from metastable.engines.simd.vectors import inner, kernel


@kernel
def run(
    basis: Any, room: Any, before: Any, after: Any, now: Any, refs: Any, k: int, counts: Any, thetas: Any, dt: float,
    every: int, tableau: Any, layer: float, causal: bool, shaken: bool, y_out: Any, refs_out: Any, zeta_out: Any,
    seen: Any,
) -> None:  # fmt: skip
    """All steps of one copy of a run. Only the copy that is not shaken leaves its states."""
    offsets = kernels.sort_out(refs, room.order)
    marks, stages = len(counts), tableau.shape[1]
    for m in range(len(counts)):
        for _ in range(counts[m]):
            t = k * dt
            if k % every == 0:
                _scaled_tokens(basis, t, now, refs, room, seen[marks])
                marks += 1
                if references.choose(basis, t, now, refs, offsets, causal, room):
                    _change(basis, t, now, refs, room)
                    offsets = kernels.sort_out(refs, room.order)
                if shaken:
                    _shake(now, k)
            _ahead(now, 0.0, now, before)
            _ahead(now, 0.0, now, after)
            for u in range(stages):
                stage = room.stage if u > 0 else before
                kernels.slope(basis, t + dt * tableau[0, u], t, layer, stage, refs, offsets, causal, room)
                further = dt * tableau[0, u + 1] if u + 1 < stages else 0.0
                _moved(before, further, dt * tableau[1, u], room.slope, room.stage, after)
            if layer > 0.0:
                _ahead(after, 0.0, after, before)
                _ahead(after, 0.0, after, now)
            else:
                _thaw(basis, dt, after, refs, room, now)
            k += 1
        state, theta = now, thetas[m]
        if theta < 1.0 and layer == 0.0:
            t, bend = (k - 1) * dt, theta * (theta - 1.0)  # as `metastable.solve.steps.hermite`
            kernels.slope(basis, t, t, 0.0, before, refs, offsets, causal, room)
            _between(before, after, theta + bend * (1.0 - 2.0 * theta), room.stage)
            _ahead(room.stage, bend * (theta - 1.0) * dt, room.slope, room.stage)
            kernels.slope(basis, t + dt, t, 0.0, after, refs, offsets, causal, room)
            _ahead(room.stage, bend * theta * dt, room.slope, room.stage)
            _thaw(basis, theta * dt, room.stage, refs, room, room.s)
            state = room.s
        t = (k - 1 + theta) * dt
        _scaled_tokens(basis, t, state, refs, room, seen[m])
        if not shaken:
            for i in range(len(refs)):
                refs_out[m, i] = refs[i]
            _ahead(state, 0.0, state, y_out[m])
            _coordinates(basis, t, seen[m], refs, room, zeta_out[m])


@inner
def _ahead(y: Any, h: float, slope: Any, out: Any) -> None:
    """out = y + h slope, or y itself for h = 0."""
    for i in range(y.shape[0]):
        for c in range(y.shape[1]):
            out[i, c] = y[i, c] + h * slope[i, c] if h != 0.0 else y[i, c]


@inner
def _moved(y: Any, further: float, part: float, slope: Any, stage: Any, out: Any) -> None:
    """What a stage of a step brings: the next stage y + further slope, and part slope added to ``out``."""
    for i in range(y.shape[0]):
        for c in range(y.shape[1]):
            out[i, c] += part * slope[i, c]
            stage[i, c] = y[i, c] + further * slope[i, c]


@inner
def _between(x0: Any, x1: Any, part: float, out: Any) -> None:
    for i in range(x0.shape[0]):
        for c in range(x0.shape[1]):
            out[i, c] = x0[i, c] + part * (x1[i, c] - x0[i, c])


@inner
def _thaw(basis: Any, h: float, w: Any, refs: Any, room: Any, out: Any) -> None:
    """`rescaled.thaw`: the state after a time h of a state that is held in the scale of its start."""
    kernels.factors(basis, h, h, 0.0, False, room.near)
    kernels.factors(basis, 0.0, h, 0.0, False, room.far)
    kernels.turned(room.far, room.near, basis.partner, basis.pairs, w, refs, out)


@inner
def _scaled_tokens(basis: Any, t: float, y: Any, refs: Any, room: Any, zeta: Any) -> None:
    """`rescaled.scaled_tokens`: zeta, still unscaled in contracting directions."""
    kernels.factors(basis, -t, 0.0, 0.0, False, room.near)
    kernels.factors(basis, 0.0, 0.0, 0.0, False, room.far)
    kernels.turned(room.far, room.near, basis.partner, basis.pairs, y, refs, zeta)
    for i in range(len(refs)):
        if refs[i] != i:
            for c in range(y.shape[1]):
                zeta[i, c] += y[refs[i], c]


@inner
def _coordinates(basis: Any, t: float, zeta: Any, refs: Any, room: Any, out: Any) -> None:
    """`rescaled.rescaled_coordinates` of scaled tokens."""
    kernels.factors(basis, 0.0, -t, 0.0, False, room.near)
    kernels.turned(room.near, room.near, basis.partner, basis.pairs, zeta, refs, out)
    for i in range(zeta.shape[0]):
        for c in range(zeta.shape[1]):
            if -basis.grow[c] * t > 700.0 and zeta[i, c] != 0.0:
                out[i, c] = np.inf


@inner
def _change(basis: Any, t: float, y: Any, refs: Any, room: Any) -> None:
    """`rescaled.change`: y relative to the references room.best, which become ``refs``."""
    n, d = y.shape
    best, old, turned = room.best, room.stage, room.slope
    _ahead(y, 0.0, y, old)
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
def _shake(y: Any, k: int) -> None:
    """Two roundings of relative noise, with the signs of a hash of place and step number."""
    n, d = y.shape
    start = np.uint64(k + 1) * np.uint64(0xC2B2AE3D27D4EB4F)
    for i in range(n):
        for c in range(d):
            h = np.uint64(i * d + c + 1) * np.uint64(0x9E3779B97F4A7C15) + start
            h = (h ^ (h >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
            sign = 1.0 if h >> np.uint64(63) else -1.0
            y[i, c] *= 1.0 + sign * 2.0 * 2.220446049250313e-16


@kernel
def parted(seen: Any, out: Any) -> None:
    """`rescaled.disagreement` of two copies' scaled tokens, seen (2, m, n, d)."""
    _, m, n, d = seen.shape
    size, gap = np.empty(d), np.empty(d)
    for k in range(m):
        for c in range(d):
            size[c], gap[c] = 0.0, 0.0
        for i in range(n):
            for c in range(d):
                one, two = seen[0, k, i, c], seen[1, k, i, c]
                size[c] = max(size[c], abs(one))
                apart = abs(one - two)
                gap[c] = max(gap[c], apart) if apart < np.inf else np.inf
        out[k] = 0.0
        for c in range(d):
            apart = gap[c] / size[c] if size[c] > 0.0 else gap[c]
            out[k] = max(out[k], apart) if apart < np.inf else np.inf
