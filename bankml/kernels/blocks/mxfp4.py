# SPDX-License-Identifier: MIT OR Apache-2.0
"""MXFP4 weights times q8_0 activations, in the order of the reference's repacked kernels (rows % 8 == 0).

File block, 32 weights: ``byte e, byte q[16]``; weight = VALUES[nibble] * 2^(e-128), VALUES being twice the E2M1 numbers.
Packed: nibbles.py, with ``byte e[W]``. Values are looked up with 12 added; the activation row carries minus 12 times its sums.
"""

from __future__ import annotations

import math

import numpy as np

from bankml.kernels.blocks.nibbles import (
    less,
    look_up,
    nibble_words,
    only,
    pack_nibbles,
    signed_totals,
    total_block,
    unsigned_totals,
)
from bankml.kernels.blocks.walk import TOTALS, many_rows, one_row, tile
from bankml.kernels.compiler.isa import W
from bankml.kernels.compiler.native import compiled, entry, kernel
from bankml.kernels.compiler.simd import F32, I8, I32, IW, V, ld_i64, ld_u8, st_f32, st_i8
from bankml.kernels.products.matmul import BLOCKS, COLUMN_PART, COLUMNS, OUT, OUT_STRIDE, WEIGHTS, Y

BLOCK, BYTES = 32, 17
# Source: kvalues_mxfp4, ggml-common.h.
VALUES = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
OFFSET = 12
MINUS_OFFSET = -OFFSET
PACKED = W * BYTES
_VALUES = np.array(VALUES, np.float32)
_SCALES = np.array([math.ldexp(1.0, e - 128) for e in range(256)], np.float32)


def scales(E, w):
    """2^(e-128) of W rows; the two smallest are subnormal. Source: ggml_e8m0_to_fp32_half, ggml-impl.h."""
    e = E.b.zext(E.ld(V(I8, W), w), IW)
    normal = E.b.shl(E.b.sub(e, E.const(I32, 1, W)), E.const(I32, 23, W))
    small = E.b.shl(E.const(I32, 0x00200000, W), E.b.and_(e, E.const(I32, 1, W)))
    return E.b.bitcast(E.b.select(E.b.icmp_unsigned("<", e, E.const(I32, 2, W)), small, normal), V(F32, W))


def words(E, w):
    """(lane, values with OFFSET added, as bytes)."""
    return [(lane, look_up(E, q, [v + OFFSET for v in VALUES])) for lane, q in nibble_words(E, w, W)]


def totals(E, w, ys, xs):
    """Dot products of whole blocks."""
    return unsigned_totals(E, words(E, w), ys, xs, 24)


def signed_words(E, w):
    """(lane, values as signed bytes)."""
    return less(E, words(E, w), OFFSET)


def careful_totals(E, w, ys, xs):
    """Dot products of whole blocks with rows that have a quant of -128."""
    return signed_totals(E, signed_words(E, w), ys)


_block = total_block(scales, totals)
_COLUMNS = 4
_step1, _zeros1, _result1 = tile("mxfp4", 1, 1, _block, only, PACKED)
_careful, _, _ = tile("mxfp4_careful", 1, 1, total_block(scales, careful_totals), only, PACKED)
_stepn, _zerosn, _resultn = tile("mxfp4", _COLUMNS, 1, _block, only, PACKED)


@kernel
def gemv(args, chunk, thread):
    """One activation row, packed in the thread's scratch."""
    one_row(_step1, _careful, _zeros1, _result1, PACKED, 1, TOTALS, args, chunk, thread)


@kernel
def gemm(args, chunk, thread):
    """Many activation rows; a chunk is a part of the weight rows times a part of the columns."""
    many_rows(_stepn, _zerosn, _resultn, _COLUMNS, _step1, _careful, _zeros1, _result1, PACKED, 1, TOTALS, _step1, args, chunk)


@entry("void(intp, intp, intp, intp, intp, intp)")
def pack(source, packed, rows, blocks, first, last):
    """Pack groups first..last of a matrix of `rows` file rows; `packed` holds zeros before."""
    for r in range(first * W, min(rows, last * W)):
        i = r % W
        for b in range(blocks):
            src = source + (r * blocks + b) * 17
            dst = packed + (r // W * blocks + b) * PACKED
            st_i8(dst, i, ld_u8(src, 0))
            pack_nibbles(src + 1, dst + W, i)


@compiled("void(intp, intp, intp, intp)")
def unpack_row(packed, row, blocks, out):
    """Dequantize one row of packed weights: the value times the scale, rounded."""
    i = row % W
    for b in range(blocks):
        src = packed + (row // W * blocks + b) * PACKED
        d = _SCALES[ld_u8(src, i)]
        for e in range(16):
            q = ld_u8(src + W + (e // 4 * W + i) * 4, e % 4)
            st_f32(out, 32 * b + e, _VALUES[q & 15] * d)
            st_f32(out, 32 * b + 16 + e, _VALUES[q >> 4] * d)


@kernel
def get_rows(args, chunk, thread):
    """Dequantize the rows that `Y` (int64 row numbers) names; a chunk is a part of them."""
    packed, blocks, part = ld_i64(args, WEIGHTS), ld_i64(args, BLOCKS), ld_i64(args, COLUMN_PART)
    for j in range(chunk * part, min(ld_i64(args, COLUMNS), chunk * part + part)):
        unpack_row(packed, ld_i64(ld_i64(args, Y), j), blocks, ld_i64(args, OUT) + 4 * j * ld_i64(args, OUT_STRIDE))
