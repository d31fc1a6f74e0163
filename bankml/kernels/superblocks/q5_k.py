# SPDX-License-Identifier: MIT OR Apache-2.0
"""Q5_K weights times q8_K activations, in the order of the reference's vec_dot.

File block, 256 weights: ``half d, half dmin, byte scales[12], byte high[32], byte low[128]``; weight = d*scale*q - dmin*minimum
in groups of 32.
Packed group of W rows, per block: ``half d[W], half dmin[W], byte scale[8][W], byte minimum[4][W][2], byte q[8 lanes][5][W][4]``:
a lane's words of the eight groups are in five, groups 0 to 4 in the low five bits of each, groups 5 to 7 in the upper three.

Per output: acc[L] = fma(d*dy, s[L], acc[L]), summs = fma(-dy*dmin, sum of minima, summs), result HS-A(acc) + summs.
Source: ggml_vec_dot_q5_K_q8_K, ggml-cpu/arch/x86/quants.c; the sum of minima is contracted by the compiler.
"""

from __future__ import annotations

import numpy as np

from bankml.kernels.compiler.isa import W
from bankml.kernels.compiler.native import compiled, entry, kernel
from bankml.kernels.compiler.simd import IW, copy2, ld_f16, ld_i32, ld_i64, ld_u8, st_f32, st_i8, st_i32
from bankml.kernels.products.matmul import BLOCKS, COLUMN_PART, COLUMNS, OUT, OUT_STRIDE, WEIGHTS, Y
from bankml.kernels.superblocks import lanes
from bankml.kernels.superblocks.steps import field, ld_byte_pairs, ld_bytes, minima, minimum_6bit, scale_6bit, scale_operand

BLOCK, BYTES = 256, 176
MINUS_OFFSET = 0
SCALES, MINIMA, QUANTS = 4 * W, 12 * W, 20 * W
PACKED = 180 * W
_TILE = 4


def _words(E, at):
    """The eight groups' words of a lane."""
    q = [E.ld(IW, at, 4 * W * i) for i in range(5)]
    out = [field(E, x, 0, 0x1F) for x in q]
    out += [E.b.or_(field(E, q[i], 5, 0x07), field(E, q[i + 3], 2, 0x18)) for i in range(2)]
    return [*out, E.b.or_(E.b.or_(field(E, q[2], 5, 0x07), field(E, q[3], 4, 0x08)), field(E, q[4], 3, 0x10))]


def _scales(E, w):
    return 2 * [scale_operand(E, ld_bytes(E, w, SCALES + W * g)) for g in range(8)]


def _begin(E, tile):
    """The sum of minima, a vector for each column."""
    tile.set_negative(E.ld_f16(tile.w, 2 * W))
    mins = [ld_byte_pairs(E, tile.w, MINIMA + 2 * W * p) for p in range(4)]
    for c, y in enumerate(tile.ys):
        tile.fma(tile.extra_at(c, 0), tile.negative(c), minima(E, mins, y))


_LAYOUT = lanes.Layout(
    name="q5_k",
    quants=QUANTS,
    lane_bytes=5 * 4 * W,
    scales=_scales,
    words=_words,
    lane=lanes.lane_sums,
    extra=1,
    begin=_begin,
    end=lambda E, total, extra: lanes.first_nan(E, total, extra[0]),
)

_zeros, _step, _result = lanes.column(_LAYOUT)
_scratch, _clear, _begin, _lanes, _results = lanes.tiles(_LAYOUT, _TILE)


@kernel
def gemv(args, chunk, thread):
    """One activation row, packed in the thread's scratch."""
    lanes.one_row(_zeros, _step, _result, PACKED, args, chunk, thread)


@kernel
def gemm(args, chunk, thread):
    """Many activation rows; a chunk is a part of the weight rows times a part of the columns."""
    lanes.many_rows(_scratch, _clear, _begin, _lanes, _results, _TILE, _zeros, _step, _result, PACKED, args, chunk)


