"""Linear-time sums on S^2: spherical harmonics.

    e^{beta <x, y>} = 4 pi sum_l i_l(beta) sum_m Y_lm(x) Y_lm(y),      i_l the modified spherical Bessel functions

Y_lm is, up to a factor, p_l^m(z) times the real or imaginary part of (x + i y)^m, where p_l^m is monic of degree l - m:

    p_m^m = 1,   p_l^m = z p_{l-1}^m - g p_{l-2}^m,   g = ((l-1)^2 - m^2) / (4 (l-1)^2 - 1),
    (p_l^m)' = (l - m) p_l^{m+1},

so value and gradient of the partition sum Z come from one recurrence. The summed vector is
sum_j w_j e^{beta <x, k_j>} k_j = (tangential part of grad Z) / beta + (dZ / dbeta) x: no vector moments are needed.
Entries (m, l) lie in one list, m first.
"""

from typing import Any

import numpy as np

from metastable.fast.lanes import every, fill, fma, inlined, kernel, load, reaches, skew, store, total
from metastable.fast.rows import row_sums

_CHUNK = 512  # points whose powers (x + i y)^m stay in the first cache


@inlined
def _turn(c: Any, s: Any, x: Any, y: Any) -> Any:
    """(c + i s)(x + i y)."""
    return fma(c, x, fill(c, 0.0) - s * y), fma(c, y, s * x)


@inlined
def _forget_tiny(m: int, c: Any, s: Any) -> Any:
    """Near the poles (x + i y)^m leaves the range of normal floats, where arithmetic is a hundred times slower."""
    if m % 8 == 7:
        keep = reaches(fma(c, c, s * s), fill(c, 1e-300))
        return c * keep, s * keep
    return c, s


@inlined
def _order_moments(
    z: Any, j: int, c: Any, r: int, s: Any, q: int, m: int, at: int, rank: int, g: Any, C: Any, S: Any
) -> None:
    """Order m, degrees m to rank, of four vectors of points."""
    z0, z1, z2, z3 = load(z, 2, j), load(z, 2, j + 8), load(z, 2, j + 16), load(z, 2, j + 24)
    c0, c1, c2, c3 = load(c, 0, r), load(c, 0, r + 8), load(c, 0, r + 16), load(c, 0, r + 24)
    s0, s1, s2, s3 = load(s, 0, q), load(s, 0, q + 8), load(s, 0, q + 16), load(s, 0, q + 24)
    zero, one = fill(z, 0.0), fill(z, 1.0)
    p0, p1, p2, p3 = one, one, one, one
    q0, q1, q2, q3 = zero, zero, zero, zero
    for t in range(at, at + rank - m + 1):
        store(C, t, 0, fma(p0, c0, fma(p1, c1, fma(p2, c2, fma(p3, c3, load(C, t, 0))))))
        store(S, t, 0, fma(p0, s0, fma(p1, s1, fma(p2, s2, fma(p3, s3, load(S, t, 0))))))
        back = every(g, 0, t + 1)
        q0, p0 = p0, fma(z0, p0, back * q0)
        q1, p1 = p1, fma(z1, p1, back * q1)
        q2, p2 = p2, fma(z2, p2, back * q2)
        q3, p3 = p3, fma(z3, p3, back * q3)


