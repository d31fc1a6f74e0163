# SPDX-License-Identifier: MIT OR Apache-2.0
"""Q6_K weights times q8_K activations, in the order of the reference's vec_dot.

File block, 256 weights: ``byte low[128], byte high[64], int8 scale[16], half d``; weight = d*scale*(q-32), a scale for each 16.
Packed group of W rows, per block: ``half d[W], int8 scale[8][W][2], byte q[8 lanes][2 halves][3][W][4]``: a lane's words of the
four groups of a half are in three, the first three groups in the low six bits of each, the fourth in the upper two bits of all.

Per output: acc[L] = fma(d*dy, s[L], acc[L]), result HS-A(acc), where s[L] takes q as it is stored, and lane L then takes off 32
times the sums of sub-blocks 2L and 2L+1 of 16, whichever lanes those are in.
Source: ggml_vec_dot_q6_K_q8_K, ggml-cpu/arch/x86/quants.c.
"""

from __future__ import annotations

import numpy as np

from bankml.kernels.activations.quantize_k import SUMS16
from bankml.kernels.compiler.isa import W
from bankml.kernels.compiler.native import compiled, entry, kernel
from bankml.kernels.compiler.simd import IW, copy2, ld_f16, ld_i8, ld_i32, ld_i64, ld_u8, st_f32, st_i32
from bankml.kernels.products.matmul import BLOCKS, COLUMN_PART, COLUMNS, OUT, OUT_STRIDE, WEIGHTS, Y
from bankml.kernels.superblocks import lanes
from bankml.kernels.superblocks.steps import field, ld_byte_pairs, pair_sums, scale_of_pair, shift

BLOCK, BYTES = 256, 210
MINUS_OFFSET = 0
# Two bytes a row are left free, so that no load of quants crosses a cache line.
SCALES, QUANTS = 2 * W, 20 * W
PACKED = 212 * W
_TILE = 4


def _words(E, at):
    """The eight groups' words of a lane."""
    out = []
    for half in range(2):
        a, b, c = (E.ld(IW, at, 4 * W * (3 * half + i)) for i in range(3))
        low = E.b.or_(field(E, a, 6, 0x03), field(E, b, 4, 0x0C))
        out += [field(E, x, 0, 0x3F) for x in (a, b, c)] + [E.b.or_(low, field(E, c, 2, 0x30))]
    return out


def _scales(E, w):
    pairs = [ld_byte_pairs(E, w, SCALES + 2 * W * g, signed=True) for g in range(8)]
    return [scale_of_pair(E, pair, half) for half in range(2) for pair in pairs]


def _lane(E, tile, words, scales):
    """The sums of stored quants, less 32 times those of the lane's two sub-blocks."""
    totals = lanes.lane_sums(E, tile, words, scales)
    pair = ld_byte_pairs(E, tile.of_lane(tile.w, 2 * W), SCALES, signed=True)
    for c in range(tile.columns):
        totals[c] = E.b.sub(totals[c], shift(E, pair_sums(E, pair, tile.sums(c, SUMS16), 0), -5))
    return totals


_LAYOUT = lanes.Layout(name="q6_k", quants=QUANTS, lane_bytes=6 * 4 * W, scales=_scales, words=_words, lane=_lane)

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
            src = source + (r * blocks + b) * 210
            dst = packed + (r // W * blocks + b) * PACKED
            copy2(dst + 2 * i, src + 208)
            for g in range(8):
                copy2(dst + SCALES + 2 * W * g + 2 * i, src + 192 + 2 * g)
            for j in range(16):
                half, lane = j // 8, j % 8
                low, up = ld_i32(src + 64 * half + 4 * lane, 0), ld_i32(src + 64 * half + 32 + 4 * lane, 0)
                top = ld_i32(src + 128 + 32 * half + 4 * lane, 0)
                fourth = (up >> 4 & 0x0F0F0F0F) | (top >> 2 & 0x30303030)
                at = dst + QUANTS + ((6 * lane + 3 * half) * W + i) * 4
                st_i32(at, 0, (low & 0x0F0F0F0F) | (top << 4 & 0x30303030) | (fourth << 6 & 0xC0C0C0C0))
                st_i32(at, W, (up & 0x0F0F0F0F) | (top << 2 & 0x30303030) | (fourth << 4 & 0xC0C0C0C0))
                st_i32(at, 2 * W, (low >> 4 & 0x0F0F0F0F) | (top & 0x30303030) | (fourth << 2 & 0xC0C0C0C0))


@compiled("void(intp, intp, intp, intp)")
def unpack_row(packed, row, blocks, out):
    """Dequantize one row of packed weights: (d*scale)*(q-32), each rounded."""
    i = row % W
    for b in range(blocks):
        src = packed + (row // W * blocks + b) * PACKED
        d = ld_f16(src, i)
        for e in range(256):
            half, j = e // 128, e // 32 % 4
            at = src + QUANTS + ((e % 32 // 4 * 6 + 3 * half) * W + i) * 4 + e % 4
            if j < 3:
                q = ld_u8(at + 4 * W * j, 0) & 63
            else:
                q = ld_u8(at, 0) >> 6 | ld_u8(at + 4 * W, 0) >> 6 << 2 | ld_u8(at + 8 * W, 0) >> 6 << 4
            scale = np.float32(ld_i8(src + SCALES + 2 * W * (e // 32), 2 * i + e // 16 % 2))
            st_f32(out, 256 * b + e, d * scale * np.float32(q - 32))


@kernel
def get_rows(args, chunk, thread):
    """Dequantize the rows that `Y` (int64 row numbers) names; a chunk is a part of them."""
    packed, blocks = ld_i64(args, WEIGHTS), ld_i64(args, BLOCKS)
    part = ld_i64(args, COLUMN_PART)
    for j in range(chunk * part, min(ld_i64(args, COLUMNS), chunk * part + part)):
        unpack_row(packed, ld_i64(ld_i64(args, Y), j), blocks, ld_i64(args, OUT) + 4 * j * ld_i64(args, OUT_STRIDE))
