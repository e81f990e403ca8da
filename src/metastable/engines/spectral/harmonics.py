"""Linear-time sums on S^2: spherical harmonics.

    e^{beta <x, y>} = 4 pi sum_l i_l(beta) sum_m Y_lm(x) Y_lm(y),      i_l the modified spherical Bessel functions

Y_lm is, up to a factor, p_l^m(z) times the real or imaginary part of (x + i y)^m, where p_l^m is monic of degree l - m:

    p_m^m = 1,   p_l^m = z p_{l-1}^m - g p_{l-2}^m,   g = ((l-1)^2 - m^2) / (4 (l-1)^2 - 1),
    (p_l^m)' = (l - m) p_l^{m+1},

so value and gradient of the partition sum Z come from one recurrence. The summed vector is
sum_j w_j e^{beta <x, k_j>} k_j = (tangential part of grad Z) / beta + (dZ / dbeta) x: no vector moments are needed.

Orders go in pairs m, m + 1 with m even that share the polynomials of order m, which halves the recurrences:

    p_{l+1}^{m+1} = p_l^m + a p_{l-1}^{m+1},   a = (l-m) (l-m-1) / (4 l^2 - 1)

takes moments to the second order's own polynomials, and its transpose takes coefficients back. Entries (m, l) of even m
lie in one list, m first; each holds order m at degree l and order m + 1 at degree l + 1.
"""

from typing import Any

import numpy as np

from metastable.engines.exact.rows import row_sums
from metastable.engines.simd.loads import every, load, skew, store
from metastable.engines.simd.vectors import fill, fma, inlined, kernel, reaches, total

_CHUNK = 512  # points whose powers (x + i y)^m stay in the first cache
_SOME = 256  # points whose sums stay there too, beside the coefficients


@inlined
def _turn(c: Any, s: Any, x: Any, y: Any) -> Any:
    """(c + i s)(x + i y)."""
    return fma(c, x, fill(c, 0.0) - s * y), fma(c, y, s * x)


@inlined
def _forget_tiny(m: int, c: Any, s: Any) -> Any:
    """Near the poles (x + i y)^m leaves the range of normal floats, where arithmetic is a hundred times slower."""
    if m % 8 == 0:
        keep = reaches(fma(c, c, s * s), fill(c, 1e-300))
        return c * keep, s * keep
    return c, s


@inlined
def _add(p: Any, c: Any, M: Any, t: int) -> None:
    """Add the four products of p and c to the lanes M[0, t:]."""
    store(M, 0, t, fma(p[0], c[0], fma(p[1], c[1], fma(p[2], c[2], fma(p[3], c[3], load(M, 0, t))))))


@inlined
def _four(a: Any, i: int, j: int) -> Any:
    """Four vectors in a row."""
    return load(a, i, j), load(a, i, j + 8), load(a, i, j + 16), load(a, i, j + 24)


@inlined
def _pair_moments(K: Any, j: int, powers: Any, r: int, at: int, count: int, g: Any, M: Any, start: int) -> None:
    """Two orders of four vectors of points, from their powers (x + i y)^m and (x + i y)^{m+1}, into M[0, start:]."""
    z = _four(K, 2, j)
    c, s, c2, s2 = _four(powers, 0, r), _four(powers, 1, r), _four(powers, 2, r), _four(powers, 3, r)
    zero, one = fill(K, 0.0), fill(K, 1.0)
    p, q = (one, one, one, one), (zero, zero, zero, zero)
    for t in range(at, at + count):
        _add(p, c, M, start + 32 * t)
        _add(p, s, M, start + 32 * t + 8)
        _add(p, c2, M, start + 32 * t + 16)
        _add(p, s2, M, start + 32 * t + 24)
        back = every(g, 0, t + 1)
        n0, n1 = fma(z[0], p[0], back * q[0]), fma(z[1], p[1], back * q[1])
        n2, n3 = fma(z[2], p[2], back * q[2]), fma(z[3], p[3], back * q[3])
        p, q = (n0, n1, n2, n3), p


@inlined
def _next_powers(m: int, K: Any, j: int, powers: Any, r: int) -> None:
    """From the powers m - 2 and m - 1 of x + i y to m and m + 1."""
    x, y = load(K, 0, j), load(K, 1, j)
    c, s = _forget_tiny(m, *_turn(load(powers, 2, r), load(powers, 3, r), x, y))
    c2, s2 = _turn(c, s, x, y)
    store(powers, 0, r, c)
    store(powers, 1, r, s)
    store(powers, 2, r, c2)
    store(powers, 3, r, s2)


