# SPDX-License-Identifier: MIT OR Apache-2.0
"""Q2_K weights times q8_K activations, in the order of the reference's vec_dot.

File block, 256 weights: ``byte scales[16], byte q[64], half d, half dmin``; weight = d*scale*q - dmin*minimum, for each 16 a byte
with the scale in its low and the minimum in its high four bits.
Packed group of W rows, per block: ``half d[W], half dmin[W], byte scales[8][W][2], byte q[8 lanes][2 halves][W][4]``: the words
of a half hold its four groups, two bits each.

Per output two fma a super-block: acc[L] = fma(-dy*dmin, the minima of sub-blocks 2L and 2L+1, acc[L]), then
acc[L] = fma(d*dy, s[L], acc[L]); result HS-A(acc).
Source: ggml_vec_dot_q2_K_q8_K, ggml-cpu/arch/x86/quants.c.
"""

from __future__ import annotations

import numpy as np

from bankml.kernels.activations.quantize_k import SUMS16
from bankml.kernels.compiler.isa import VNNI, W
from bankml.kernels.compiler.native import compiled, entry, kernel
from bankml.kernels.compiler.simd import I8, I16, I32, IW, V, copy2, copy4, ld_f16, ld_i64, ld_u8, st_f32
from bankml.kernels.products.matmul import BLOCKS, COLUMN_PART, COLUMNS, OUT, OUT_STRIDE, WEIGHTS, Y
from bankml.kernels.superblocks import lanes
from bankml.kernels.superblocks.steps import field, pair_sums, twice, zero

BLOCK, BYTES = 256, 84
MINUS_OFFSET = 0
SCALES, QUANTS = 4 * W, 20 * W
PACKED = 84 * W
_TILE = 4


def _words(E, at):
    """The eight groups' words of a lane."""
    halves = [E.ld(IW, at, 4 * W * half) for half in range(2)]
    return [field(E, x, bits, 0x03) for x in halves for bits in (0, 2, 4, 6)]


def _both(E, w, g):
    """Scale and minimum of two sub-blocks, each byte in a word of 16 bits."""
    return E.b.bitcast(E.b.zext(E.ld(V(I8, 2 * W), w, SCALES + 2 * W * g), V(I16, 2 * W)), IW)


def _scales(E, w):
    both = [field(E, _both(E, w, g), 0, 0x0F) for g in range(8)]
    return [twice(E, x, half) for half in range(2) for x in both]


def _begin(E, tile):
    tile.set_negative(E.ld_f16(tile.w, 2 * W))


def _lane(E, tile, words, scales):
    """The minima go in first. Scale times quant is at most 15 * 3: with VNNI one product does both bytes, for all columns."""
    mins = field(E, _both(E, tile.of_lane(tile.w, 2 * W), 0), 4, 0x0F)
    for c in range(tile.columns):
        tile.fma(tile.accumulator(c), tile.negative(c), pair_sums(E, mins, tile.sums(c, SUMS16), 0))
    if not VNNI:
        return lanes.lane_sums(E, tile, words, scales)
    totals = [zero(E)] * tile.columns
    words16 = V(I16, 2 * W)
    for g, (u, scale) in enumerate(zip(words, scales, strict=True)):
        scaled = E.b.mul(E.b.bitcast(u, words16), E.b.bitcast(scale, words16))
        totals = [E.dot_u8s8(t, scaled, E.splat_ld(I32, tile.sums(c, 32 * g))) for c, t in enumerate(totals)]
    return totals


_LAYOUT = lanes.Layout(name="q2_k", quants=QUANTS, lane_bytes=2 * 4 * W, scales=_scales, words=_words, lane=_lane, begin=_begin)

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
            copy2(dst + 2 * i, src + 80)
            copy2(dst + 2 * W + 2 * i, src + 82)
            for g in range(8):
                copy2(dst + SCALES + 2 * W * g + 2 * i, src + 2 * g)
            for lane in range(8):
                for half in range(2):
                    copy4(dst + QUANTS + ((2 * lane + half) * W + i) * 4, src + 16 + 32 * half + 4 * lane)


@compiled("void(intp, intp, intp, intp)")
def unpack_row(packed, row, blocks, out):
    """Dequantize one row of packed weights: (d*scale)*q - dmin*minimum, each rounded."""
    i = row % W
    for b in range(blocks):
        src = packed + (row // W * blocks + b) * PACKED
        d, dmin = ld_f16(src, i), ld_f16(src, W + i)
        for e in range(256):
            both = ld_u8(src + SCALES + 2 * W * (e // 32), 2 * i + e // 16 % 2)
            q = ld_u8(src + QUANTS + ((e % 32 // 4 * 2 + e // 128) * W + i) * 4, e % 4) >> (2 * (e // 32 % 4)) & 3
            st_f32(out, 256 * b + e, d * np.float32(both & 15) * np.float32(q) - dmin * np.float32(both >> 4))


@kernel
def get_rows(args, chunk, thread):
    """Dequantize the rows that `Y` (int64 row numbers) names; a chunk is a part of them."""
    packed, blocks = ld_i64(args, WEIGHTS), ld_i64(args, BLOCKS)
    part = ld_i64(args, COLUMN_PART)
    for j in range(chunk * part, min(ld_i64(args, COLUMNS), chunk * part + part)):
        unpack_row(packed, ld_i64(ld_i64(args, Y), j), blocks, ld_i64(args, OUT) + 4 * j * ld_i64(args, OUT_STRIDE))
