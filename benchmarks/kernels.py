"""Hand-vectorised kernels: what one writes to make this one workload fast.

Sums over keys are plain loops that the compiler may reorder into vector instructions; `exp` is a polynomial with the
exponent put in by a bit shift, since a call to the C library cannot be vectorised, and must not be reordered itself.
numba prefers 256-bit vectors on CPUs that have 512-bit ones, unless its environment says otherwise before it loads.
"""

import math
import os
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from scipy.special import iv


def _wide_vectors() -> None:
    import llvmlite.binding as llvm

    host = llvm.get_host_cpu_features()
    if host.get("avx512f") and "NUMBA_CPU_FEATURES" not in os.environ:
        os.environ["NUMBA_CPU_NAME"] = llvm.get_host_cpu_name()
        os.environ["NUMBA_CPU_FEATURES"] = host.flatten() + ",-prefer-256-bit"


_wide_vectors()

from llvmlite import ir  # noqa: E402
from numba import njit, prange, types  # noqa: E402
from numba.extending import intrinsic  # noqa: E402


def _power_of_two(degree: int, dtype: type) -> tuple[Any, ...]:
    """Coefficients of 2^f on [-1/2, 1/2], highest first: e^{a s} = I_0(a) + 2 sum_k I_k(a) T_k(s), a = ln(2)/2."""
    k = np.arange(degree + 1)
    power = chebyshev.cheb2poly(np.where(k > 0, 2.0, 1.0) * iv(k, math.log(2.0) / 2)) * 2.0**k
    return tuple(dtype(c) for c in power[::-1])


C64 = _power_of_two(11, float)
C32 = _power_of_two(6, np.float32)
LOG2E = 1.0 / math.log(2.0)
ROUND64, ROUND32 = 1.5 * 2.0**52, np.float32(1.5 * 2.0**23)
LOG2E32, LEAST32 = np.float32(LOG2E), np.float32(-126.0)