@kernel
def moments(K: Any, w: Any, first: int, last: int, rank: int, g: Any, out: Any) -> None:
    """Add the points first to last, weighted by w[0], to the moments ``out`` (entries, 4): cosine and sine twice."""
    M, powers = np.zeros((1, 32 * len(out) + 8)), np.empty((4, _CHUNK + 8))
    start, skip = skew(M), skew(powers)
    for begin in range(first, last, _CHUNK):
        size = min(_CHUNK, last - begin)
        at = 0
        for m in range(0, rank + 1, 2):
            for r in range(0, size, 8):
                if m > 0:
                    _next_powers(m, K, begin + r, powers, skip + r)
                else:
                    one = load(w, 0, begin + r)
                    store(powers, 0, skip + r, one)
                    store(powers, 1, skip + r, fill(w, 0.0))
                    store(powers, 2, skip + r, one * load(K, 0, begin + r))
                    store(powers, 3, skip + r, one * load(K, 1, begin + r))
            for r in range(0, size, 32):
                _pair_moments(K, begin + r, powers, skip + r, at, rank - m + 1, g, M, start)
            at += rank - m + 1
    for t in range(len(out)):
        for c in range(4):
            out[t, c] += total(load(M, 0, start + 32 * t + 8 * c))


@kernel
def coefficients(given: Any, scale: Any, a: Any, rank: int, out: Any) -> None:
    """What multiplies p_l^m, per entry: Z (two), dZ/dz (two), the same of order m + 1, then dZ/dbeta (two and two).

    dZ/dz at order m comes from Z at order m - 1. ``given`` are the moments, ``scale`` (4, entries) the weights of the
    modes in Z and in dZ/dbeta for both orders, 0 beyond the rank.
    """
    own = given.copy()
    at, before = 0, 0
    for m in range(0, rank + 1, 2):
        count = rank - m + 1
        for k in range(count):
            t, above = at + k, before + k + 1
            for c in range(2):
                if k > 1:
                    own[t, 2 + c] += a[0, t] * own[t - 2, 2 + c]
                out[t, c], out[t, 4 + c] = own[t, c] * scale[0, t], own[t, 2 + c] * scale[1, t]
                out[t, 8 + c], out[t, 10 + c] = own[t, c] * scale[2, t], own[t, 2 + c] * scale[3, t]
                out[t, 2 + c] = (k + 1) * own[above, 2 + c] * scale[1, above] if m > 0 else 0.0
                out[t, 6 + c] = (k + 1) * own[t + 1, c] * scale[0, t + 1] if k + 1 < count else 0.0
        for t in range(at + count - 3, at - 1, -1):
            for c in (4, 5, 6, 7, 10, 11):
                out[t, c] += a[0, t + 2] * out[t + 2, c]
        before = at
        at += count


@inlined
def _more(k: Any, p: Any, a: Any) -> Any:
    """a + k p for two vectors."""
    return fma(k, p[0], a[0]), fma(k, p[1], a[1])


@inlined
def _pair_values(z: Any, at: int, count: int, g: Any, table: Any, radial: bool) -> Any:
    """Sums over the degrees of two orders at two vectors of heights: (Z, dZ/dz) of each, beside cosine and sine.

    Then dZ/dbeta of both.
    """
    q = (fill(z[0], 0.0), fill(z[0], 0.0))
    p = (fill(z[0], 1.0), fill(z[0], 1.0))
    a, b, az, bz, c, d, cz, dz = q, q, q, q, q, q, q, q
    ar, br, cr, dr = q, q, q, q
    for t in range(at, at + count):
        a, b = _more(every(table, t, 0), p, a), _more(every(table, t, 1), p, b)
        az, bz = _more(every(table, t, 2), p, az), _more(every(table, t, 3), p, bz)
        c, d = _more(every(table, t, 4), p, c), _more(every(table, t, 5), p, d)
        cz, dz = _more(every(table, t, 6), p, cz), _more(every(table, t, 7), p, dz)
        if radial:
            ar, br = _more(every(table, t, 8), p, ar), _more(every(table, t, 9), p, br)
            cr, dr = _more(every(table, t, 10), p, cr), _more(every(table, t, 11), p, dr)
        back = every(g, 0, t + 1)
        p, q = (fma(z[0], p[0], back * q[0]), fma(z[1], p[1], back * q[1])), p
    return (a, b, az, bz, ar, br), (c, d, cz, dz, cr, dr)


