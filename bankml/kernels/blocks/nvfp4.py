# SPDX-License-Identifier: MIT OR Apache-2.0
"""NVFP4 weights times q8_0 activations, in the order of the reference's vec_dot.

File block, 64 weights: ``byte s[4], byte q[32]``: for each 16 weights a scale, and 8 bytes with elements 0 to 7 in their low and
8 to 15 in their high nibbles; weight = VALUES[nibble] * half of the UE4M3 number s.
Packed group of W rows, per block: ``byte s[4][W], byte q[8][W][4]``, the file's words, row beside row. Bit 7 of a scale, which
the reference passes over, is 0, and so is the whole scale where the file has 0x7F (no number: the reference reads 0); 0x7F
stands for 0xFF, which the reference reads as 480. Values are looked up with 12 added; the activation row carries minus 12 times
its sums.

Per output and half a block, lane L of 8: acc[L] = fma(s*dy, dot of 4, acc[L]), the scale being that of the lane's 16 weights;
result HS-A(acc).
Source: ggml_vec_dot_nvfp4_q8_0, ggml-cpu/arch/x86/quants.c; ggml_ue4m3_to_fp32, ggml-impl.h.
"""

from __future__ import annotations

import math

import numpy as np

from bankml.kernels.blocks.mxfp4 import OFFSET, VALUES
from bankml.kernels.blocks.nibbles import lane_dots, less, look_up, offset_dot, signed_dot, splat_bytes
from bankml.kernels.blocks.walk import FOURS, many_rows, one_row, tile
from bankml.kernels.compiler.isa import W
from bankml.kernels.compiler.native import compiled, entry, kernel
from bankml.kernels.compiler.simd import F32, FW, I8, I32, IW, V, copy4, ld_i64, ld_u8, st_f32, st_i8
from bankml.kernels.products.matmul import BLOCKS, COLUMN_PART, COLUMNS, OUT, OUT_STRIDE, WEIGHTS, Y
from bankml.kernels.superblocks.lanes import first_nans

BLOCK, BYTES = 64, 36
MINUS_OFFSET = -OFFSET
PACKED = BYTES * W
_Q = 4 * W
_RATIO = 2
_TABLE = [v + OFFSET for v in VALUES]
_VALUES = np.array(VALUES, np.float32)


def _number(s):
    """Half of a packed scale."""
    exponent, mantissa = s >> 3, s & 7
    return math.ldexp(mantissa, -10) if exponent == 0 else math.ldexp(8 + mantissa, exponent - 11)


_NUMBERS = np.array([_number(s) for s in range(128)], np.float32)


def _scale(E, w, part):
    """The same of W rows: as the exponent and mantissa of a float32, subnormal where s is, times a power of two: exact."""
    bits = E.b.shl(E.b.zext(E.ld(V(I8, W), w, W * part), IW), E.const(I32, 20, W))
    return E.mul(E.b.bitcast(bits, FW), E.const(F32, 2.0**119, W))


def _words(E, w, part):
    """(lane, values with OFFSET added, as bytes) of 16 weights, whose lanes are the first or the last four."""
    for half in range(2):
        for i in range(2):
            q = E.ld(IW, w, _Q + 4 * W * (2 * part + i))
            index = E.b.and_(E.b.lshr(q, E.const(I32, 4, W)) if half else q, splat_bytes(0x0F))
            yield part % 2 * 4 + 2 * half + i, look_up(E, index, _TABLE)


def _signed_words(E, w, part):
    return less(E, _words(E, w, part), OFFSET)


def _block(words, dot):
    def block(E, accs, w, ys, ds, xs):
        for part in range(4):
            half = part // 2
            at = [[E.b.add(p, E.i64(size * half)) for p in column] for column, size in ((ys, 32), (ds, 4), (xs, 32))]
            accs = lane_dots(E, _scale(E, w, part), words(E, w, part), dot, accs, *at)
        return accs

    return block


def _end(E, v):
    """HS-A; each four lanes may have a NaN of their own."""
    return first_nans(E, v)


_COLUMNS = 3 if W == 16 else 2
_step1, _zeros1, _result1 = tile("nvfp4", 1, 8, _block(_words, offset_dot), _end, PACKED)
_careful, _, _ = tile("nvfp4_careful", 1, 8, _block(_signed_words, signed_dot), _end, PACKED)
_stepn, _zerosn, _resultn = tile("nvfp4", _COLUMNS, 8, _block(_words, offset_dot), _end, PACKED)


@kernel
def gemv(args, chunk, thread):
    """One activation row, packed in the thread's scratch."""
    one_row(_step1, _careful, _zeros1, _result1, PACKED, _RATIO, FOURS, args, chunk, thread)


@kernel
def gemm(args, chunk, thread):
    """Many activation rows; a chunk is a part of the weight rows times a part of the columns."""
    many_rows(_stepn, _zerosn, _resultn, _COLUMNS, _step1, _careful, _zeros1, _result1, PACKED, _RATIO, FOURS, None, args, chunk)


@entry("void(intp, intp, intp, intp, intp, intp)")
def pack(source, packed, rows, blocks, first, last):
    """Pack groups first..last of a matrix of `rows` file rows; `packed` holds zeros before."""
    for r in range(first * W, min(rows, last * W)):
        i = r % W
        for b in range(blocks):
            src = source + (r * blocks + b) * 36
            dst = packed + (r // W * blocks + b) * PACKED
            for part in range(4):
                s = ld_u8(src, part)
                st_i8(dst + W * part, i, 0 if s == 0x7F else s & 0x7F)
            for j in range(8):
                copy4(dst + _Q + 4 * (W * j + i), src + 4 + 4 * j)


@compiled("void(intp, intp, intp, intp)")
def unpack_row(packed, row, blocks, out):
    """Dequantize one row of packed weights: the value times the scale, exact."""
    i = row % W
    for b in range(blocks):
        src = packed + (row // W * blocks + b) * PACKED
        for part in range(4):
            d = _NUMBERS[ld_u8(src + W * part, i)]
            for e in range(8):
                q = ld_u8(src + _Q + 4 * (W * (2 * part + e // 4) + i), e % 4)
                st_f32(out, 64 * b + 16 * part + e, _VALUES[q & 15] * d)
                st_f32(out, 64 * b + 16 * part + 8 + e, _VALUES[q >> 4] * d)


@kernel
def get_rows(args, chunk, thread):
    """Dequantize the rows that `Y` (int64 row numbers) names; a chunk is a part of them."""
    packed, blocks, part = ld_i64(args, WEIGHTS), ld_i64(args, BLOCKS), ld_i64(args, COLUMN_PART)
    for j in range(chunk * part, min(ld_i64(args, COLUMNS), chunk * part + part)):
        unpack_row(packed, ld_i64(ld_i64(args, Y), j), blocks, ld_i64(args, OUT) + 4 * j * ld_i64(args, OUT_STRIDE))
