"""Linear-time sums on S^2: spherical harmonics.

    e^{beta <x, y>} = 4 pi sum_l i_l(beta) sum_m Y_lm(x) Y_lm(y),      i_l the modified spherical Bessel functions

Y_lm is, up to a factor, p_l^m(z) times the real or imaginary part of (x + i y)^m, where p_l^m is monic of degree l - m:

    p_m^m = 1,   p_l^m = z p_{l-1}^m - g p_{l-2}^m,   g = ((l-1)^2 - m^2) / (4 (l-1)^2 - 1),   (p_l^m)' = (l - m) p_l^{m+1}

so value and gradient of the partition sum Z come from one recurrence. The summed vector is
sum_j w_j e^{beta <x, k_j>} k_j = (tangential part of grad Z) / beta + (dZ / dbeta) x: no vector moments are needed.
Entries (m, l) lie in one list, m first.
"""

from typing import Any

import numpy as np

from metastable.fast.lanes import fill, fma, inlined, kernel, load, store, total
from metastable.fast.rows import row_sums

GROUP = 32  # points taken together by the moments: four vectors
_CHUNK = 512  # points whose powers (x + i y)^m stay in the first cache


@inlined
def _turn(c: Any, s: Any, x: Any, y: Any) -> Any:
    """(c + i s)(x + i y)."""
    return fma(c, x, fill(c, 0.0) - s * y), fma(c, y, s * x)


@inlined
def _order_moments(z: Any, j: int, c: Any, s: Any, r: int, m: int, at: int, rank: int, g: Any, C: Any, S: Any) -> None:
    """Order m, degrees m to rank, of four vectors of points."""
    z0, z1, z2, z3 = load(z, 2, j), load(z, 2, j + 8), load(z, 2, j + 16), load(z, 2, j + 24)
    c0, c1, c2, c3 = load(c, 0, r), load(c, 0, r + 8), load(c, 0, r + 16), load(c, 0, r + 24)
    s0, s1, s2, s3 = load(s, 0, r), load(s, 0, r + 8), load(s, 0, r + 16), load(s, 0, r + 24)
    zero, one = fill(z, 0.0), fill(z, 1.0)
    p0, p1, p2, p3 = one, one, one, one
    q0, q1, q2, q3 = zero, zero, zero, zero
    for t in range(at, at + rank - m + 1):
        store(C, t, 0, fma(p0, c0, fma(p1, c1, fma(p2, c2, fma(p3, c3, load(C, t, 0))))))
        store(S, t, 0, fma(p0, s0, fma(p1, s1, fma(p2, s2, fma(p3, s3, load(S, t, 0))))))
        back = fill(z, -g[t + 1])
        q0, p0 = p0, fma(z0, p0, back * q0)
        q1, p1 = p1, fma(z1, p1, back * q1)
        q2, p2 = p2, fma(z2, p2, back * q2)
        q3, p3 = p3, fma(z3, p3, back * q3)


@kernel
def moments(K: Any, w: Any, first: int, last: int, rank: int, g: Any, C: Any, S: Any) -> None:
    """Add the points first to last, weighted by w[0], to the moments; lanes are added up by the caller."""
    c, s = np.empty((1, _CHUNK)), np.empty((1, _CHUNK))
    for begin in range(first, last, _CHUNK):
        size = min(_CHUNK, last - begin)
        c[0, :size] = w[0, begin : begin + size]
        s[:] = 0.0
        at = 0
        for m in range(rank + 1):
            for r in range(0, size, GROUP):
                _order_moments(K, begin + r, c, s, r, m, at, rank, g, C, S)
            for r in range(0, size, 8):
                a, b = _turn(load(c, 0, r), load(s, 0, r), load(K, 0, begin + r), load(K, 1, begin + r))
                store(c, 0, r, a)
                store(s, 0, r, b)
            at += rank - m + 1


