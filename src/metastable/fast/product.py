"""The inner block of a matrix product, in registers."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from metastable.fast.lanes import LANES, llvm, place, spread

HEIGHT, VECTORS = 8, 2  # rows and vectors of the block of sums that stays in registers


@intrinsic  # type: ignore[misc]
def multiply_add(typing: Any, a: Any, i: Any, depth: Any, b: Any, k: Any, out: Any, r: Any, c: Any) -> Any:
    """out[r + u, c + l] += sum_{s < depth} a[i + u, s] b[k + s, l] for HEIGHT rows u and VECTORS vectors l."""
    kind = LANES[a.dtype]
    whole = types.intp
    block = [(u, v) for u in range(HEIGHT) for v in range(VECTORS)]

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a_kind, _, _, b_kind, _, out_kind, _, _ = signature.args
        a, i, depth, b, k, out, r, c = args
        lanes = context.get_value_type(kind)
        bytes_each = kind.dtype.bitwidth // 8
        multiply = llvm(builder, "llvm.fmuladd", lanes, 3)

        def constant(value: int) -> Any:
            return context.get_constant(whole, value)

        sums = {at: cgutils.alloca_once(builder, lanes) for at in block}
        for at in block:
            builder.store(ir.Constant(lanes, [0.0] * lanes.count), sums[at])
        with cgutils.for_range(builder, depth, intp=depth.type) as loop:
            row = builder.add(k, loop.index)
            right = [
                builder.load(place(context, builder, b_kind, b, row, constant(v * kind.width)), align=bytes_each)
                for v in range(VECTORS)
            ]
            for u in range(HEIGHT):
                one = place(context, builder, a_kind, a, builder.add(i, constant(u)), loop.index)
                left = spread(builder, builder.load(builder.bitcast(one, lanes.element.as_pointer())), lanes)
                for v in range(VECTORS):
                    builder.store(builder.call(multiply, [left, right[v], builder.load(sums[u, v])]), sums[u, v])
        for u, v in block:
            column = builder.add(c, constant(v * kind.width))
            at = place(context, builder, out_kind, out, builder.add(r, constant(u)), column)
            added = builder.fadd(builder.load(at, align=bytes_each), builder.load(sums[u, v]))
            builder.store(added, at, align=bytes_each)
        return context.get_dummy_value()

    return types.void(a, whole, whole, b, whole, out, whole, whole), generate
