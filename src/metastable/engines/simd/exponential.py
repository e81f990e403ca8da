"""2^y and e^x for vectors of floats.

    2^y = 2^n 2^f,   n = round(y),   f = y - n in [-1/2, 1/2] exactly

2^f is a polynomial that interpolates at Chebyshev points (degree 11: relative error 8e-18; degree 6 in float32:
5e-9). Adding 1.5 * 2^52 rounds y to a whole number and leaves n in the lowest bits, so that multiplying by 2^n is an
addition to the exponent's bits. Kernels fold beta * log2(e) into the queries and use `exp2` alone.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from metastable.engines.simd.loads import load, store
from metastable.engines.simd.vectors import Lanes, fill, fma, inlined, kernel

LOG2E = 1.4426950408889634
LN2 = 0.6931471805599453

# log2(e) minus its float64 and its float32
_REST64, _REST32 = 2.0355273740931033e-17, 1.925962991126617e-08

_ROUND64, _ROUND32 = 6755399441055744.0, 12582912.0  # 1.5 * 2^52, 1.5 * 2^23


@intrinsic
def _times_power(typing: Any, p: Any, rounded: Any, y: Any) -> Any:
    """p * 2^n with n in the low bits of ``rounded``; 0 where y < -1022 (-126), the edge of normal floats."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = args[0].type
        bits, mantissa, least = (64, 52, -1022.0) if p.dtype == types.float64 else (32, 23, -126.0)
        whole = ir.VectorType(ir.IntType(bits), kind.count)
        power = builder.shl(builder.bitcast(args[1], whole), ir.Constant(whole, [mantissa] * kind.count))
        scaled = builder.bitcast(builder.add(builder.bitcast(args[0], whole), power), kind)
        tiny = builder.fcmp_ordered("<", args[2], ir.Constant(kind, [least] * kind.count))
        return builder.select(tiny, ir.Constant(kind, [0.0] * kind.count), scaled)

    return p(p, rounded, y), generate


@inlined
def _exp2_double(y: Any) -> Any:
    rounded = y + fill(y, _ROUND64)
    f = y - (rounded - fill(y, _ROUND64))
    p = fill(y, 4.4549605981865186e-10)
    p = fma(p, f, fill(y, 7.072585949269223e-09))
    p = fma(p, f, fill(y, 1.0178062445845774e-07))
    p = fma(p, f, fill(y, 1.321544258792169e-06))
    p = fma(p, f, fill(y, 1.525273382983612e-05))
    p = fma(p, f, fill(y, 0.0001540353044173605))
    p = fma(p, f, fill(y, 0.0013333558146416936))
    p = fma(p, f, fill(y, 0.009618129107606888))
    p = fma(p, f, fill(y, 0.0555041086648216))
    p = fma(p, f, fill(y, 0.24022650695910097))
    p = fma(p, f, fill(y, 0.6931471805599453))
    p = fma(p, f, fill(y, 1.0))
    return _times_power(p, rounded, y)


@inlined
def _exp2_single(y: Any) -> Any:
    rounded = y + fill(y, _ROUND32)
    f = y - (rounded - fill(y, _ROUND32))
    p = fill(y, 0.0001545316294512069)
    p = fma(p, f, fill(y, 0.0013390863364671234))
    p = fma(p, f, fill(y, 0.009618082557277852))
    p = fma(p, f, fill(y, 0.05550357114219078))
    p = fma(p, f, fill(y, 0.24022650760568126))
    p = fma(p, f, fill(y, 0.6931471880262288))
    p = fma(p, f, fill(y, 1.0))
    return _times_power(p, rounded, y)


def exp2(y: Any) -> Any:
    """2^y for lanes y < 1024 (128 in float32); 0 below -1022 (-126). For use inside kernels."""
    raise NotImplementedError("exp2 works inside numba kernels only")


@overload(exp2, strict=False)
def _exp2_typed(y: Any) -> Any:
    if not isinstance(y, Lanes):
        return None
    if y.dtype == types.float64:
        return lambda y: _exp2_double(y)
    return lambda y: _exp2_single(y)


@kernel
def _exp_into(x: Any, out: Any, width: int, rest: float) -> None:
    """out = e^x, row by row; what rounding x * log2(e) loses is put back to first order."""
    for i in range(x.shape[0]):
        for j in range(0, x.shape[1], width):
            a = load(x, i, j)
            high = a * fill(a, LOG2E)
            low = fma(a, fill(a, LOG2E), fill(a, 0.0) - high) + a * fill(a, rest)
            e = exp2(high)
            store(out, i, j, fma(e * fill(a, LN2), low, e))


def vexp(x: np.ndarray) -> np.ndarray:
    """e^x for float64 or float32 arrays, within 2 units in the last place of NumPy.

    Results below the normal range (x < -708.4, or -87.3 in float32) are 0 and above it inf; nan stays nan.

    >>> vexp(np.array([0.0, -np.inf, 1.0])).round(6).tolist()
    [1.0, 0.0, 2.718282]
    """
    x = np.asarray(x)
    single = x.dtype == np.float32
    work = np.dtype(np.float32 if single else np.float64)
    low, high = (-104.0, 88.72283) if single else (-746.0, 709.782712893384)
    flat = x.astype(work).ravel()
    columns = 16 if single else 8
    padded = np.zeros((1, -(-flat.size // columns) * columns), work)
    padded[0, : flat.size] = np.clip(flat, low, high)  # clip keeps nan
    out = np.empty_like(padded)
    _exp_into(padded, out, columns, _REST32 if single else _REST64)
    values = np.where(flat > high, work.type(np.inf), out[0, : flat.size])
    return values.reshape(x.shape)