@kernel
def coefficients(C: Any, S: Any, scale: Any, rank: int, out: Any) -> None:
    """Per (m, l) the coefficients of p_l^m in Z (two), in dZ/dz (two, from order m - 1) and in dZ/dbeta (two)."""
    at = 0
    for m in range(rank + 1):
        for l in range(m, rank + 1):
            t, before = at + l - m, at - (rank - m + 2) + l - m + 1
            out[t, 0], out[t, 1] = C[t] * scale[0, t], S[t] * scale[0, t]
            out[t, 4], out[t, 5] = C[t] * scale[1, t], S[t] * scale[1, t]
            if m > 0:
                out[t, 2] = (l - m + 1) * C[before] * scale[0, before]
                out[t, 3] = (l - m + 1) * S[before] * scale[0, before]
        at += rank - m + 1


@inlined
def _order_values(z: Any, at: int, count: int, g: Any, table: Any, radial: bool) -> Any:
    """Sums over the degrees of one order: (Z, dZ/dz, dZ/dbeta) beside the cosine and the sine."""
    p, q = fill(z, 1.0), fill(z, 0.0)
    a, b, az, bz, ar, br = q, q, q, q, q, q
    for t in range(at, at + count):
        a, b = fma(fill(z, table[t, 0]), p, a), fma(fill(z, table[t, 1]), p, b)
        az, bz = fma(fill(z, table[t, 2]), p, az), fma(fill(z, table[t, 3]), p, bz)
        if radial:
            ar, br = fma(fill(z, table[t, 4]), p, ar), fma(fill(z, table[t, 5]), p, br)
        q, p = p, fma(z, p, fill(z, -g[t + 1]) * q)
    return a, b, az, bz, ar, br


@kernel
def evaluate(
    Q: Any, first: int, last: int, rank: int, g: Any, table: Any, beta: float, radial: bool, out: Any
) -> None:
    """Z and the summed vector at the queries first to last, into the rows of out (4, n)."""
    for i in range(first, last, 8):
        x, y, z = load(Q, 0, i), load(Q, 1, i), load(Q, 2, i)
        c, s = fill(Q, 1.0), fill(Q, 0.0)
        c1, s1, f, fx, fy, fz, fr = s, s, s, s, s, s, s  # c1, s1: the power m - 1
        at = 0
        for m in range(rank + 1):
            a, b, az, bz, ar, br = _order_values(z, at, rank - m + 1, g, table, radial)
            f = fma(a, c, fma(b, s, f))
            fr = fma(ar, c, fma(br, s, fr))
            order = fill(Q, float(m))
            fx = fma(order, fma(a, c1, b * s1), fx)
            fy = fma(order, b * c1 - a * s1, fy)
            fz = fma(az, c1, fma(bz, s1, fz))
            c1, s1 = c, s
            c, s = _turn(c, s, x, y)
            at += rank - m + 1
        inner = fma(x, fx, fma(y, fy, z * fz))
        less = fr * fill(Q, beta) - inner  # (grad Z - <x, grad Z> x) / beta + (dZ/dbeta) x
        scale = fill(Q, 1.0 / beta)
        store(out, 0, i, f)
        store(out, 1, i, fma(less, x, fx) * scale)
        store(out, 2, i, fma(less, y, fy) * scale)
        store(out, 3, i, fma(less, z, fz) * scale)


@kernel
def causal(
    Q: Any, K: Any, W: Any, scaled: Any, low: Any, high: Any, shift: Any, first: int, last: int, block: int,
    rank: int, g: Any, scale: Any, beta: float, radial: bool, C: Any, S: Any, out: Any,
) -> None:  # fmt: skip
    """Queries first to last, each over its predecessors; C and S hold the moments of all points before.

    Far predecessors come from the moments, the ones in the query's own block from the exact sum. ``scaled`` are the
    queries times beta log2(e), W = (w, w k) the sources.
    """
    table = np.zeros((len(C), 6))
    c, s = np.zeros((len(C), 8)), np.zeros((len(C), 8))
    for begin in range(first, last, block):
        end = min(begin + block, last)
        coefficients(C, S, scale, rank, table)
        evaluate(Q, begin, end, rank, g, table, beta, radial, out)
        row_sums(scaled, K, W, low, high, shift, begin, min(end, len(low)), out, 8)
        c[:] = 0.0
        s[:] = 0.0
        moments(K, W, begin, end, rank, g, c, s)
        for t in range(len(C)):
            C[t] += total(load(c, t, 0))
            S[t] += total(load(s, t, 0))