@kernel
def moments(K: Any, w: Any, first: int, last: int, rank: int, g: Any, C: Any, S: Any) -> None:
    """Add the points first to last, weighted by w[0], to the moments; lanes are added up by the caller."""
    c, s = np.empty((1, _CHUNK + 8)), np.empty((1, _CHUNK + 8))
    cs, ss = skew(c), skew(s)
    for begin in range(first, last, _CHUNK):
        size = min(_CHUNK, last - begin)
        for r in range(0, size, 8):
            store(c, 0, cs + r, load(w, 0, begin + r))
            store(s, 0, ss + r, fill(s, 0.0))
        at = 0
        for m in range(rank + 1):
            for r in range(0, size, 32):
                _order_moments(K, begin + r, c, cs + r, s, ss + r, m, at, rank, g, C, S)
            for r in range(0, size, 8):
                a, b = _turn(load(c, 0, cs + r), load(s, 0, ss + r), load(K, 0, begin + r), load(K, 1, begin + r))
                a, b = _forget_tiny(m, a, b)
                store(c, 0, cs + r, a)
                store(s, 0, ss + r, b)
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
def _order_values(z: Any, y: Any, at: int, count: int, g: Any, table: Any, radial: bool) -> Any:
    """Sums over the degrees of one order, for the heights z and y: (Z, dZ/dz, dZ/dbeta) beside cosine and sine."""
    zero, p = fill(z, 0.0), fill(z, 1.0)
    q, u, v = zero, p, zero  # p, q: the last two polynomials at z; u, v: at y
    a, b, az, bz, ar, br = zero, zero, zero, zero, zero, zero
    c, d, cz, dz, cr, dr = zero, zero, zero, zero, zero, zero
    for t in range(at, at + count):
        k = every(table, t, 0)
        a, c = fma(k, p, a), fma(k, u, c)
        k = every(table, t, 1)
        b, d = fma(k, p, b), fma(k, u, d)
        k = every(table, t, 2)
        az, cz = fma(k, p, az), fma(k, u, cz)
        k = every(table, t, 3)
        bz, dz = fma(k, p, bz), fma(k, u, dz)
        if radial:
            k = every(table, t, 4)
            ar, cr = fma(k, p, ar), fma(k, u, cr)
            k = every(table, t, 5)
            br, dr = fma(k, p, br), fma(k, u, dr)
        back = every(g, 0, t + 1)
        q, p = p, fma(z, p, back * q)
        v, u = u, fma(y, u, back * v)
    return (a, b, az, bz, ar, br), (c, d, cz, dz, cr, dr)


@inlined
def _add_order(m: int, x: Any, y: Any, powers: Any, sums: Any, order: Any) -> Any:
    """Add order m to (Z, grad Z, dZ/dbeta), and go to the next power of x + i y."""
    c, s, c1, s1 = powers  # of orders m and m - 1
    f, fx, fy, fz, fr = sums
    a, b, az, bz, ar, br = order
    k = fill(x, float(m))
    f, fr = fma(a, c, fma(b, s, f)), fma(ar, c, fma(br, s, fr))
    fx, fy = fma(k, fma(a, c1, b * s1), fx), fma(k, b * c1 - a * s1, fy)
    fz = fma(az, c1, fma(bz, s1, fz))
    c2, s2 = _forget_tiny(m, *_turn(c, s, x, y))
    return (c2, s2, c, s), (f, fx, fy, fz, fr)


@inlined
def _write(i: int, x: Any, y: Any, z: Any, sums: Any, beta: float, out: Any) -> None:
    """Z, and (grad Z - <x, grad Z> x) / beta + (dZ/dbeta) x."""
    f, fx, fy, fz, fr = sums
    less = fr * fill(x, beta) - fma(x, fx, fma(y, fy, z * fz))
    scale = fill(x, 1.0 / beta)
    store(out, 0, i, f)
    store(out, 1, i, fma(less, x, fx) * scale)
    store(out, 2, i, fma(less, y, fy) * scale)
    store(out, 3, i, fma(less, z, fz) * scale)


@kernel
def evaluate(Q: Any, first: int, last: int, rank: int, g: Any, table: Any, beta: float, radial: bool, out: Any) -> None:
    """Z and the summed vector at the queries first to last, two vectors at a time, into the rows of out (4, n)."""
    zero, one = fill(Q, 0.0), fill(Q, 1.0)
    for i in range(first, last, 16):
        x, y, z = load(Q, 0, i), load(Q, 1, i), load(Q, 2, i)
        x2, y2, z2 = load(Q, 0, i + 8), load(Q, 1, i + 8), load(Q, 2, i + 8)
        powers, sums = (one, zero, zero, zero), (zero, zero, zero, zero, zero)
        powers2, sums2 = powers, sums
        at = 0
        for m in range(rank + 1):
            order, order2 = _order_values(z, z2, at, rank - m + 1, g, table, radial)
            powers, sums = _add_order(m, x, y, powers, sums, order)
            powers2, sums2 = _add_order(m, x2, y2, powers2, sums2, order2)
            at += rank - m + 1
        _write(i, x, y, z, sums, beta, out)
        _write(i + 8, x2, y2, z2, sums2, beta, out)


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
        for t in range(len(C)):
            store(c, t, 0, fill(c, 0.0))
            store(s, t, 0, fill(s, 0.0))
        moments(K, W, begin, end, rank, g, c, s)
        for t in range(len(C)):
            C[t] += total(load(c, t, 0))
            S[t] += total(load(s, t, 0))
