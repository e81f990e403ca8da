"""Steps of small systems in the lanes of a vector, by kernels; `batch` says how their arrays are laid out."""

from typing import Any

import numpy as np

from metastable.engines.simd.exponential import exp2
from metastable.engines.simd.loads import lane, put, row
from metastable.engines.simd.packing import aligned
from metastable.engines.simd.vectors import between, fill, fma, inlined, inner, kernel, larger, root

LANES = 8  # float64 in a vector


def room_for(n: int, keys: int, d: int, stages: int) -> np.ndarray:
    """Room to work in for n rows: stage, closing slopes, unit tokens, slopes of all stages, a query, its weights.

    Aligned: a vector that straddles two cache lines takes twice as long.
    """
    return aligned(((3 + stages) * n * d + 2 * d + keys, LANES), np.float64)


@kernel
def run_group(
    A: Any, V: Any, before: Any, x: Any, counts: Any, thetas: Any, dt: float, tableau: Any, spans: Any, bounds: Any,
    n: int, keys: Any, d: int, heads: int, sphere: bool, tangent: bool, room: Any, out: Any
) -> None:  # fmt: skip
    """All steps of one group; ``before`` and ``x`` (n d, 8) are overwritten, ``out`` (m n d, 8) gets the saves.

    ``room`` (see `room_for`) is to work in.
    ``keys`` is None where lanes are runs, and the number of tokens where the lanes of n rows are tokens of one run.
    """
    rows, stages = n * d, tableau.shape[1]
    stage, closing, unit = room[:rows], room[rows : 2 * rows], room[2 * rows : 3 * rows]
    slopes = room[3 * rows :]  # of all stages; those of the first stage also open a step's interpolant
    query = room[(3 + stages) * rows :]
    weights = room[(3 + stages) * rows + 2 * d :]
    known = False  # whether the first slopes are the velocity at ``before``
    for m in range(len(counts)):
        for _ in range(counts[m]):
            for r in range(rows):
                put(before, r, row(x, r))
            for k in range(stages):
                if k > 0:
                    _ahead(before, tableau, k, dt, slopes, rows, stage)
                _field(
                    A, V, before if k == 0 else stage, n, keys, d, heads, spans, bounds, tangent, unit, weights, query,
                    slopes[k * rows : (k + 1) * rows],
                )  # fmt: skip
            _ahead(before, tableau, stages, dt, slopes, rows, x)
            if sphere:
                _to_unit(x, n, d, x)
            known = True
        theta = thetas[m]
        if theta < 1.0 and not known:
            _field(A, V, before, n, keys, d, heads, spans, bounds, tangent, unit, weights, query, slopes[:rows])
            known = True
        if theta < 1.0:
            _field(A, V, x, n, keys, d, heads, spans, bounds, tangent, unit, weights, query, closing)
            _hermite(theta, dt, before, slopes, x, closing, rows, stage)
            if sphere:
                _to_unit(stage, n, d, stage)
        for r in range(rows):
            put(out, m * rows + r, row(stage if theta < 1.0 else x, r))


