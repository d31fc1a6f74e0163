# SPDX-License-Identifier: MIT OR Apache-2.0
"""IQ4_NL weights times q8_0 activations, in the order of the reference's repacked kernels (rows % 8 == 0).

File block, 32 weights: ``half d, byte q[16]``; weight = VALUES[nibble]*d. Packed: nibbles.py, with ``half d[W]``.
With VNNI the values are looked up with 127 added, and the activation row carries minus 127 times its sums.
"""

from __future__ import annotations

import numpy as np

from bankml.kernels.blocks.nibbles import (
    exact_totals,
    look_up,
    nibble_words,
    only,
    row_first,
    signed_totals,
    total_block,
    unsigned_totals,
)
from bankml.kernels.blocks.q4_0 import BLOCK, BYTES, PACKED, pack
from bankml.kernels.blocks.walk import TOTALS, many_rows, one_row, tile
from bankml.kernels.compiler.isa import VNNI, W
from bankml.kernels.compiler.native import compiled, kernel
from bankml.kernels.compiler.simd import ld_f16, ld_i64, ld_u8, st_f32
from bankml.kernels.products.matmul import BLOCKS, COLUMN_PART, COLUMNS, OUT, OUT_STRIDE, WEIGHTS, Y

__all__ = ["BLOCK", "BYTES", "MINUS_OFFSET", "PACKED", "gemm", "gemv", "get_rows", "pack", "unpack_row"]

# Source: kvalues_iq4nl, ggml-common.h.
VALUES = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
OFFSET = 127 if VNNI else 0
MINUS_OFFSET = -OFFSET
_VALUES = np.array(VALUES, np.float32)


def words(E, w):
    """(lane, values as bytes): unsigned with OFFSET added, signed where there is none."""
    return [(lane, look_up(E, q, [v + OFFSET for v in VALUES])) for lane, q in nibble_words(E, w, 2 * W)]


def totals(E, w, ys, xs):
    """Dot products of whole blocks; not exact on AVX2 where a quant is -128."""
    return unsigned_totals(E, words(E, w), ys, xs, 240) if VNNI else signed_totals(E, words(E, w), ys)


def lossless_totals(E, w, ys, xs):
    """Dot products of whole blocks, exact for any quants."""
    return totals(E, w, ys, xs) if VNNI else exact_totals(E, words(E, w), ys)


def signed_words(E, w):
    """(lane, values as signed bytes)."""
    return [(lane, look_up(E, q, VALUES)) for lane, q in nibble_words(E, w, 2 * W)]


def careful_totals(E, w, ys, xs):
    """Dot products of whole blocks with rows that have a quant of -128."""
    return signed_totals(E, signed_words(E, w), ys)


def scale(E, w):
    """Scales of W rows."""
    return E.ld_f16(w)


_block = total_block(scale, totals)
_COLUMNS = 4
_step1, _zeros1, _result1 = tile("iq4_nl", 1, 1, _block, only, PACKED)
_careful, _, _ = tile("iq4_nl_careful", 1, 1, total_block(scale, careful_totals, row_first), only, PACKED)
_exact, _, _ = tile("iq4_nl_exact", 1, 1, total_block(scale, lossless_totals, row_first), only, PACKED)
_stepn, _zerosn, _resultn = tile("iq4_nl", _COLUMNS, 1, _block, only, PACKED)


@kernel
def gemv(args, chunk, thread):
    """One activation row, packed in the thread's scratch."""
    one_row(_step1, _careful, _zeros1, _result1, PACKED, 1, TOTALS, args, chunk, thread)


@kernel
def gemm(args, chunk, thread):
    """Many activation rows; a chunk is a part of the weight rows times a part of the columns."""
    many_rows(_stepn, _zerosn, _resultn, _COLUMNS, _step1, _careful, _zeros1, _result1, PACKED, 1, TOTALS, _exact, args, chunk)


@compiled("void(intp, intp, intp, intp)")
def unpack_row(packed, row, blocks, out):
    """Dequantize one row of packed weights: d times the value, rounded."""
    i = row % W
    for b in range(blocks):
        src = packed + (row // W * blocks + b) * PACKED
        d = ld_f16(src, i)
        for e in range(16):
            q = ld_u8(src + 2 * W + (e // 4 * W + i) * 4, e % 4)
            st_f32(out, 32 * b + e, _VALUES[q & 15] * d)
            st_f32(out, 32 * b + 16 + e, _VALUES[q >> 4] * d)


@kernel
def get_rows(args, chunk, thread):
    """Dequantize the rows that `Y` (int64 row numbers) names; a chunk is a part of them."""
    packed, blocks, part = ld_i64(args, WEIGHTS), ld_i64(args, BLOCKS), ld_i64(args, COLUMN_PART)
    for j in range(chunk * part, min(ld_i64(args, COLUMNS), chunk * part + part)):
        unpack_row(packed, ld_i64(ld_i64(args, Y), j), blocks, ld_i64(args, OUT) + 4 * j * ld_i64(args, OUT_STRIDE))
