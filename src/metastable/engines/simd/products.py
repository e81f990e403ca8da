"""The inner block of a matrix product, in registers."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from metastable.engines.simd.loads import place
from metastable.engines.simd.vectors import LANES, llvm, registers, spread

VECTORS = 2  # vectors in a row of the block of sums that stays in registers


def _height() -> int:
    """Rows of the block: as many of 8, 4, 2 as leave registers for a row of the other factor and a number of this one.

    A vector of 64 bytes is one register with AVX-512, two with AVX2, four with NEON. Sums that do not fit are written
    to memory and read back at every step of the product, which halves its speed (measured with 8 rows on AVX2: 14
    thousand million operations a second and core in float64, with 2 rows 42, OpenBLAS 33).
    """
    size, count = registers()
    each = 64 // size
    return next((rows for rows in (8, 4) if (rows + 1) * VECTORS * each + 1 <= count), 2)


HEIGHT = _height()


def _block_product(add: bool) -> Any:
    """The intrinsic that sets, or adds to, a block of ``out``."""

    @intrinsic
    def product(typing: Any, a: Any, i: Any, depth: Any, b: Any, k: Any, out: Any, r: Any, c: Any) -> Any:
        kind = LANES[a.dtype]
        whole = types.intp
        block = [(u, v) for u in range(HEIGHT) for v in range(VECTORS)]

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            a_kind, _, _, b_kind, _, out_kind, _, _ = signature.args
            a, i, depth, b, k, out, r, c = args
            lanes = context.get_value_type(kind)
            size = kind.dtype.bitwidth // 8
            multiply = llvm(builder, "llvm.fmuladd", lanes, 3)

            def constant(value: int) -> Any:
                return context.get_constant(whole, value)

            sums = {at: cgutils.alloca_once(builder, lanes) for at in block}
            for at in block:
                builder.store(ir.Constant(lanes, [0.0] * lanes.count), sums[at])
            with cgutils.for_range(builder, depth, intp=depth.type) as loop:
                row = builder.add(k, loop.index)
                right = [
                    builder.load(place(context, builder, b_kind, b, row, constant(v * kind.width)), align=size)
                    for v in range(VECTORS)
                ]
                for u in range(HEIGHT):
                    one = place(context, builder, a_kind, a, builder.add(i, constant(u)), loop.index)
                    left = spread(builder, builder.load(builder.bitcast(one, lanes.element.as_pointer())), lanes)
                    for v in range(VECTORS):
                        added = builder.call(multiply, [left, right[v], builder.load(sums[u, v])])
                        builder.store(added, sums[u, v])
            for u, v in block:
                column = builder.add(c, constant(v * kind.width))
                at = place(context, builder, out_kind, out, builder.add(r, constant(u)), column)
                done = builder.load(sums[u, v])
                if add:
                    done = builder.fadd(builder.load(at, align=size), done)
                builder.store(done, at, align=size)
            return context.get_dummy_value()

        return types.void(a, whole, whole, b, whole, out, whole, whole), generate

    return product


# (a, i, depth, b, k, out, r, c): out[r + u, c + l] = (or +=) sum_{s < depth} a[i + u, s] b[k + s, l]
# for HEIGHT rows u and VECTORS vectors of columns l
multiply = _block_product(add=False)
multiply_add = _block_product(add=True)
