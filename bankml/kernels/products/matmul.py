# SPDX-License-Identifier: MIT OR Apache-2.0
"""What all matrix products share: the argument block, the split into chunks, the end of an output.

Weights are packed into groups of W rows, so that a vector lane is a weight row and each output keeps the reference's order
of sums. out[j, i] = W[i, :] . x[j, :], multiplied by the matrix's scale afterwards; then bias and residual are added, each step
with its own rounding.
"""

from __future__ import annotations

from bankml.kernels.compiler import types
from bankml.kernels.compiler.isa import W
from bankml.kernels.compiler.native import compiled
from bankml.kernels.compiler.simd import ADDR, f32xw, ld_f32, ld_i64, vadd, vld, vmul, vsplat, vst

# Words of the argument block.
FIELDS = 16
(
    WEIGHTS,
    GROUPS,
    BLOCKS,
    Y,
    Y_STRIDE,
    OUT,
    OUT_STRIDE,
    BIAS,
    RESIDUAL,
    ROW_PARTS,
    COLUMNS,
    COLUMN_PART,
    ROWS,
    K,
    TYPE,
    SCALE,
) = range(16)


def padded(rows: int) -> int:
    """Rows of an output buffer: whole groups of the widest vector."""
    return (rows + 15) // 16 * 16


def groups(rows: int) -> int:
    """Groups of W rows."""
    return (rows + W - 1) // W


@compiled("intp(intp, intp, intp)")
def part_start(total, parts, index):
    """First item of part `index` when `total` items are cut into `parts` nearly equal parts."""
    return total * index // parts


@compiled(types.void(ADDR, ADDR, ADDR, f32xw))
def finish(args, column, group, value):
    """Apply scale, bias and residual where the block names them, and store W outputs of one column."""
    at = group * (4 * W)
    scale = ld_i64(args, SCALE)
    if scale != 0:
        value = vmul(value, vsplat(ld_f32(scale, 0)))
    bias = ld_i64(args, BIAS)
    if bias != 0:
        value = vadd(value, vld(bias + at))
    at += column * ld_i64(args, OUT_STRIDE) * 4
    residual = ld_i64(args, RESIDUAL)
    if residual != 0:
        value = vadd(value, vld(residual + at))
    vst(ld_i64(args, OUT) + at, value)
