# SPDX-License-Identifier: MIT OR Apache-2.0
"""Q3_K weights times q8_K activations, in the order of the reference's vec_dot.

File block, 256 weights: ``byte high[32], byte low[64], byte scales[12], half d``; weight = d*(scale-32)*(q-4), a scale for each
16. Packed group of W rows, per block: ``half d[W], int8 scale[8][W][2], 2 bytes free [W], byte q[8 lanes][3][W][4]``: a lane's
words of the eight groups are in three, groups 2i and 2i+1 in the low six bits of word i, groups 6 and 7 in the upper two bits.

Per output: acc[L] = fma(d*dy, s[L], acc[L]), result HS-A(acc).
Source: ggml_vec_dot_q3_K_q8_K, ggml-cpu/arch/x86/quants.c.
"""

from __future__ import annotations

import numpy as np

from bankml.kernels.compiler.isa import W
from bankml.kernels.compiler.native import compiled, entry, kernel
from bankml.kernels.compiler.simd import IW, copy2, ld_f16, ld_i8, ld_i32, ld_i64, ld_u8, st_f32, st_i8, st_i32
from bankml.kernels.products.matmul import BLOCKS, COLUMN_PART, COLUMNS, OUT, OUT_STRIDE, WEIGHTS, Y
from bankml.kernels.superblocks import lanes
from bankml.kernels.superblocks.steps import field, ld_byte_pairs, scale_of_pair

BLOCK, BYTES = 256, 110
MINUS_OFFSET = -4
SCALES, QUANTS = 2 * W, 20 * W
PACKED = 116 * W
_TILE = 4


def _words(E, at):
    """The eight groups' words of a lane."""
    a, b, c = (E.ld(IW, at, 4 * W * i) for i in range(3))
    out = [field(E, x, bits, 0x07) for x in (a, b, c) for bits in (0, 3)]
    return out + [E.b.or_(field(E, x, 6, 0x03), field(E, c, bits, 0x04)) for x, bits in ((a, 4), (b, 5))]


def _scales(E, w):
    pairs = [ld_byte_pairs(E, w, SCALES + 2 * W * g, signed=True) for g in range(8)]
    return [scale_of_pair(E, pair, half) for half in range(2) for pair in pairs]


def _lane(E, tile, words, scales):
    return lanes.lane_sums(E, tile, words, scales, offset=True)


_LAYOUT = lanes.Layout(name="q3_k", quants=QUANTS, lane_bytes=3 * 4 * W, scales=_scales, words=_words, lane=_lane)

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
            copy2(dst + 2 * i, src + 108)
            for g in range(16):
                low, high = ld_u8(src + 96, g % 8) >> (4 * (g // 8)) & 15, ld_u8(src + 104, g % 4) >> (2 * (g // 4)) & 3
                st_i8(dst + SCALES + 2 * W * (g // 2), 2 * i + g % 2, (low | high << 4) - 32)
            for lane in range(8):
                high = ld_i32(src + 4 * lane, 0)
                low, up = ld_i32(src + 32 + 4 * lane, 0), ld_i32(src + 64 + 4 * lane, 0)
                at = dst + QUANTS + (3 * lane * W + i) * 4
                first_two = (low & 0x03030303) | (low << 1 & 0x18181818) | (high << 2 & 0x04040404) | (high << 4 & 0x20202020)
                next_two = (low >> 4 & 0x03030303) | (low >> 3 & 0x18181818) | (high & 0x04040404) | (high << 2 & 0x20202020)
                third = (up & 0x03030303) | (up << 1 & 0x18181818) | (high >> 2 & 0x04040404) | (high & 0x20202020)
                st_i32(at, 0, first_two | (up << 2 & 0xC0C0C0C0))
                st_i32(at, W, next_two | (up & 0xC0C0C0C0))
                st_i32(at, 2 * W, third | (high & 0xC0C0C0C0))


@compiled("void(intp, intp, intp, intp)")
def unpack_row(packed, row, blocks, out):
    """Dequantize one row of packed weights: (d*scale)*(q-4), each rounded."""
    i = row % W
    for b in range(blocks):
        src = packed + (row // W * blocks + b) * PACKED
        d = ld_f16(src, i)
        for e in range(256):
            g = e // 32
            at = src + QUANTS + (e % 32 // 4 * 3 * W + i) * 4 + e % 4
            if g < 6:
                q = ld_u8(at + 4 * W * (g // 2), 0) >> (3 * (g % 2)) & 7
            else:
                q = ld_u8(at + 4 * W * (g - 6), 0) >> 6 | (ld_u8(at + 8 * W, 0) >> g & 1) << 2
            scale = np.float32(ld_i8(src + SCALES + 2 * W * g, 2 * i + e // 16 % 2))
            st_f32(out, 256 * b + e, d * scale * np.float32(q - 4))


@kernel
def get_rows(args, chunk, thread):
    """Dequantize the rows that `Y` (int64 row numbers) names; a chunk is a part of them."""
    packed, blocks = ld_i64(args, WEIGHTS), ld_i64(args, BLOCKS)
    part = ld_i64(args, COLUMN_PART)
    for j in range(chunk * part, min(ld_i64(args, COLUMNS), chunk * part + part)):
        unpack_row(packed, ld_i64(ld_i64(args, Y), j), blocks, ld_i64(args, OUT) + 4 * j * ld_i64(args, OUT_STRIDE))
