"""Vectors of floats as values inside numba kernels.

LLVM's own vectoriser stops at half the width of an AVX-512 register and reorders long polynomials so that registers
spill. Kernels of this package therefore say what a vector is: eight float64 or sixteen float32 lanes, a value with
``+ - * /`` like any other, which every processor's back end splits into registers of the size it has (measured: 1.17
against 0.73 thousand million pairs a second and core).

How they are read from arrays and written to them: `metastable.engines.simd.loads`.
"""

import hashlib
import operator
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import config, njit, types
from numba.core import cgutils
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

from metastable.backend import can_keep

WIDTH = {np.dtype(np.float64): 8, np.dtype(np.float32): 16}


def _fingerprint() -> str:
    engines = Path(__file__).parents[1]
    texts = {path: path.read_bytes() for path in sorted(engines.parent.glob("*/**/*.py"))}
    kernels = [text for path, text in texts.items() if b"engines.simd" in text or path.parent == engines / "simd"]
    return hashlib.sha256(b"".join(kernels)).hexdigest()[:12]


# numba takes a kept kernel for good as long as the file of the kernel itself is unchanged, but kernels contain
# functions and numbers of other files. The name under which a kernel is kept therefore tells all sources.
SOURCES = _fingerprint()


def kernel_home() -> Path | None:
    """Where this installation's kernels are kept: in the user's cache, not beside the package; None where nowhere."""
    package = Path(__file__).resolve().parents[2]
    return can_keep(f"kernels/{hashlib.sha256(str(package).encode()).hexdigest()[:8]}")