@inlined
def _add_pair(m: int, v: int, low: Any, high: Any, Q: Any, i: int, room: Any, r: int) -> None:
    """Add orders m and m + 1 of vector v to (Z, grad Z, dZ/dbeta), and go to the powers of x + i y that come next.

    They wait in ``room`` and not in registers, which would spill onto a stack that need not be aligned.
    """
    x, y = load(Q, 0, i), load(Q, 1, i)
    c, s, c1, s1 = load(room, 0, r), load(room, 1, r), load(room, 2, r), load(room, 3, r)  # powers m and m - 1
    c2, s2 = _turn(c, s, x, y)
    a, b, az, bz, ar, br = low
    d, e, dz, ez, dr, er = high
    k, k2 = fill(x, float(m)), fill(x, float(m + 1))
    f = fma(a[v], c, fma(b[v], s, load(room, 4, r)))
    store(room, 4, r, fma(d[v], c2, fma(e[v], s2, f)))
    fx = fma(k, fma(a[v], c1, b[v] * s1), load(room, 5, r))
    store(room, 5, r, fma(k2, fma(d[v], c, e[v] * s), fx))
    fy = fma(k, b[v] * c1 - a[v] * s1, load(room, 6, r))
    store(room, 6, r, fma(k2, e[v] * c - d[v] * s, fy))
    fz = fma(az[v], c1, fma(bz[v], s1, load(room, 7, r)))
    store(room, 7, r, fma(dz[v], c, fma(ez[v], s, fz)))
    fr = fma(ar[v], c, fma(br[v], s, load(room, 8, r)))
    store(room, 8, r, fma(dr[v], c2, fma(er[v], s2, fr)))
    store(room, 2, r, c2)
    store(room, 3, r, s2)
    c, s = _forget_tiny(m + 2, *_turn(c2, s2, x, y))
    store(room, 0, r, c)
    store(room, 1, r, s)


@inlined
def _write(Q: Any, i: int, room: Any, r: int, beta: float, out: Any) -> None:
    """Z, and (grad Z - <x, grad Z> x) / beta + (dZ/dbeta) x."""
    x, y, z = load(Q, 0, i), load(Q, 1, i), load(Q, 2, i)
    fx, fy, fz = load(room, 5, r), load(room, 6, r), load(room, 7, r)
    less = load(room, 8, r) * fill(x, beta) - fma(x, fx, fma(y, fy, z * fz))
    scale = fill(x, 1.0 / beta)
    store(out, 0, i, load(room, 4, r))
    store(out, 1, i, fma(less, x, fx) * scale)
    store(out, 2, i, fma(less, y, fy) * scale)
    store(out, 3, i, fma(less, z, fz) * scale)


@kernel
def evaluate(Q: Any, first: int, last: int, rank: int, g: Any, table: Any, beta: float, radial: bool, out: Any) -> None:
    """Z and the summed vector at the queries first to last, two vectors at a time, into the rows of out (4, n)."""
    room = np.empty((9, _SOME + 8))
    skip = skew(room)
    for begin in range(first, last, _SOME):
        size = min(_SOME, last - begin)
        for row in range(9):
            for r in range(0, size, 8):
                store(room, row, skip + r, fill(room, 1.0 if row == 0 else 0.0))
        at = 0
        for m in range(0, rank + 1, 2):
            for r in range(0, size, 16):
                i, here = begin + r, skip + r
                z = load(Q, 2, i), load(Q, 2, i + 8)
                low, high = _pair_values(z, at, rank - m + 1, g, table, radial)
                _add_pair(m, 0, low, high, Q, i, room, here)
                _add_pair(m, 1, low, high, Q, i + 8, room, here + 8)
            at += rank - m + 1
        for r in range(0, size, 8):
            _write(Q, begin + r, room, skip + r, beta, out)


@kernel
def causal(
    Q: Any, K: Any, W: Any, scaled: Any, low: Any, high: Any, shift: Any, first: int, last: int, block: int,
    rank: int, g: Any, scale: Any, a: Any, beta: float, radial: bool, M: Any, out: Any,
) -> None:  # fmt: skip
    """Queries first to last, each over its predecessors; M holds the moments of all points before.

    Far predecessors come from the moments, the ones in the query's own block from the exact sum. ``scaled`` are the
    queries times beta log2(e), W = (w, w k) the sources.
    """
    table = np.zeros((len(M), 12))
    for begin in range(first, last, block):
        end = min(begin + block, last)
        coefficients(M, scale, a, rank, table)
        evaluate(Q, begin, end, rank, g, table, beta, radial, out)
        row_sums(scaled, K, W, low, high, shift, begin, min(end, len(low)), out, 8)
        moments(K, W, begin, end, rank, g, M)
