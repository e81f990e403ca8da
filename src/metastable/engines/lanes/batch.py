"""Small systems in the lanes of a vector: eight runs side by side, each with its own weights and beta, or eight
tokens of one run.

All of a run stays in the first cache while its steps are taken, no sum crosses lanes, and the exponential costs what
the hardware allows; groups of eight runs are shared between the cores. What is computed is `metastable.solve.steps` with
`Dynamics.velocity`, for the plain case: softmax of dot scores, full or causal, R^d or the sphere, constant weights.

Arrays of a group are (rows, 8): tokens in rows i * d + c, matrices in rows (h * d + a) * d + b. Alone, a run has its
tokens 8 i to 8 i + 7 in the lanes of rows i * d + c, the last of them repeated. Either way every sum over tokens is
taken in their order, so a run has the same digits alone and among others.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from metastable.engines.simd.exponential import LOG2E, exp2
from metastable.engines.simd.threads import share
from metastable.engines.simd.vectors import every, fill, fma, inlined, inner, kernel, larger, load, root, store, within

LANES = 8
TABLEAUS = {  # per stage: how far along the step the next stage starts, and the weight of this one
    "euler": np.array([[0.0, 1.0]]),
    "layers": np.array([[0.0, 1.0]]),  # with the pull itself in place of its part along the sphere
    "rk4": np.array([[0.5, 1 / 6], [0.5, 1 / 3], [1.0, 1 / 3], [0.0, 1 / 6]]),
}


def maps(members: Sequence[Any], d: int, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """beta Q^T K and V of every run, (B, h, d, d) each; one member may stand for all runs."""
    A = np.stack([m.weights.score_map(0.0, d) for m in members])
    V = np.stack([m.weights.value_map(0.0, d) for m in members])
    same = len(members) == 1 and (beta == beta[0]).all()
    return (beta[:1] if same else beta)[:, None, None, None] * A, V


class Ways(NamedTuple):
    """What all runs have in common."""

    dt: float
    method: str
    mask: str
    geometry: str


def advance(
    A: np.ndarray, V: np.ndarray, ends: np.ndarray, counts: np.ndarray, thetas: np.ndarray, ways: Ways
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
    plan = (np.ascontiguousarray(counts, np.int64), np.ascontiguousarray(thetas, np.float64), ways.dt)
    saved, stand = np.empty((len(counts), B, n, given)), np.empty((2, B, n, given))
    sphere = ways.geometry == "sphere"
    kind = (d, heads, ways.mask == "causal", sphere, sphere and ways.method != "layers")

    def run(maps: list[np.ndarray], ends: list[np.ndarray], size: int, keys: int | None) -> list[Any]:
        (before, now), out = ends, np.empty((len(counts) * size * d, LANES))
        _run(*maps, before, now, *plan, TABLEAUS[ways.method], size, keys, *kind, out)
        made = ((saved, out), (stand[:1], before), (stand[1:], now))
        return [(kept, tokens.reshape(len(kept), size, d, LANES)[:, :, :given]) for kept, tokens in made]

    def group(g: int) -> None:
        first, last = g * LANES, min((g + 1) * LANES, B)
        runs = np.minimum(np.arange(first, first + LANES), B - 1)  # the last run fills up the last group
        maps = [_upright(a, runs, heads * d * d) for a in (A, V)]
        for kept, tokens in run(maps, [_upright(a, runs, n * d) for a in x], n, None):
            kept[:, first:last] = tokens[..., : last - first].transpose(0, 3, 1, 2)

    def alone(b: int) -> None:
        maps = [_upright(a, np.full(LANES, b), heads * d * d) for a in (A, V)]
        for kept, tokens in run(maps, [_across(a[b]) for a in x], blocks, n):
            kept[:, b] = tokens.transpose(0, 1, 3, 2).reshape(len(kept), -1, given)[:, :n]

    blocks = -(-n // LANES)
    few = B < LANES and B * blocks <= n  # fewer rows one by one than side by side
    share(alone if few else group, B if few else -(-B // LANES))
    return stand, saved


def _across(x: np.ndarray) -> np.ndarray:
    """Tokens (n, d) of one run with eight in the lanes of each row; the last fills up the last row."""
    n, d = x.shape
    order = np.minimum(np.arange(-(-n // LANES) * LANES), n - 1)
    return np.ascontiguousarray(x[order].reshape(-1, LANES, d).transpose(0, 2, 1)).reshape(-1, LANES)


def _upright(a: np.ndarray, runs: np.ndarray, rows: int) -> np.ndarray:
    """The arrays of some runs, (rows, LANES); one array may serve all runs."""
    chosen = a[np.zeros_like(runs) if len(a) == 1 else runs]
    return np.ascontiguousarray(chosen.reshape(len(runs), rows).T)


# --- kernels ----------------------------------------------------------------------------------------------------


@kernel
def _run(
    A: Any, V: Any, before: Any, x: Any, counts: Any, thetas: Any, dt: float, tableau: Any, n: int, keys: Any,
    d: int, heads: int, causal: bool, sphere: bool, tangent: bool, out: Any
) -> None:  # fmt: skip
    """All steps of one group; ``before`` and ``x`` (n d, 8) are overwritten, ``out`` (m n d, 8) gets the saves.

    ``keys`` is None where lanes are runs, and the number of tokens where the lanes of n rows are tokens of one run.
    """
    rows = n * d
    stage, slope, total = np.empty((rows, 8)), np.empty((rows, 8)), np.empty((rows, 8))
    opening, unit = np.empty((rows, 8)), np.empty((rows, 8))
    weights, query = np.empty((n if keys is None else keys, 8)), np.empty((2 * d, 8))
    known = False  # whether ``opening`` holds the velocity at ``before``
    for m in range(len(counts)):
        for _ in range(counts[m]):
            for r in range(rows):
                v = load(x, r, 0)
                store(stage, r, 0, v)
                store(before, r, 0, v)
                store(total, r, 0, fill(x, 0.0))
            for k in range(tableau.shape[0]):
                _field(A, V, stage, n, keys, d, heads, causal, tangent, unit, weights, query, slope)
                ahead, part = fill(x, tableau[k, 0] * dt), fill(x, tableau[k, 1] * dt)
                for r in range(rows):
                    v = load(slope, r, 0)
                    if k == 0:
                        store(opening, r, 0, v)
                    store(total, r, 0, fma(part, v, load(total, r, 0)))
                    store(stage, r, 0, fma(ahead, v, load(x, r, 0)))
            for r in range(rows):
                store(x, r, 0, load(x, r, 0) + load(total, r, 0))
            if sphere:
                _to_unit(x, n, d, x)
            known = True
        theta = thetas[m]
        if theta < 1.0 and not known:
            _field(A, V, before, n, keys, d, heads, causal, tangent, unit, weights, query, opening)
            known = True
        if theta < 1.0:
            _field(A, V, x, n, keys, d, heads, causal, tangent, unit, weights, query, slope)
            _hermite(theta, dt, before, opening, x, slope, rows, stage)
            if sphere:
                _to_unit(stage, n, d, stage)
        for r in range(rows):
            store(out, m * rows + r, 0, load(stage if theta < 1.0 else x, r, 0))


@inlined
def _hermite(theta: float, dt: float, x0: Any, v0: Any, x1: Any, v1: Any, rows: int, out: Any) -> None:
    """`metastable.solve.steps.hermite`: the cubic through both ends of a step with their slopes."""
    s = theta - 1.0
    bend, left, right = theta * s * (1.0 - 2.0 * theta), theta * s * s * dt, theta * s * theta * dt
    for r in range(rows):
        a, b = load(x0, r, 0), load(x1, r, 0)
        moved = fma(fill(a, left), load(v0, r, 0), fill(a, right) * load(v1, r, 0))
        store(out, r, 0, fma(fill(a, theta + bend), b - a, a) + moved)


@inlined
def _length(x: Any, i: int, d: int) -> Any:
    square = fill(x, 0.0)
    for c in range(d):
        v = load(x, i * d + c, 0)
        square = fma(v, v, square)
    return root(square)


@inlined
def _to_unit(x: Any, n: int, d: int, out: Any) -> None:
    for i in range(n):
        size = _length(x, i, d)
        for c in range(d):
            store(out, i * d + c, 0, load(x, i * d + c, 0) / size)


@inner
def _field(
    A: Any, V: Any, x: Any, n: int, keys: Any, d: int, heads: int, causal: bool, tangent: bool, unit: Any,
    weights: Any, query: Any, out: Any
) -> None:  # fmt: skip
    """The pull; or its tangent part, carried off the sphere by |x| f(x/|x|) as in `metastable.solve.steps.field`."""
    if tangent:
        _to_unit(x, n, d, unit)
    else:
        for r in range(n * d):
            store(unit, r, 0, load(x, r, 0))
    for i in range(n):
        for c in range(d):
            store(out, i * d + c, 0, fill(x, 0.0))
        for h in range(heads):
            _attend(A, unit, i, n, keys, causal, h, d, weights, query)
            for c in range(d):
                pulled = load(out, i * d + c, 0)
                for e in range(d):
                    pulled = fma(load(V, (h * d + c) * d + e, 0), load(query, d + e, 0), pulled)
                store(out, i * d + c, 0, pulled)
        if tangent:
            along = fill(x, 0.0)
            for c in range(d):
                along = fma(load(out, i * d + c, 0), load(unit, i * d + c, 0), along)
            size = _length(x, i, d)
            for c in range(d):
                across = load(out, i * d + c, 0) - along * load(unit, i * d + c, 0)
                store(out, i * d + c, 0, size * across)


@inlined
def _seen(i: int, n: int, keys: Any, causal: bool) -> int:
    """The end of the tokens that any lane of row i looks at."""
    if keys is None:
        return i + 1 if causal else n
    return min(8 * (i + 1), keys) if causal else keys


@inlined
def _key(x: Any, j: int, c: int, d: int, keys: Any) -> Any:
    """Coordinate c of token j: of each run, or of the one run in all lanes."""
    if keys is None:
        return load(x, j * d + c, 0)
    return every(x, (j >> 3) * d + c, j & 7)


@inlined
def _hidden(s: Any, i: int, j: int, keys: Any, causal: bool) -> Any:
    """The score s of token j, or -inf in the lanes of tokens before it; lanes of other runs are never before it."""
    if keys is None:
        return s
    return within(s, 8 * i, j, 8 * i + 8, -np.inf) if causal and j > 8 * i else s


@inlined
def _attend(
    A: Any, x: Any, i: int, n: int, keys: Any, causal: bool, h: int, d: int, weights: Any, query: Any
) -> None:  # fmt: skip
    """query[d + c] = sum_j P_ij x_jc over the tokens j that row i sees; scores are in powers of two."""
    for c in range(d):
        q = fill(x, 0.0)
        for e in range(d):
            q = fma(load(x, i * d + e, 0), load(A, (h * d + e) * d + c, 0), q)
        store(query, c, 0, q)
    seen = _seen(i, n, keys, causal)
    if d == 3:  # the same with all coordinates in registers
        _gather_three(x, i, seen, keys, causal, weights, query)
        return
    most = fill(x, -np.inf)
    for j in range(seen):
        s = fill(x, 0.0)
        for c in range(d):
            s = fma(load(query, c, 0), _key(x, j, c, d, keys), s)
        s = _hidden(s, i, j, keys, causal)
        store(weights, j, 0, s)
        most = larger(s, most)
    z = most - most  # 0, or nan for scores that are not finite
    for j in range(seen):
        e = exp2(load(weights, j, 0) - most)
        store(weights, j, 0, e)
        z = z + e
    for c in range(d):
        gathered = fill(x, 0.0)
        for j in range(seen):
            gathered = fma(load(weights, j, 0), _key(x, j, c, d, keys), gathered)
        store(query, d + c, 0, gathered / z)


@inlined
def _gather_three(x: Any, i: int, seen: int, keys: Any, causal: bool, weights: Any, query: Any) -> None:
    q, r, s = load(query, 0, 0), load(query, 1, 0), load(query, 2, 0)
    most = fill(x, -np.inf)
    for j in range(seen):
        y = fma(s, _key(x, j, 2, 3, keys), fma(r, _key(x, j, 1, 3, keys), q * _key(x, j, 0, 3, keys)))
        y = _hidden(y, i, j, keys, causal)
        store(weights, j, 0, y)
        most = larger(y, most)
    z = most - most  # 0, or nan for scores that are not finite
    a, b, c = z, z, z
    for j in range(seen):
        e = exp2(load(weights, j, 0) - most)
        z = z + e
        a = fma(e, _key(x, j, 0, 3, keys), a)
        b = fma(e, _key(x, j, 1, 3, keys), b)
        c = fma(e, _key(x, j, 2, 3, keys), c)
    store(query, 3, 0, a / z)
    store(query, 4, 0, b / z)
    store(query, 5, 0, c / z)