@kernel
def to_tokens(rows: Any, d: int, run: int, out: Any) -> None:
    """The tokens of a run whose lanes are tokens, ``rows`` (m blocks d, 8), into ``out[:, run]`` of (m, B, n, d')."""
    m, _, n, given = out.shape
    blocks = -(-n // LANES)
    for k in range(m):
        for i in range(n):
            first = (k * blocks + i // LANES) * d
            for c in range(given):
                out[k, run, i, c] = rows[first + c, i % LANES]


@inlined
def _ahead(x: Any, tableau: Any, k: int, dt: float, slopes: Any, rows: int, out: Any) -> None:
    """out = x + dt sum_j tableau[k, j] slope_j: where stage k begins, or the end of the step."""
    first = True
    for j in range(min(k, tableau.shape[1])):
        if tableau[k, j] != 0.0:
            part = fill(x, tableau[k, j] * dt)
            for r in range(rows):
                sofar = fill(x, 0.0) if first else row(out, r)
                put(out, r, fma(part, row(slopes, j * rows + r), sofar))
            first = False
    for r in range(rows):
        put(out, r, row(x, r) if first else row(x, r) + row(out, r))


@inlined
def _hermite(theta: float, dt: float, x0: Any, v0: Any, x1: Any, v1: Any, rows: int, out: Any) -> None:
    """`metastable.solve.stepping.hermite`: the cubic through both ends of a step with their slopes."""
    s = theta - 1.0
    bend, left, right = theta * s * (1.0 - 2.0 * theta), theta * s * s * dt, theta * s * theta * dt
    for r in range(rows):
        a, b = row(x0, r), row(x1, r)
        moved = fma(fill(a, left), row(v0, r), fill(a, right) * row(v1, r))
        put(out, r, fma(fill(a, theta + bend), b - a, a) + moved)


@inlined
def _length(x: Any, i: int, d: int) -> Any:
    square = fill(x, 0.0)
    for c in range(d):
        v = row(x, i * d + c)
        square = fma(v, v, square)
    return root(square)


@inlined
def _to_unit(x: Any, n: int, d: int, out: Any) -> None:
    for i in range(n):
        size = _length(x, i, d)
        for c in range(d):
            put(out, i * d + c, row(x, i * d + c) / size)


@inner
def _field(
    A: Any, V: Any, x: Any, n: int, keys: Any, d: int, heads: int, spans: Any, bounds: Any, tangent: bool, unit: Any,
    weights: Any, query: Any, out: Any
) -> None:  # fmt: skip
    """The pull; or its tangent part, carried off the sphere by |x| f(x/|x|) as the geometry's stage points are."""
    if tangent:
        _to_unit(x, n, d, unit)
    else:
        for r in range(n * d):
            put(unit, r, row(x, r))
    for i in range(n):
        for c in range(d):
            put(out, i * d + c, fill(x, 0.0))
        for h in range(heads):
            _attend(A, unit, i, keys, spans, bounds, h, d, weights, query)
            for c in range(d):
                pulled = row(out, i * d + c)
                for e in range(d):
                    pulled = fma(row(V, (h * d + c) * d + e), row(query, d + e), pulled)
                put(out, i * d + c, pulled)
        if tangent:
            along = fill(x, 0.0)
            for c in range(d):
                along = fma(row(out, i * d + c), row(unit, i * d + c), along)
            size = _length(x, i, d)
            for c in range(d):
                across = row(out, i * d + c) - along * row(unit, i * d + c)
                put(out, i * d + c, size * across)


@inlined
def _key(x: Any, j: int, c: int, d: int, keys: Any) -> Any:
    """Coordinate c of token j: of each run, or of the one run in all lanes."""
    if keys is None:
        return row(x, j * d + c)
    return lane(x, (j >> 3) * d + c, j & 7)


@inlined
def _hidden(s: Any, i: int, j: int, bounds: Any) -> Any:
    """The score s of token j, or -inf in the lanes of tokens that do not see it."""
    return between(s, fill(s, float(j)), row(bounds, 2 * i), row(bounds, 2 * i + 1), -np.inf)


@inlined
def _attend(
    A: Any, x: Any, i: int, keys: Any, spans: Any, bounds: Any, h: int, d: int, weights: Any, query: Any
) -> None:  # fmt: skip
    """query[d + c] = sum_j P_ij x_jc over the tokens j that row i sees; scores are in powers of two."""
    for c in range(d):
        q = fill(x, 0.0)
        for e in range(d):
            q = fma(row(x, i * d + e), row(A, (h * d + e) * d + c), q)
        put(query, c, q)
    if d == 3:  # the same with all coordinates in registers
        _gather_three(x, i, keys, spans, bounds, weights, query)
        return
    first, end, begin, stop = spans[i, 0], spans[i, 1], spans[i, 2], spans[i, 3]
    most = fill(x, -np.inf)
    for j in range(first, end):
        s = fill(x, 0.0)
        for c in range(d):
            s = fma(row(query, c), _key(x, j, c, d, keys), s)
        if keys is not None and (j < begin or j >= stop):
            s = _hidden(s, i, j, bounds)
        put(weights, j, s)
        most = larger(s, most)
    z = most - most  # 0, or nan for scores that are not finite
    for j in range(first, end):
        e = exp2(row(weights, j) - most)
        put(weights, j, e)
        z = z + e
    for c in range(d):
        gathered = fill(x, 0.0)
        for j in range(first, end):
            gathered = fma(row(weights, j), _key(x, j, c, d, keys), gathered)
        put(query, d + c, gathered / z)


@inlined
def _score_three(x: Any, j: int, keys: Any, q: Any, r: Any, s: Any) -> Any:
    return fma(s, _key(x, j, 2, 3, keys), fma(r, _key(x, j, 1, 3, keys), q * _key(x, j, 0, 3, keys)))


@inlined
def _gather_three(x: Any, i: int, keys: Any, spans: Any, bounds: Any, weights: Any, query: Any) -> None:
    if spans[i, 0] == 0 and spans[i, 2] == 0:  # a start that the compiler knows makes the loops a fifth quicker
        _gather_from(x, i, 0, 0, keys, spans, bounds, weights, query)
    else:
        _gather_from(x, i, spans[i, 0], spans[i, 2], keys, spans, bounds, weights, query)


@inlined
def _gather_from(
    x: Any, i: int, first: int, begin: int, keys: Any, spans: Any, bounds: Any, weights: Any, query: Any
) -> None:  # fmt: skip
    """Row i sees the tokens from ``first`` to ``end`` in some lanes, from ``begin`` to ``stop`` in all."""
    q, r, s = row(query, 0), row(query, 1), row(query, 2)
    end, stop = spans[i, 1], spans[i, 3]
    most = fill(x, -np.inf)
    whole = begin + (max(stop - begin, 0) & -LANES)
    for block in range(begin, whole, LANES):  # the keys of one row of vectors: their places are known when it compiles
        for j in range(block, block + LANES):
            y = _score_three(x, j, keys, q, r, s)
            put(weights, j, y)
            most = larger(y, most)
    for j in range(whole, stop):
        y = _score_three(x, j, keys, q, r, s)
        put(weights, j, y)
        most = larger(y, most)
    if keys is not None:
        for j in range(first, min(begin, end)):
            y = _hidden(_score_three(x, j, keys, q, r, s), i, j, bounds)
            put(weights, j, y)
            most = larger(y, most)
        for j in range(max(begin, stop), end):
            y = _hidden(_score_three(x, j, keys, q, r, s), i, j, bounds)
            put(weights, j, y)
            most = larger(y, most)
    z = most - most  # 0, or nan for scores that are not finite
    a, b, c = z, z, z
    for j in range(first, end):
        e = exp2(row(weights, j) - most)
        z = z + e
        a = fma(e, _key(x, j, 0, 3, keys), a)
        b = fma(e, _key(x, j, 1, 3, keys), b)
        c = fma(e, _key(x, j, 2, 3, keys), c)
    put(query, 3, a / z)
    put(query, 4, b / z)
    put(query, 5, c / z)