@entry("void(intp, intp, intp, intp, intp, intp)")
def pack(source, packed, rows, blocks, first, last):
    """Pack groups first..last of a matrix of `rows` file rows; `packed` holds zeros before."""
    for r in range(first * W, min(rows, last * W)):
        i = r % W
        for b in range(blocks):
            src = source + (r * blocks + b) * BYTES
            dst = packed + (r // W * blocks + b) * PACKED
            copy2(dst + 2 * i, src)
            copy2(dst + 2 * W + 2 * i, src + 2)
            for g in range(8):
                st_i8(dst + SCALES + W * g, i, scale_6bit(src + 4, g))
                st_i8(dst + MINIMA + 2 * W * (g // 2), 2 * i + g % 2, minimum_6bit(src + 4, g))
            for lane in range(8):
                high = ld_i32(src + 16 + 4 * lane, 0)
                q0, q2 = ld_i32(src + 48 + 4 * lane, 0), ld_i32(src + 80 + 4 * lane, 0)
                q4, q6 = ld_i32(src + 112 + 4 * lane, 0), ld_i32(src + 144 + 4 * lane, 0)
                g5 = (q4 >> 4 & 0x0F0F0F0F) | (high >> 1 & 0x10101010)
                g6 = (q6 & 0x0F0F0F0F) | (high >> 2 & 0x10101010)
                g7 = (q6 >> 4 & 0x0F0F0F0F) | (high >> 3 & 0x10101010)
                at = dst + QUANTS + (5 * lane * W + i) * 4
                st_i32(at, 0, (q0 & 0x0F0F0F0F) | (high << 4 & 0x10101010) | (g5 << 5 & 0xE0E0E0E0))
                st_i32(at, W, (q0 >> 4 & 0x0F0F0F0F) | (high << 3 & 0x10101010) | (g6 << 5 & 0xE0E0E0E0))
                st_i32(at, 2 * W, (q2 & 0x0F0F0F0F) | (high << 2 & 0x10101010) | (g7 << 5 & 0xE0E0E0E0))
                top = (g5 << 2 & 0x60606060) | (g7 << 4 & 0x80808080)
                st_i32(at, 3 * W, (q2 >> 4 & 0x0F0F0F0F) | (high << 1 & 0x10101010) | top)
                top = (g6 << 2 & 0x60606060) | (g7 << 3 & 0x80808080)
                st_i32(at, 4 * W, (q4 & 0x0F0F0F0F) | (high & 0x10101010) | top)


@compiled("void(intp, intp, intp, intp)")
def unpack_row(packed, row, blocks, out):
    """Dequantize one row of packed weights: (d*scale)*q - dmin*minimum, each rounded."""
    i = row % W
    for b in range(blocks):
        src = packed + (row // W * blocks + b) * PACKED
        d, dmin = ld_f16(src, i), ld_f16(src, W + i)
        for e in range(256):
            g = e // 32
            at = src + QUANTS + (e % 32 // 4 * 5 * W + i) * 4 + e % 4
            if g < 5:
                q = ld_u8(at + 4 * W * g, 0) & 31
            elif g < 7:
                q = ld_u8(at + 4 * W * (g - 5), 0) >> 5 | (ld_u8(at + 4 * W * (g - 2), 0) >> 5 & 3) << 3
            else:
                top = ld_u8(at + 12 * W, 0) >> 7 << 3 | ld_u8(at + 16 * W, 0) >> 7 << 4
                q = ld_u8(at + 8 * W, 0) >> 5 | top
            scale = d * np.float32(ld_u8(src + SCALES + W * g, i))
            low = dmin * np.float32(ld_u8(src + MINIMA + 2 * W * (g // 2), 2 * i + g % 2))
            st_f32(out, 256 * b + e, scale * np.float32(q) - low)


@kernel
def get_rows(args, chunk, thread):
    """Dequantize the rows that `Y` (int64 row numbers) names; a chunk is a part of them."""
    packed, blocks = ld_i64(args, WEIGHTS), ld_i64(args, BLOCKS)
    part = ld_i64(args, COLUMN_PART)
    for j in range(chunk * part, min(ld_i64(args, COLUMNS), chunk * part + part)):
        unpack_row(packed, ld_i64(ld_i64(args, Y), j), blocks, ld_i64(args, OUT) + 4 * j * ld_i64(args, OUT_STRIDE))
