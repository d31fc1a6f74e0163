# SPDX-License-Identifier: MIT OR Apache-2.0
"""Q8_0 weights times q8_0 activations, in the order of the reference's vec_dot and tinyBLAS (which agree).

File block, 32 weights: ``half d, int8 q[32]``; weight = q*d.
Packed group of W rows, per block: ``half d[W], byte q[8][W][4]``: word j of a row holds lane j. With VNNI the bytes are stored as
q+128, and the activation row carries minus 128 times its own sums to take that back.

Per output: acc[L] = fma(d*dy, isum[L], acc[L]), result HS-A(acc).
Source: ggml_vec_dot_q8_0_q8_0, ggml-cpu/arch/x86/quants.c; tinyBLAS_Q0_AVX, llamafile/sgemm.cpp.
"""

from __future__ import annotations

from bankml.kernels.blocks.nibbles import hsum, lane_dots, less, offset_dot, row_first, signed_dot, weight_first
from bankml.kernels.blocks.walk import FOURS, many_rows, one_row, tile
from bankml.kernels.compiler.isa import VNNI, W
from bankml.kernels.compiler.native import compiled, entry, kernel
from bankml.kernels.compiler.simd import IW, copy2, ld_f16, ld_i64, ld_u8, st_f32, st_i8
from bankml.kernels.products.matmul import BLOCKS, COLUMN_PART, COLUMNS, OUT, OUT_STRIDE, WEIGHTS, Y

BLOCK, BYTES = 32, 34
FLIP = 128 if VNNI else 0
MINUS_OFFSET = -FLIP
PACKED = W * BYTES
_Q = 2 * W


def _words(E, w):
    return ((lane, E.ld(IW, w, _Q + 4 * W * lane)) for lane in range(8))


def _block(E, accs, w, ys, ds, xs):
    return lane_dots(E, E.ld_f16(w), _words(E, w), offset_dot if VNNI else signed_dot, accs, ys, ds, xs)


def _careful_block(times):
    def block(E, accs, w, ys, ds, xs):
        return lane_dots(E, E.ld_f16(w), less(E, _words(E, w), FLIP), signed_dot, accs, ys, ds, xs, times)

    return block


_COLUMNS = 3 if W == 16 else 1
step1, zeros1, result1 = tile("q8_0", 1, 8, _block, hsum, PACKED)
careful, _, _ = tile("q8_0_careful", 1, 8, _careful_block(weight_first), hsum, PACKED)
_careful_of_many, _, _ = tile("q8_0_careful_of_many", 1, 8, _careful_block(row_first), hsum, PACKED)
_stepn, _zerosn, _resultn = tile("q8_0", _COLUMNS, 8, _block, hsum, PACKED)


@kernel
def gemv(args, chunk, thread):
    """One activation row, packed in the thread's scratch."""
    one_row(step1, careful, zeros1, result1, PACKED, 1, FOURS, args, chunk, thread)


@kernel
def gemm(args, chunk, thread):
    """Many activation rows; a chunk is a part of the weight rows times a part of the columns."""
    careful_one = _careful_of_many
    many_rows(_stepn, _zerosn, _resultn, _COLUMNS, step1, careful_one, zeros1, result1, PACKED, 1, FOURS, None, args, chunk)


@entry("void(intp, intp, intp, intp, intp, intp)")
def pack(source, packed, rows, blocks, first, last):
    """Pack groups first..last of a matrix of `rows` file rows; `packed` holds zeros before."""
    for r in range(first * W, min(rows, last * W)):
        i = r % W
        for b in range(blocks):
            src = source + (r * blocks + b) * 34
            dst = packed + (r // W * blocks + b) * PACKED
            copy2(dst + 2 * i, src)
            for j in range(8):
                for e in range(4):
                    st_i8(dst + _Q + (j * W + i) * 4, e, ld_u8(src + 2, 4 * j + e) ^ FLIP)


@compiled("void(intp, intp, intp, intp)")
def unpack_row(packed, row, blocks, out):
    """Dequantize one row of packed weights: q*d, rounded."""
    i = row % W
    for b in range(blocks):
        src = packed + (row // W * blocks + b) * PACKED
        d = ld_f16(src, i)
        for e in range(32):
            q = ld_u8(src + _Q + (e // 4 * W + i) * 4, e % 4) ^ FLIP
            st_f32(out, 32 * b + e, ((q ^ 128) - 128) * d)


@kernel
def get_rows(args, chunk, thread):
    """Dequantize the rows that `Y` (int64 row numbers) names; a chunk is a part of them."""
    packed, blocks = ld_i64(args, WEIGHTS), ld_i64(args, BLOCKS)
    part = ld_i64(args, COLUMN_PART)
    for j in range(chunk * part, min(ld_i64(args, COLUMNS), chunk * part + part)):
        unpack_row(packed, ld_i64(ld_i64(args, Y), j), blocks, ld_i64(args, OUT) + 4 * j * ld_i64(args, OUT_STRIDE))
