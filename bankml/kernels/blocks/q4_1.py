# SPDX-License-Identifier: MIT OR Apache-2.0
"""Q4_1 weights times q8_1 activations, in the order of the reference's vec_dot.

File block, 32 weights: ``half d, half m, byte q[16]``; weight = d*nibble + m, low nibbles first.
Packed group of W rows, per block: ``half d[W], half m[W], byte q[4][W][4]``: word j of a row holds lane j in its low nibbles
and lane j+4 in its high nibbles.

Per output: acc[L] = fma(d*dy, isum[L], acc[L]), summs = fma(m, s, summs), result HS-A(acc) + summs.
Source: ggml_vec_dot_q4_1_q8_1, ggml-cpu/arch/x86/quants.c; the sum of minima is contracted by the compiler.
"""

from __future__ import annotations

from bankml.kernels.blocks.nibbles import row_first
from bankml.kernels.blocks.walk import SUMS, many_rows, one_row, tile
from bankml.kernels.compiler.isa import VNNI, W
from bankml.kernels.compiler.native import compiled, entry, kernel
from bankml.kernels.compiler.simd import F32, I32, IW, Emit, copy2, copy4, ld_f16, ld_i64, ld_u8, st_f32
from bankml.kernels.products.matmul import BLOCKS, COLUMN_PART, COLUMNS, OUT, OUT_STRIDE, WEIGHTS, Y
from bankml.kernels.superblocks.lanes import first_nan

BLOCK, BYTES = 32, 20
MINUS_OFFSET = 0
PACKED = W * BYTES
_Q = 4 * W


def _block(E, accs, w, ys, ds, xs, times=Emit.mul):
    """Eight vectors a column for the products, a ninth for the minima."""
    d, m = E.ld_f16(w), E.ld_f16(w, 2 * W)
    scales = [times(E, d, E.splat_ld(F32, at)) for at in ds]
    accs = [[*acc[:8], E.fma(m, E.splat_ld(F32, x), acc[8])] for acc, x in zip(accs, xs, strict=True)]
    # Sixteen times the sum times a sixteenth of the scale: exact, and it saves a shift.
    high = [E.mul(s, E.const(F32, 1 / 16, W)) for s in scales] if VNNI else scales
    zero, low_mask = E.const(I32, 0, W), E.const(I32, 0x0F0F0F0F, W)
    for j in range(4):
        q = E.ld(IW, w, _Q + 4 * W * j)
        low = E.b.and_(q, low_mask)
        up = E.b.and_(q, E.const(I32, -0x0F0F0F10, W)) if VNNI else E.b.and_(E.b.lshr(q, E.const(I32, 4, W)), low_mask)
        for c, y in enumerate(ys):
            for lane, part, scale in ((j, low, scales[c]), (j + 4, up, high[c])):
                dot = E.dot_u8s8(zero, part, E.splat_ld(I32, y, 4 * lane))
                accs[c][lane] = E.fma(scale, E.i2f(dot), accs[c][lane])
    return accs


def _careful_block(E, accs, w, ys, ds, xs):
    return _block(E, accs, w, ys, ds, xs, row_first)


def _result(E, vectors):
    return first_nan(E, E.hsum_a(vectors[:8]), vectors[8])


# Two columns fill the registers of the wide tier; with three the compiler spills and is a tenth slower.
_COLUMNS = 2 if W == 16 else 1
_step1, _zeros1, _result1 = tile("q4_1", 1, 9, _block, _result, PACKED)
_careful, _, _ = tile("q4_1_careful", 1, 9, _careful_block, _result, PACKED)
_stepn, _zerosn, _resultn = tile("q4_1", _COLUMNS, 9, _block, _result, PACKED)


@kernel
def gemv(args, chunk, thread):
    """One activation row, packed in the thread's scratch."""
    one_row(_step1, _careful, _zeros1, _result1, PACKED, 1, SUMS, args, chunk, thread)


@kernel
def gemm(args, chunk, thread):
    """Many activation rows; a chunk is a part of the weight rows times a part of the columns."""
    many_rows(_stepn, _zerosn, _resultn, _COLUMNS, _step1, _careful, _zeros1, _result1, PACKED, 1, SUMS, None, args, chunk)


@entry("void(intp, intp, intp, intp, intp, intp)")
def pack(source, packed, rows, blocks, first, last):
    """Pack groups first..last of a matrix of `rows` file rows; `packed` holds zeros before."""
    for r in range(first * W, min(rows, last * W)):
        i = r % W
        for b in range(blocks):
            src = source + (r * blocks + b) * 20
            dst = packed + (r // W * blocks + b) * PACKED
            copy2(dst + 2 * i, src)
            copy2(dst + 2 * W + 2 * i, src + 2)
            for j in range(4):
                copy4(dst + _Q + (j * W + i) * 4, src + 4 + 4 * j)


@compiled("void(intp, intp, intp, intp)")
def unpack_row(packed, row, blocks, out):
    """Dequantize one row of packed weights: d*nibble, rounded, plus m."""
    i = row % W
    for b in range(blocks):
        src = packed + (row // W * blocks + b) * PACKED
        d = ld_f16(src, i)
        m = ld_f16(src, W + i)
        for e in range(16):
            q = ld_u8(src + _Q + (e // 4 * W + i) * 4, e % 4)
            st_f32(out, 32 * b + e, d * (q & 15) + m)
            st_f32(out, 32 * b + 16 + e, d * (q >> 4) + m)


@kernel
def get_rows(args, chunk, thread):
    """Dequantize the rows that `Y` (int64 row numbers) names; a chunk is a part of them."""
    packed, blocks = ld_i64(args, WEIGHTS), ld_i64(args, BLOCKS)
    part = ld_i64(args, COLUMN_PART)
    for j in range(chunk * part, min(ld_i64(args, COLUMNS), chunk * part + part)):
        unpack_row(packed, ld_i64(ld_i64(args, Y), j), blocks, ld_i64(args, OUT) + 4 * j * ld_i64(args, OUT_STRIDE))
