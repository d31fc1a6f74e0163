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
from numba import njit

from .isa import VNNI, W
from .matmul import finish, part_start
from .quantize_k import RECORD, SUMS16, D
from .simd import (
    ADDR,
    F32,
    I8,
    I16,
    IW,
    V,
    copy2,
    copy4,
    f32xw,
    ld_f16,
    ld_i64,
    ld_u8,
    mk,
    st_f32,
    tup,
)
from .super_blocks import (
    columns_of,
    field,
    lane_results,
    lane_sums,
    pair_sums,
    prefetch,
    scale_of_pair,
    zeros,
)
from .team import kernel

BLOCK, BYTES = 256, 84
MINUS_OFFSET = 0
SCALES, QUANTS = 4 * W, 20 * W
PACKED = 84 * W
_TILE = 4 if VNNI else 2


def _words(E, w, lane):
    """The eight groups' words of a lane."""
    halves = [E.ld(IW, w, QUANTS + 4 * W * (2 * lane + half)) for half in range(2)]
    return [field(E, x, bits, 0x03) for x in halves for bits in (0, 2, 4, 6)]


def _step(columns, distance):
    """One super-block; the state is eight lanes for each column."""

    def emit(E, state, w, y, stride):
        acc = E.untup(state, 8 * columns)
        ys = columns_of(E, y, stride, columns)
        d = E.ld_f16(w)
        factors = [E.mul(d, E.splat_ld(F32, at, D)) for at in ys]
        dmin = E.ld_f16(w, 2 * W)
        negative = [E.mul(E.b.fneg(E.splat_ld(F32, at, D)), dmin) for at in ys]
        both = [E.ld(V(I8, 2 * W), w, SCALES + 2 * W * g) for g in range(8)]
        both = [E.b.bitcast(E.b.zext(x, V(I16, 2 * W)), IW) for x in both]
        pairs = [field(E, x, 0, 0x0F) for x in both]
        for lane in range(8):
            prefetch(E, w, distance, PACKED, lane, 8)
            mins = field(E, both[lane], 4, 0x0F)
            scales = [scale_of_pair(E, pair, lane // 4) for pair in pairs]
            for c, total in enumerate(lane_sums(E, _words(E, w, lane), scales, ys, lane)):
                i = 8 * c + lane
                acc[i] = E.fma(negative[c], E.i2f(pair_sums(E, mins, ys[c], SUMS16 + 4 * lane)), acc[i])
                acc[i] = E.fma(factors[c], E.i2f(total), acc[i])
        return E.tup(acc)

    state = tup(f32xw, 8 * columns)
    return mk(f"q2_k_step{columns}", state, (state, ADDR, ADDR, ADDR), emit)


def _result(columns):
    return lane_results("q2_k", columns, 8 * columns, lambda E, total, rest: total)


_step1, _zeros1, _result1 = _step(1, 4096), zeros("q2_k", 8), _result(1)
_stepn, _zerosn, _resultn = _step(_TILE, 0), zeros("q2_k", 8 * _TILE), _result(_TILE)
_step_one = _step(1, 0)


@kernel
def gemv(args, chunk, thread):
    """One activation row, packed in the thread's scratch."""
    w, groups, blocks = ld_i64(args, 0), ld_i64(args, 1), ld_i64(args, 2)
    y = ld_i64(args, 3) + thread * ld_i64(args, 4)
    parts = ld_i64(args, 9)
    for g in range(part_start(groups, parts, chunk), part_start(groups, parts, chunk + 1)):
        acc = _zeros1(0)
        at = w + g * blocks * PACKED
        for b in range(blocks):
            acc = _step1(acc, at + b * PACKED, y + b * RECORD, 0)
        finish(args, 0, g, _result1(acc)[0])


@kernel
def gemm(args, chunk, thread):
    """Many activation rows; a chunk is a part of the weight rows times a part of the columns."""
    w, groups, blocks = ld_i64(args, 0), ld_i64(args, 1), ld_i64(args, 2)
    y, stride = ld_i64(args, 3), ld_i64(args, 4)
    parts, columns, column_part = ld_i64(args, 9), ld_i64(args, 10), ld_i64(args, 11)
    first = chunk // parts * column_part
    last = min(columns, first + column_part)
    chunk = chunk % parts
    for g in range(part_start(groups, parts, chunk), part_start(groups, parts, chunk + 1)):
        at = w + g * blocks * PACKED
        tiled = first + (last - first) // _TILE * _TILE
        for j in range(first, tiled, _TILE):
            acc = _zerosn(0)
            for b in range(blocks):
                acc = _stepn(acc, at + b * PACKED, y + j * stride + b * RECORD, stride)
            out = _resultn(acc)
            for c in range(_TILE):
                finish(args, j + c, g, out[c])
        for j in range(tiled, last):
            one = _zeros1(0)
            for b in range(blocks):
                one = _step_one(one, at + b * PACKED, y + j * stride + b * RECORD, 0)
            finish(args, j, g, _result1(one)[0])


@njit("void(intp, intp, intp, intp, intp, intp)", cache=True, nogil=True, error_model="numpy")
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


@njit("void(intp, intp, intp, intp)", cache=True, nogil=True, error_model="numpy")
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
    packed, blocks = ld_i64(args, 0), ld_i64(args, 2)
    part = ld_i64(args, 11)
    for j in range(chunk * part, min(ld_i64(args, 10), chunk * part + part)):
        unpack_row(packed, ld_i64(ld_i64(args, 3), j), blocks, ld_i64(args, 5) + 4 * j * ld_i64(args, 6))