@intrinsic  # type: ignore[misc]
def _scaled64(typing: Any, p: Any, shifted: Any) -> Any:
    """p * 2^k, with the whole number k in the low bits of ``shifted``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        whole = ir.IntType(64)
        power = builder.shl(builder.bitcast(args[1], whole), ir.Constant(whole, 52))
        return builder.bitcast(builder.add(builder.bitcast(args[0], whole), power), ir.DoubleType())

    return types.float64(types.float64, types.float64), generate


@intrinsic  # type: ignore[misc]
def _scaled32(typing: Any, p: Any, shifted: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        whole = ir.IntType(32)
        power = builder.shl(builder.bitcast(args[1], whole), ir.Constant(whole, 23))
        return builder.bitcast(builder.add(builder.bitcast(args[0], whole), power), ir.FloatType())

    return types.float32(types.float32, types.float32), generate


CONTRACT = {"contract", "nsz", "nnan", "ninf"}
REORDER = CONTRACT | {"reassoc", "arcp"}


@njit(fastmath=CONTRACT, forceinline=True)
def exp2_64(y):  # type: ignore[no-untyped-def]
    """2^y for -1022 <= y < 1024."""
    shifted = y + ROUND64
    f = y - (shifted - ROUND64)
    p = C64[0]
    p = p * f + C64[1]
    p = p * f + C64[2]
    p = p * f + C64[3]
    p = p * f + C64[4]
    p = p * f + C64[5]
    p = p * f + C64[6]
    p = p * f + C64[7]
    p = p * f + C64[8]
    p = p * f + C64[9]
    p = p * f + C64[10]
    p = p * f + C64[11]
    return _scaled64(p, shifted)


@njit(fastmath=CONTRACT, forceinline=True)
def exp2_32(y):  # type: ignore[no-untyped-def]
    """2^y in float32 for -126 <= y < 128."""
    shifted = y + ROUND32
    f = y - (shifted - ROUND32)
    p = C32[0]
    p = p * f + C32[1]
    p = p * f + C32[2]
    p = p * f + C32[3]
    p = p * f + C32[4]
    p = p * f + C32[5]
    p = p * f + C32[6]
    return _scaled32(p, shifted)


# --- limits: exponentials from and into registers -----------------------------------------------------------------


@njit(fastmath=REORDER, parallel=True, cache=True)
def exps64(y, rounds):  # type: ignore[no-untyped-def]
    """Sums of 2^(y_j + i) over the few numbers y_j, for i in the rounds of each part."""
    total = np.zeros(rounds.shape[0])
    for part in prange(rounds.shape[0]):
        for shift in rounds[part]:
            acc = 0.0
            for j in range(len(y)):
                acc += exp2_64(y[j] + shift)
            total[part] += acc
    return total


@njit(fastmath=REORDER, parallel=True, cache=True)
def exps32(y, rounds):  # type: ignore[no-untyped-def]
    """The same in float32."""
    total = np.zeros(rounds.shape[0], np.float32)
    for part in prange(rounds.shape[0]):
        for shift in rounds[part]:
            acc = np.float32(0.0)
            for j in range(len(y)):
                acc += exp2_32(y[j] + shift)
            total[part] += acc
    return total


def exponentials(count: float, dtype: type = np.float64) -> int:
    """Compute about ``count`` exponentials on all cores; returns how many."""
    y = np.linspace(-2.0, -1.0, 2048).astype(dtype)
    parts = 4 * (os.cpu_count() or 1)
    rounds = np.linspace(-1.0, 0.0, parts * max(1, round(count / len(y) / parts))).reshape(parts, -1).astype(dtype)
    (exps64 if dtype is np.float64 else exps32)(y, rounds)
    return rounds.size * len(y)


# --- attention of tokens on S^2, coordinates in rows of a (3, n) array ---------------------------------------------


@njit(fastmath=REORDER, forceinline=True)
def _row(k0, k1, k2, q0, q1, q2, shift):  # type: ignore[no-untyped-def]
    """sum_j e_j and sum_j e_j k_j with e_j = 2^(<q, k_j> - shift)."""
    z, g0, g1, g2 = 0.0, 0.0, 0.0, 0.0
    for j in range(len(k0)):
        e = exp2_64(q0 * k0[j] + q1 * k1[j] + q2 * k2[j] - shift)
        z += e
        g0 += e * k0[j]
        g1 += e * k1[j]
        g2 += e * k2[j]
    return z, g0, g1, g2


@njit(fastmath=REORDER, cache=True)
def _velocity(X, beta, a, w):  # type: ignore[no-untyped-def]
    """w = |x| f(x/|x|) with f = P_x(sum_j A_ij x_j); a is room for the unit tokens."""
    n = X.shape[1]
    for i in range(n):
        size = 1.0 / math.sqrt(X[0, i] ** 2 + X[1, i] ** 2 + X[2, i] ** 2)
        a[0, i], a[1, i], a[2, i] = X[0, i] * size, X[1, i] * size, X[2, i] * size
    scale = beta * LOG2E
    for i in range(n):
        u0, u1, u2 = a[0, i], a[1, i], a[2, i]
        z, p0, p1, p2 = _row(a[0], a[1], a[2], scale * u0, scale * u1, scale * u2, scale)
        along = p0 * u0 + p1 * u1 + p2 * u2
        size = math.sqrt(X[0, i] ** 2 + X[1, i] ** 2 + X[2, i] ** 2) / z
        w[0, i] = size * (p0 - along * u0)
        w[1, i] = size * (p1 - along * u1)
        w[2, i] = size * (p2 - along * u2)


@njit(fastmath=REORDER, cache=True)
def _rk4_run(x0, beta, dt, steps, every, saved):  # type: ignore[no-untyped-def]
    n = x0.shape[0]
    X, Y, total, w, a = np.empty((3, n)), np.empty((3, n)), np.empty((3, n)), np.empty((3, n)), np.empty((3, n))
    for c in range(3):
        X[c] = x0[:, c]
    saved[0] = x0
    for k in range(steps):
        Y[:] = X
        total[:] = 0.0
        for stage in range(4):
            _velocity(Y, beta, a, w)
            weight = 1.0 if stage in (0, 3) else 2.0
            ahead = dt if stage == 2 else dt / 2
            for c in range(3):
                for i in range(n):
                    total[c, i] += weight * w[c, i]
                    Y[c, i] = X[c, i] + ahead * w[c, i]
        for i in range(n):
            for c in range(3):
                X[c, i] += dt / 6 * total[c, i]
            size = 1.0 / math.sqrt(X[0, i] ** 2 + X[1, i] ** 2 + X[2, i] ** 2)
            for c in range(3):
                X[c, i] *= size
        if (k + 1) % every == 0:
            for c in range(3):
                saved[(k + 1) // every, :, c] = X[c]


@njit(fastmath=REORDER, parallel=True, cache=True)
def _rk4_runs(x0, beta, dt, steps, every, saved):  # type: ignore[no-untyped-def]
    for b in prange(x0.shape[0]):
        _rk4_run(x0[b], beta[b], dt, steps, every, saved[b])


@njit(fastmath=REORDER, parallel=True, cache=True)
def _one_velocity(K, beta, w):  # type: ignore[no-untyped-def]
    scale = beta * LOG2E
    for i in prange(K.shape[1]):
        u0, u1, u2 = K[0, i], K[1, i], K[2, i]
        z, p0, p1, p2 = _row(K[0], K[1], K[2], scale * u0, scale * u1, scale * u2, scale)
        along = p0 * u0 + p1 * u1 + p2 * u2
        w[i, 0] = (p0 - along * u0) / z
        w[i, 1] = (p1 - along * u1) / z
        w[i, 2] = (p2 - along * u2) / z


def rk4(x0: np.ndarray, beta: float, dt: float, steps: int, every: int = 1) -> np.ndarray:
    """One run on S^2 by one core, saved every so many steps, (T, n, 3)."""
    saved = np.empty((steps // every + 1, *x0.shape))
    _rk4_run(x0, beta, dt, steps, every, saved)
    return saved


def rk4_many(x0: np.ndarray, beta: np.ndarray, dt: float, steps: int, every: int) -> np.ndarray:
    """Many runs, each with its beta, on all cores, (T, B, n, 3)."""
    saved = np.empty((len(x0), steps // every + 1, *x0.shape[1:]))
    _rk4_runs(x0, beta, dt, steps, every, saved)
    return saved.swapaxes(0, 1)


def velocity(x: np.ndarray, beta: float) -> np.ndarray:
    """One velocity on S^2 by all cores, (n, 3)."""
    w = np.empty_like(x)
    _one_velocity(np.ascontiguousarray(x.T), beta, w)
    return w