def kept(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """numba's ``njit``, with what it compiles kept between processes where that is possible."""

    def compiled(function: Callable[..., Any]) -> Any:
        before = config.CACHE_DIR  # NUMBA_CACHE_DIR, where it is set; of other packages' functions it stays so
        config.CACHE_DIR = before or str(kernel_home() or "")
        try:
            return njit(cache=bool(config.CACHE_DIR), **options)(function)
        finally:
            config.CACHE_DIR = before

    return compiled


def features() -> str:
    """The features that kernels are compiled for, in LLVM's names: the host's, or those in ``NUMBA_CPU_FEATURES``."""
    return str(config.CPU_FEATURES or binding.get_host_cpu_features().flatten())


def registers() -> tuple[int, int]:
    """(bytes of a vector register, how many there are)."""
    if "+avx512f" in features():
        return 64, 32
    if "+avx" in features():
        return 32, 16
    return 16, 16 if platform.machine().lower() in ("x86_64", "amd64", "i686") else 32


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function when it is first called, and keep it between processes.

    Kernels release the interpreter's lock: `threads.share` runs them on all cores without any OpenMP pool.
    """
    function.__qualname__ += f"_{SOURCES}"
    return kept(nogil=True, error_model="numpy")(function)


# Small functions are copied into the kernels that call them.
inlined = njit(forceinline=True, error_model="numpy")
# Larger ones are called by kernels only, so they need no way in from Python, which takes long to compile.
inner = njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)


class Lanes(types.Type):  # type: ignore[misc]
    """The numba type of a vector of ``width`` floats."""

    def __init__(self, dtype: Any, width: int) -> None:
        self.dtype = dtype
        self.width = width
        super().__init__(name=f"Lanes({dtype}, {width})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Lanes) -> None:
        element = ir.DoubleType() if kind.dtype == types.float64 else ir.FloatType()
        super().__init__(manager, kind, ir.VectorType(element, kind.width))


LANES = {types.float64: Lanes(types.float64, 8), types.float32: Lanes(types.float32, 16)}


# --- numbers in all lanes --------------------------------------------------------------------------------------------


def spread(builder: Any, scalar: Any, kind: Any) -> Any:
    """A vector of LLVM type ``kind`` whose lanes all equal ``scalar``."""
    empty = ir.Constant(kind, ir.Undefined)
    one = builder.insert_element(empty, scalar, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, empty, ir.Constant(ir.VectorType(ir.IntType(32), kind.count), [0] * kind.count))


@intrinsic
def fill(typing: Any, like: Any, value: Any) -> Any:
    """Lanes of the kind of ``like`` (lanes or an array), all equal to the float ``value``."""
    kind = LANES[like.dtype]

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        scalar = context.cast(builder, args[1], signature.args[1], kind.dtype)
        return spread(builder, scalar, context.get_value_type(kind))

    return kind(like, value), generate


# --- arithmetic -------------------------------------------------------------------------------------------------


def llvm(builder: Any, name: str, kind: Any, count: int, result: Any = None, first: Any = None) -> Any:
    """The LLVM intrinsic ``name`` for vectors of ``kind`` (llvmlite names only scalar ones)."""
    suffix = f"v{kind.count}f{64 if isinstance(kind.element, ir.DoubleType) else 32}"
    takes = ([first] if first is not None else []) + [kind] * count
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result or kind, takes), f"{name}.{suffix}")


def _operator(symbol: Callable[[Any, Any], Any], method: str) -> None:
    @type_callable(symbol)
    def resolve(context: Any) -> Any:
        return lambda a, b: a if isinstance(a, Lanes) and a == b else None

    @lower_builtin(symbol, Lanes, Lanes)
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return getattr(builder, method)(*args)


_operator(operator.add, "fadd")
_operator(operator.sub, "fsub")
_operator(operator.mul, "fmul")
_operator(operator.truediv, "fdiv")


@intrinsic
def fma(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c, in one rounding where the processor can."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.call(llvm(builder, "llvm.fmuladd", args[0].type, 3), args)

    return a(a, b, c), generate


@intrinsic
def larger(typing: Any, a: Any, b: Any) -> Any:
    """The larger of two vectors, lane by lane."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return a(a, b), generate


@intrinsic
def magnitude(typing: Any, a: Any) -> Any:
    """|a|, lane by lane."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.call(llvm(builder, "llvm.fabs", args[0].type, 1), args)

    return a(a), generate


@intrinsic
def root(typing: Any, a: Any) -> Any:
    """The square root, lane by lane."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.call(llvm(builder, "llvm.sqrt", args[0].type, 1), args)

    return a(a), generate


@intrinsic
def reaches(typing: Any, a: Any, b: Any) -> Any:
    """1 where a >= b, else 0."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = args[0].type
        one, zero = (ir.Constant(kind, [value] * kind.count) for value in (1.0, 0.0))
        return builder.select(builder.fcmp_ordered(">=", *args), one, zero)

    return a(a, b), generate


@intrinsic
def total(typing: Any, a: Any) -> Any:
    """The sum of the lanes, added in pairs."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = args[0].type
        add = llvm(builder, "llvm.vector.reduce.fadd", kind, 1, kind.element, kind.element)
        return builder.call(add, [ir.Constant(kind.element, 0.0), args[0]], fastmath=("reassoc",))

    return a.dtype(a), generate


@intrinsic
def top(typing: Any, a: Any) -> Any:
    """The largest lane; none may be nan."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = args[0].type
        return builder.call(llvm(builder, "llvm.vector.reduce.fmax", kind, 1, kind.element), args, fastmath=("nnan",))

    return a.dtype(a), generate


@intrinsic
def within(typing: Any, a: Any, j: Any, low: Any, high: Any, other: Any) -> Any:
    """Lanes j, j + 1, ... of a where low <= j < high, and the float ``other`` elsewhere."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = args[0].type
        whole = ir.VectorType(ir.IntType(64), kind.count)
        index = builder.add(spread(builder, args[1], whole), ir.Constant(whole, list(range(kind.count))))
        inside = builder.and_(
            builder.icmp_signed(">=", index, spread(builder, args[2], whole)),
            builder.icmp_signed("<", index, spread(builder, args[3], whole)),
        )
        outside = spread(builder, context.cast(builder, args[4], signature.args[4], a.dtype), kind)
        return builder.select(inside, args[0], outside)

    return a(a, types.intp, types.intp, types.intp, other), generate


@intrinsic
def between(typing: Any, a: Any, value: Any, low: Any, high: Any, other: Any) -> Any:
    """Lanes of a where low <= value < high, lane by lane, and the float ``other`` elsewhere."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        inside = builder.and_(builder.fcmp_ordered(">=", args[1], args[2]), builder.fcmp_ordered("<", args[1], args[3]))
        outside = spread(builder, context.cast(builder, args[4], signature.args[4], a.dtype), args[0].type)
        return builder.select(inside, args[0], outside)

    return a(a, value, low, high, other), generate
