# SPDX-License-Identifier: MIT OR Apache-2.0
"""Q5_0 weights times q8_0 activations, in the order of the reference's vec_dot and tinyBLAS (which agree).

File block, 32 weights: ``half d, byte high[4], byte q[16]``; weight = (nibble + 16*bit - 16)*d.
Packed group of W rows, per block: ``half d[W]``, the nibbles (nibbles.py), the fifth bits (fifth_bits.py).
The activation row carries minus 16 times its sums.
"""

from __future__ import annotations

from bankml.kernels.blocks.fifth_bits import fifth, five_bit_words, pack_fifth
from bankml.kernels.blocks.nibbles import hsum, lane_dots, less, offset_dot, pack_nibbles, row_first, signed_dot
from bankml.kernels.blocks.walk import FOURS, many_rows, one_row, tile
from bankml.kernels.compiler.isa import W
from bankml.kernels.compiler.native import compiled, entry, kernel
from bankml.kernels.compiler.simd import copy2, ld_f16, ld_i64, ld_u8, st_f32
from bankml.kernels.products.matmul import BLOCKS, COLUMN_PART, COLUMNS, OUT, OUT_STRIDE, WEIGHTS, Y

BLOCK, BYTES = 32, 22
MINUS_OFFSET = -16
PACKED = W * BYTES
_Q, _HIGH = 2 * W, 18 * W


def _block(E, accs, w, ys, ds, xs):
    return lane_dots(E, E.ld_f16(w), five_bit_words(E, w, _Q), offset_dot, accs, ys, ds, xs)


def _careful_block(E, accs, w, ys, ds, xs):
    return lane_dots(E, E.ld_f16(w), less(E, five_bit_words(E, w, _Q), 16), signed_dot, accs, ys, ds, xs, row_first)


_COLUMNS = 3 if W == 16 else 2
_step1, _zeros1, _result1 = tile("q5_0", 1, 8, _block, hsum, PACKED)
_careful, _, _ = tile("q5_0_careful", 1, 8, _careful_block, hsum, PACKED)
_stepn, _zerosn, _resultn = tile("q5_0", _COLUMNS, 8, _block, hsum, PACKED)


@kernel
def gemv(args, chunk, thread):
    """One activation row, packed in the thread's scratch."""
    one_row(_step1, _careful, _zeros1, _result1, PACKED, 1, FOURS, args, chunk, thread)


@kernel
def gemm(args, chunk, thread):
    """Many activation rows; a chunk is a part of the weight rows times a part of the columns."""
    many_rows(_stepn, _zerosn, _resultn, _COLUMNS, _step1, _careful, _zeros1, _result1, PACKED, 1, FOURS, None, args, chunk)


@entry("void(intp, intp, intp, intp, intp, intp)")
def pack(source, packed, rows, blocks, first, last):
    """Pack groups first..last of a matrix of `rows` file rows; `packed` holds zeros before."""
    for r in range(first * W, min(rows, last * W)):
        i = r % W
        for b in range(blocks):
            src = source + (r * blocks + b) * 22
            dst = packed + (r // W * blocks + b) * PACKED
            copy2(dst + 2 * i, src)
            pack_nibbles(src + 6, dst + _Q, i)
            pack_fifth(src + 2, dst + _HIGH, i)


@compiled("void(intp, intp, intp, intp)")
def unpack_row(packed, row, blocks, out):
    """Dequantize one row of packed weights: (q - 16)*d, rounded."""
    i = row % W
    for b in range(blocks):
        src = packed + (row // W * blocks + b) * PACKED
        d = ld_f16(src, i)
        for e in range(16):
            q = ld_u8(src + _Q + (e // 4 * W + i) * 4, e % 4)
            st_f32(out, 32 * b + e, ((q & 15) + fifth(src + _HIGH, i, e) - 16) * d)
            st_f32(out, 32 * b + 16 + e, ((q >> 4) + fifth(src + _HIGH, i, 16 + e) - 16) * d)


@kernel
def get_rows(args, chunk, thread):
    """Dequantize the rows that `Y` (int64 row numbers) names; a chunk is a part of them."""
    packed, blocks, part = ld_i64(args, WEIGHTS), ld_i64(args, BLOCKS), ld_i64(args, COLUMN_PART)
    for j in range(chunk * part, min(ld_i64(args, COLUMNS), chunk * part + part)):
        unpack_row(packed, ld_i64(ld_i64(args, Y), j), blocks, ld_i64(args, OUT) + 4 * j * ld_i64(args, OUT_STRIDE))
