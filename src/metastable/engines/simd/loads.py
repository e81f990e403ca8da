"""How kernels read vectors from arrays and write them: two-dimensional arrays, C-contiguous."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from metastable.engines.simd.vectors import LANES, inlined, spread


def place(context: Any, builder: Any, kind: Any, array: Any, i: Any, j: Any, columns: int | None = None) -> Any:
    """The address of a[i, j] as a pointer to lanes; ``columns`` of the array where they are known when it compiles."""
    view = context.make_array(kind)(context, builder, array)
    across = cgutils.unpack_tuple(builder, view.shape)[1] if columns is None else ir.Constant(i.type, columns)
    at = builder.gep(view.data, [builder.add(builder.mul(i, across), j)])
    return builder.bitcast(at, context.get_value_type(LANES[kind.dtype]).as_pointer())


def _read(builder: Any, at: Any, dtype: Any) -> Any:
    lanes = builder.load(at)
    lanes.align = dtype.bitwidth // 8
    return lanes


def _write(context: Any, builder: Any, v: Any, at: Any, dtype: Any) -> Any:
    builder.store(v, at).align = dtype.bitwidth // 8
    return context.get_dummy_value()


def _in_all_lanes(context: Any, builder: Any, at: Any, dtype: Any) -> Any:
    kind = context.get_value_type(LANES[dtype])
    return spread(builder, builder.load(builder.bitcast(at, kind.element.as_pointer())), kind)


@intrinsic
def load(typing: Any, a: Any, i: Any, j: Any) -> Any:
    """The lanes a[i, j : j + width]."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _read(builder, place(context, builder, signature.args[0], *args), a.dtype)

    return LANES[a.dtype](a, types.intp, types.intp), generate


@intrinsic
def store(typing: Any, a: Any, i: Any, j: Any, v: Any) -> Any:
    """a[i, j : j + width] = v."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _write(context, builder, args[3], place(context, builder, signature.args[0], *args[:3]), a.dtype)

    return types.void(a, types.intp, types.intp, v), generate


@intrinsic
def every(typing: Any, a: Any, i: Any, j: Any) -> Any:
    """Lanes that all equal a[i, j], read without the test for negative places that numba's a[i, j] makes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _in_all_lanes(context, builder, place(context, builder, signature.args[0], *args), a.dtype)

    return LANES[a.dtype](a, types.intp, types.intp), generate


# --- arrays whose rows are one vector each: no product with a number of columns, a seventh of a kernel's time ---------


def _narrow(context: Any, builder: Any, signature: Any, a: Any, i: Any, j: Any = None) -> Any:
    """The address of a[i, j], or of a[i], where rows are one vector."""
    begin = ir.Constant(i.type, 0) if j is None else j
    return place(context, builder, signature.args[0], a, i, begin, LANES[signature.args[0].dtype].width)


@intrinsic
def row(typing: Any, a: Any, i: Any) -> Any:
    """The lanes a[i]."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _read(builder, _narrow(context, builder, signature, *args), a.dtype)

    return LANES[a.dtype](a, types.intp), generate


@intrinsic
def put(typing: Any, a: Any, i: Any, v: Any) -> Any:
    """a[i] = v."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _write(context, builder, args[2], _narrow(context, builder, signature, *args[:2]), a.dtype)

    return types.void(a, types.intp, v), generate


@intrinsic
def lane(typing: Any, a: Any, i: Any, j: Any) -> Any:
    """Lanes that all equal a[i, j]."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _in_all_lanes(context, builder, _narrow(context, builder, signature, *args), a.dtype)

    return LANES[a.dtype](a, types.intp, types.intp), generate


@inlined
def skew(a: Any) -> int:
    """The first column of a row array at which a cache line begins; numba's own arrays begin anywhere."""
    return int(-(a.ctypes.data // a.itemsize) % (64 // a.itemsize))
