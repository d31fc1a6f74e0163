# SPDX-License-Identifier: MIT OR Apache-2.0
"""Q4_0 weights times q8_0 activations, in the order of the reference's repacked kernels (rows % 8 == 0).

File block, 32 weights: ``half d, byte q[16]``; weight = (nibble - 8)*d. Packed: nibbles.py, with ``half d[W]``.
The activation row carries minus 8 times its sums, so nibbles are multiplied as they are.
"""

from __future__ import annotations

from bankml.kernels.blocks.nibbles import (
    less,
    nibble_words,
    only,
    pack_nibbles,
    row_first,
    signed_totals,
    total_block,
    unsigned_totals,
)
from bankml.kernels.blocks.walk import TOTALS, many_rows, one_row, tile
from bankml.kernels.compiler.isa import W
from bankml.kernels.compiler.native import compiled, entry, kernel
from bankml.kernels.compiler.simd import copy2, ld_f16, ld_i64, ld_u8, st_f32
from bankml.kernels.products.matmul import BLOCKS, COLUMN_PART, COLUMNS, OUT, OUT_STRIDE, WEIGHTS, Y

BLOCK, BYTES = 32, 18
MINUS_OFFSET = -8
PACKED = W * BYTES
_Q = 2 * W


def _totals(E, w, ys, xs):
    return unsigned_totals(E, nibble_words(E, w, _Q), ys, xs, 15)


def _careful_totals(E, w, ys, xs):
    return signed_totals(E, less(E, nibble_words(E, w, _Q), 8), ys)


def _scale(E, w):
    return E.ld_f16(w)


_block = total_block(_scale, _totals)
_COLUMNS = 4
_step1, _zeros1, _result1 = tile("q4_0", 1, 1, _block, only, PACKED)
_careful, _, _ = tile("q4_0_careful", 1, 1, total_block(_scale, _careful_totals, row_first), only, PACKED)
_exact, _, _ = tile("q4_0_exact", 1, 1, total_block(_scale, _totals, row_first), only, PACKED)
_stepn, _zerosn, _resultn = tile("q4_0", _COLUMNS, 1, _block, only, PACKED)


@kernel
def gemv(args, chunk, thread):
    """One activation row, packed in the thread's scratch."""
    one_row(_step1, _careful, _zeros1, _result1, PACKED, 1, TOTALS, args, chunk, thread)


@kernel
def gemm(args, chunk, thread):
    """Many activation rows; a chunk is a part of the weight rows times a part of the columns."""
    many_rows(_stepn, _zerosn, _resultn, _COLUMNS, _step1, _careful, _zeros1, _result1, PACKED, 1, TOTALS, _exact, args, chunk)


@entry("void(intp, intp, intp, intp, intp, intp)")
def pack(source, packed, rows, blocks, first, last):
    """Pack groups first..last of a matrix of `rows` file rows; `packed` holds zeros before."""
    for r in range(first * W, min(rows, last * W)):
        i = r % W
        for b in range(blocks):
            src = source + (r * blocks + b) * 18
            dst = packed + (r // W * blocks + b) * PACKED
            copy2(dst + 2 * i, src)
            pack_nibbles(src + 2, dst + 2 * W, i)


@compiled("void(intp, intp, intp, intp)")
def unpack_row(packed, row, blocks, out):
    """Dequantize one row of packed weights: (nibble - 8)*d, rounded."""
    i = row % W
    for b in range(blocks):
        src = packed + (row // W * blocks + b) * PACKED
        d = ld_f16(src, i)
        for e in range(16):
            q = ld_u8(src + 2 * W + (e // 4 * W + i) * 4, e % 4)
            st_f32(out, 32 * b + e, ((q & 15) - 8) * d)
            st_f32(out, 32 * b + 16 + e, ((q >> 4) - 8) * d)


@kernel
def get_rows(args, chunk, thread):
    """Dequantize the rows that `Y` (int64 row numbers) names; a chunk is a part of them."""
    packed, blocks, part = ld_i64(args, WEIGHTS), ld_i64(args, BLOCKS), ld_i64(args, COLUMN_PART)
    for j in range(chunk * part, min(ld_i64(args, COLUMNS), chunk * part + part)):
        unpack_row(packed, ld_i64(ld_i64(args, Y), j), blocks, ld_i64(args, OUT) + 4 * j * ld_i64(args, OUT_STRIDE))
