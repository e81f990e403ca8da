"""Ensembles of small systems: eight runs side by side in the lanes of a vector, each with its own weights and beta.

All of a run stays in the first cache while its steps are taken, no sum crosses lanes, and the exponential costs what
the hardware allows; groups of eight runs are shared between the cores. What is computed is `metastable.steps` with
`Dynamics.velocity`, for the plain case: softmax of dot scores, full or causal, R^d or the sphere, constant weights.

Arrays of a group are (rows, 8): tokens in rows i * d + c, matrices in rows (h * d + a) * d + b.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from metastable import masks, normalise, scores
from metastable.fast.lanes import fill, fma, inlined, kernel, larger, load, root, store
from metastable.fast.threads import share
from metastable.fast.vexp import LOG2E, exp2

LANES = 8
TABLEAUS = {  # per stage: how far along the step the next stage starts, and the weight of this one
    "euler": np.array([[0.0, 1.0]]),
    "layers": np.array([[0.0, 1.0]]),  # with the pull itself in place of its part along the sphere
    "rk4": np.array([[0.5, 1 / 6], [0.5, 1 / 3], [1.0, 1 / 3], [0.0, 1 / 6]]),
}


def unsupported(dyn: Any, method: str, dtype: str) -> str | None:
    """Why runs of this dynamics cannot go side by side, in words that follow "because", or None."""
    w = dyn.weights
    if method not in TABLEAUS or dtype != "float64":
        return f"runs side by side take float64 steps of {' or '.join(TABLEAUS)}, not {dtype} steps of {method}"
    plain = normalise.resolve(dyn.normalise) is normalise.softmax and scores.resolve(dyn.score) is scores.SCORES["dot"]
    if not plain or masks.resolve(dyn.mask) not in (None, masks.causal):  # not by name: a function may be called so too
        return "runs side by side have softmax attention of dot scores, full or causal"
    if dyn.geometry_name not in ("sphere", "euclidean") or dyn.block is not None or dyn.position is not None:
        return "runs side by side live in R^d or on the sphere, without block or positions"
    if np.any(np.asarray(dyn.noise) != 0):
        return "runs side by side have no noise"
    if w.time_dependent or any(b is not None for b in (w.q_bias, w.k_bias, w.v_bias, w.o_bias)):
        return "runs side by side have weights without biases that do not depend on time"
    return None


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
    A, V = (np.pad(a, [(0, 0), (0, 0), (0, more), (0, more)]) for a in (A * LOG2E, V))
    x = np.pad(ends, [(0, 0), (0, 0), (0, 0), (0, more)])
    d, heads = given + more, A.shape[1]
    plan = (np.ascontiguousarray(counts, np.int64), np.ascontiguousarray(thetas, np.float64), ways.dt)
    saved, stand = np.empty((len(counts), B, n, given)), np.empty((2, B, n, given))
    sphere = ways.geometry == "sphere"
    kind = (n, d, heads, ways.mask == "causal", sphere, sphere and ways.method != "layers")

    def group(g: int) -> None:
        first, last = g * LANES, min((g + 1) * LANES, B)
        runs = np.minimum(np.arange(first, first + LANES), B - 1)  # the last run fills up the last group
        maps = [_upright(a, runs, heads * d * d) for a in (A, V)]
        before, now = (_upright(a, runs, n * d) for a in x)
        out = np.empty((len(counts) * n * d, LANES))
        _run(*maps, before, now, *plan, TABLEAUS[ways.method], *kind, out)
        for kept, made in ((saved, out), (stand[:1], before), (stand[1:], now)):
            tokens = made.reshape(len(kept), n, d, LANES)[:, :, :given, : last - first]
            kept[:, first:last] = tokens.transpose(0, 3, 1, 2)

    share(group, -(-B // LANES))
    return stand, saved


def _upright(a: np.ndarray, runs: np.ndarray, rows: int) -> np.ndarray:
    """The arrays of some runs, (rows, LANES); one array may serve all runs."""
    chosen = a[np.zeros_like(runs) if len(a) == 1 else runs]
    return np.ascontiguousarray(chosen.reshape(len(runs), rows).T)


# --- kernels ----------------------------------------------------------------------------------------------------


@kernel
def _run(
    A: Any, V: Any, before: Any, x: Any, counts: Any, thetas: Any, dt: float, tableau: Any, n: int, d: int, heads: int,
    causal: bool, sphere: bool, tangent: bool, out: Any
) -> None:  # fmt: skip
    """All steps of one group; ``before`` and ``x`` (n d, 8) are overwritten, ``out`` (m n d, 8) gets the saves."""
    rows = n * d
    stage, slope, total = np.empty((rows, 8)), np.empty((rows, 8)), np.empty((rows, 8))
    opening, unit = np.empty((rows, 8)), np.empty((rows, 8))
    weights, query = np.empty((n, 8)), np.empty((2 * d, 8))
    known = False  # whether ``opening`` holds the velocity at ``before``
    for m in range(len(counts)):
        for _ in range(counts[m]):
            for r in range(rows):
                v = load(x, r, 0)
                store(stage, r, 0, v)
                store(before, r, 0, v)
                store(total, r, 0, fill(x, 0.0))
            for k in range(tableau.shape[0]):
                _field(A, V, stage, n, d, heads, causal, tangent, unit, weights, query, slope)
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
            _field(A, V, before, n, d, heads, causal, tangent, unit, weights, query, opening)
            known = True
        if theta < 1.0:
            _field(A, V, x, n, d, heads, causal, tangent, unit, weights, query, slope)
            _hermite(theta, dt, before, opening, x, slope, rows, stage)
            if sphere:
                _to_unit(stage, n, d, stage)
        for r in range(rows):
            store(out, m * rows + r, 0, load(stage if theta < 1.0 else x, r, 0))


@inlined
def _hermite(theta: float, dt: float, x0: Any, v0: Any, x1: Any, v1: Any, rows: int, out: Any) -> None:
    """`metastable.steps.hermite`: the cubic through both ends of a step with their slopes."""
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


@inlined
def _field(
    A: Any, V: Any, x: Any, n: int, d: int, heads: int, causal: bool, tangent: bool, unit: Any, weights: Any,
    query: Any, out: Any
) -> None:  # fmt: skip
    """The pull; or its tangent part, carried off the sphere by |x| f(x/|x|) as in `metastable.steps.field`."""
    if tangent:
        _to_unit(x, n, d, unit)
    else:
        for r in range(n * d):
            store(unit, r, 0, load(x, r, 0))
    for i in range(n):
        for c in range(d):
            store(out, i * d + c, 0, fill(x, 0.0))
        for h in range(heads):
            _attend(A, unit, i, i + 1 if causal else n, h, d, weights, query)
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
def _attend(A: Any, x: Any, i: int, seen: int, h: int, d: int, weights: Any, query: Any) -> None:
    """query[d + c] = sum_j P_ij x_jc over j < seen; scores are in powers of two."""
    for c in range(d):
        q = fill(x, 0.0)
        for e in range(d):
            q = fma(load(x, i * d + e, 0), load(A, (h * d + e) * d + c, 0), q)
        store(query, c, 0, q)
    if d == 3:  # the same with all coordinates in registers
        _gather_three(x, seen, weights, query)
        return
    most = fill(x, -np.inf)
    for j in range(seen):
        s = fill(x, 0.0)
        for c in range(d):
            s = fma(load(query, c, 0), load(x, j * d + c, 0), s)
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
            gathered = fma(load(weights, j, 0), load(x, j * d + c, 0), gathered)
        store(query, d + c, 0, gathered / z)


@inlined
def _gather_three(x: Any, seen: int, weights: Any, query: Any) -> None:
    q, r, s = load(query, 0, 0), load(query, 1, 0), load(query, 2, 0)
    most = fill(x, -np.inf)
    for j in range(seen):
        y = fma(s, load(x, 3 * j + 2, 0), fma(r, load(x, 3 * j + 1, 0), q * load(x, 3 * j, 0)))
        store(weights, j, 0, y)
        most = larger(y, most)
    z = most - most  # 0, or nan for scores that are not finite
    a, b, c = z, z, z
    for j in range(seen):
        e = exp2(load(weights, j, 0) - most)
        z = z + e
        a = fma(e, load(x, 3 * j, 0), a)
        b = fma(e, load(x, 3 * j + 1, 0), b)
        c = fma(e, load(x, 3 * j + 2, 0), c)
    store(query, 3, 0, a / z)
    store(query, 4, 0, b / z)
    store(query, 5, 0, c / z)
