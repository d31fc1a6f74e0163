# SPDX-License-Identifier: MIT OR Apache-2.0
"""Q4_K weights times q8_K activations where the rows do not divide by 8: the order of the reference's vec_dot.

The packed form is q4_k's. Per output: acc[L] = fma(d*dy, s[L], acc[L]); minima in four lanes of two groups each,
am[j] = fma(-dy*dmin, p[j], am[j]); result HS-A(acc) + ((am0+am2) + (am1+am3)).
Source: ggml_vec_dot_q4_K_q8_K, ggml-cpu/arch/x86/quants.c.
"""

from __future__ import annotations

from .isa import VNNI, W
from .matmul import finish, part_start
from .q4_k import BLOCK, BYTES, MINIMA, MINUS_OFFSET, PACKED, QUANTS, SCALES, get_rows, pack, unpack_row
from .quantize_k import RECORD, D
from .simd import ADDR, F32, IW, f32xw, ld_i64, mk, tup
from .super_blocks import (
    columns_of,
    field,
    lane_results,
    lane_sums,
    ld_byte_pairs,
    ld_bytes,
    minima,
    prefetch,
    scale_operand,
    zeros,
)
from .team import kernel

__all__ = ["BLOCK", "BYTES", "MINUS_OFFSET", "PACKED", "gemm", "gemv", "get_rows", "pack", "unpack_row"]
_TILE = 4 if VNNI else 2


def _words(E, w, lane):
    """The eight groups' words of a lane."""
    q = [E.ld(IW, w, QUANTS + 4 * W * (8 * p + lane)) for p in range(4)]
    return [field(E, x, bits, 0x0F) for x in q for bits in (0, 4)]


def _sum(E, total, rest):
    return E.add(total, E.add(E.add(rest[0], rest[2]), E.add(rest[1], rest[3])))


def _step(columns, distance):
    """One super-block; the state is eight lanes for each column, then what is kept of the minima."""

    def emit(E, state, w, y, stride):
        acc = E.untup(state, 12 * columns)
        ys = columns_of(E, y, stride, columns)
        d = E.ld_f16(w)
        factors = [E.mul(d, E.splat_ld(F32, at, D)) for at in ys]
        dmin = E.ld_f16(w, 2 * W)
        negative = [E.mul(E.b.fneg(E.splat_ld(F32, at, D)), dmin) for at in ys]
        mins = [ld_byte_pairs(E, w, MINIMA + 2 * W * p) for p in range(4)]
        for c, at in enumerate(ys):
            for p in range(4):
                i = 8 * columns + 4 * c + p
                acc[i] = E.fma(negative[c], E.i2f(minima(E, mins, at, (p,))), acc[i])
        scales = [scale_operand(E, ld_bytes(E, w, SCALES + W * g)) for g in range(8)]
        for lane in range(8):
            prefetch(E, w, distance, PACKED, lane, 8)
            for c, total in enumerate(lane_sums(E, _words(E, w, lane), scales, ys, lane)):
                acc[8 * c + lane] = E.fma(factors[c], E.i2f(total), acc[8 * c + lane])
        return E.tup(acc)

    state = tup(f32xw, 12 * columns)
    return mk(f"q4_k_odd_step{columns}", state, (state, ADDR, ADDR, ADDR), emit)


def _result(columns):
    return lane_results("q4_k_odd", columns, 12 * columns, _sum)


_step1, _zeros1, _result1 = _step(1, 4096), zeros("q4_k_odd", 12), _result(1)
_stepn, _zerosn, _resultn = _step(_TILE, 0), zeros("q4_k_odd", 12 * _TILE), _result(_TILE)
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
