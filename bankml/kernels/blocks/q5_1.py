# SPDX-License-Identifier: MIT OR Apache-2.0
"""Q5_1 weights times q8_1 activations, in the order of the reference's vec_dot.

File block, 32 weights: ``half d, half m, byte high[4], byte q[16]``; weight = (nibble + 16*bit)*d + m.
Packed group of W rows, per block: ``half d[W], half m[W]``, the nibbles (nibbles.py), the fifth bits (fifth_bits.py).

Per output: acc[L] = fma(d*dy, isum[L], acc[L]), summs = fma(m, s, summs), result HS-A(acc) + summs.
Source: ggml_vec_dot_q5_1_q8_1, ggml-cpu/arch/x86/quants.c; the sum of minima is contracted by the compiler.
"""

from __future__ import annotations

from bankml.kernels.blocks.fifth_bits import fifth, five_bit_words, pack_fifth
from bankml.kernels.blocks.nibbles import lane_dots, pack_nibbles, plain_dot, weight_first
from bankml.kernels.blocks.walk import SUMS, many_rows, one_row, tile
from bankml.kernels.compiler.isa import W
from bankml.kernels.compiler.native import compiled, entry, kernel
from bankml.kernels.compiler.simd import F32, Emit, copy2, ld_f16, ld_i64, ld_u8, st_f32
from bankml.kernels.products.matmul import BLOCKS, COLUMN_PART, COLUMNS, OUT, OUT_STRIDE, WEIGHTS, Y
from bankml.kernels.superblocks.lanes import first_nan

BLOCK, BYTES = 32, 24
MINUS_OFFSET = 0
PACKED = W * BYTES
_Q, _HIGH = 4 * W, 20 * W


def _block(E, accs, w, ys, ds, xs, times=Emit.mul):
    m = E.ld_f16(w, 2 * W)
    sums = [E.fma(m, E.splat_ld(F32, x), acc[8]) for x, acc in zip(xs, accs, strict=True)]
    lanes = lane_dots(E, E.ld_f16(w), five_bit_words(E, w, _Q), plain_dot, [acc[:8] for acc in accs], ys, ds, xs, times)
    return [[*acc, total] for acc, total in zip(lanes, sums, strict=True)]


def _careful_block(E, accs, w, ys, ds, xs):
    return _block(E, accs, w, ys, ds, xs, weight_first)


def _end(E, vectors):
    return first_nan(E, E.hsum_a(vectors[:8]), vectors[8])


_COLUMNS = 3 if W == 16 else 2
_step1, _zeros1, _result1 = tile("q5_1", 1, 9, _block, _end, PACKED)
_careful, _, _ = tile("q5_1_careful", 1, 9, _careful_block, _end, PACKED)
_stepn, _zerosn, _resultn = tile("q5_1", _COLUMNS, 9, _block, _end, PACKED)


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
            src = source + (r * blocks + b) * 24
            dst = packed + (r // W * blocks + b) * PACKED
            copy2(dst + 2 * i, src)
            copy2(dst + 2 * W + 2 * i, src + 2)
            pack_nibbles(src + 8, dst + _Q, i)
            pack_fifth(src + 4, dst + _HIGH, i)


@compiled("void(intp, intp, intp, intp)")
def unpack_row(packed, row, blocks, out):
    """Dequantize one row of packed weights: q*d, rounded, plus m."""
    i = row % W
    for b in range(blocks):
        src = packed + (row // W * blocks + b) * PACKED
        d = ld_f16(src, i)
        m = ld_f16(src, W + i)
        for e in range(16):
            q = ld_u8(src + _Q + (e // 4 * W + i) * 4, e % 4)
            st_f32(out, 32 * b + e, ((q & 15) + fifth(src + _HIGH, i, e)) * d + m)
            st_f32(out, 32 * b + 16 + e, ((q >> 4) + fifth(src + _HIGH, i, 16 + e)) * d + m)


@kernel
def get_rows(args, chunk, thread):
    """Dequantize the rows that `Y` (int64 row numbers) names; a chunk is a part of them."""
    packed, blocks, part = ld_i64(args, WEIGHTS), ld_i64(args, BLOCKS), ld_i64(args, COLUMN_PART)
    for j in range(chunk * part, min(ld_i64(args, COLUMNS), chunk * part + part)):
        unpack_row(packed, ld_i64(ld_i64(args, Y), j), blocks, ld_i64(args, OUT) + 4 * j * ld_i64(args, OUT_STRIDE))
