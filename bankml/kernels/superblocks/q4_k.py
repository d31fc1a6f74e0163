# SPDX-License-Identifier: MIT OR Apache-2.0
"""Q4_K weights times q8_K activations, in the order of the reference's kernels for repacked weights (rows a multiple of 8).

File block, 256 weights: ``half d, half dmin, byte scales[12], byte q[128]``; weight = d*scale*nibble - dmin*minimum, in groups of
32, of which byte 32p+i holds element i of groups 2p (low nibble) and 2p+1.
Packed group of W rows, per block: ``half d[W], half dmin[W], byte scale[8][W], byte minimum[4][W][2], byte q[4][8][W][4]``.

Per output, one accumulator for products and one for minima, result their difference. One row, and the rows after the last whole
group of four: one fma for each super-block. Rows in whole groups of four: one for each two groups of 32.
Source: ggml_gemv_q4_K_8x8_q8_K, ggml_gemm_q4_K_8x8_q8_K, ggml-cpu/arch/x86/repack.cpp.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir

from bankml.kernels.activations.quantize_k import RECORD, D, by_fours, is_wild
from bankml.kernels.blocks.nibbles import row_first, weight_first
from bankml.kernels.compiler import types
from bankml.kernels.compiler.isa import VNNI, W
from bankml.kernels.compiler.native import compiled, entry, kernel
from bankml.kernels.compiler.simd import (
    ADDR,
    F32,
    I8,
    I16,
    I32,
    I64,
    IW,
    Emit,
    copy2,
    copy4,
    f32xw,
    ld_f16,
    ld_i64,
    ld_u8,
    mk,
    st_f32,
    st_i8,
    tup,
)
from bankml.kernels.products.matmul import (
    BLOCKS,
    COLUMN_PART,
    COLUMNS,
    GROUPS,
    OUT,
    OUT_STRIDE,
    ROW_PARTS,
    WEIGHTS,
    Y_STRIDE,
    Y,
    finish,
    part_start,
)
from bankml.kernels.superblocks.steps import (
    add_pairs,
    columns_of,
    field,
    ld_byte_pairs,
    ld_bytes,
    minima,
    minimum_6bit,
    pairs_u8s8,
    scale_6bit,
    scale_operand,
    separate,
    zero,
)

BLOCK, BYTES = 256, 144
MINUS_OFFSET = 0
SCALES, MINIMA, QUANTS = 4 * W, 12 * W, 20 * W
PACKED = 148 * W
_TILE = 4


def _pair(E, w, ys, p):
    """Groups 2p and 2p+1: for each row of ys the integer sum of scale times dot."""
    none = zero(E) if VNNI else E.const(I16, 0, 2 * W)
    sums = [[none, none] for _ in ys]
    for lane in range(8):
        q = E.ld(IW, w, QUANTS + 4 * W * (8 * p + lane))
        parts = field(E, q, 0, 15), field(E, q, 4, 15)
        for c, y in enumerate(ys):
            for i, part in enumerate(parts):
                word = E.splat_ld(I32, y, 32 * (2 * p + i) + 4 * lane)
                # Eight words of 16-bit pairs: at most 8*2*15*127, which fits.
                sums[c][i] = E.dot_u8s8(sums[c][i], part, word) if VNNI else E.b.add(sums[c][i], pairs_u8s8(E, part, word))
    scales = [ld_bytes(E, w, SCALES + W * (2 * p + i)) for i in range(2)]
    if VNNI:
        return [E.b.add(E.b.mul(low, scales[0]), E.b.mul(high, scales[1])) for low, high in sums]
    scales = [scale_operand(E, s) for s in scales]
    return [add_pairs(E, add_pairs(E, zero(E), low, scales[0]), high, scales[1]) for low, high in sums]


def _step(columns, split, times=Emit.mul):
    """One super-block; the state is the accumulators of all columns, then their sums of minima.

    `times` multiplies two scales; it matters for a wild row alone, as no other has a scale that is NaN.
    """

    def emit(E, state, w, y, stride):
        v = E.untup(state, 2 * columns)
        acc, low = v[:columns], v[columns:]
        ys = columns_of(E, y, stride, columns)
        d, dmin = E.ld_f16(w), E.ld_f16(w, 2 * W)
        dy = [E.splat_ld(F32, at, D) for at in ys]
        mins = [ld_byte_pairs(E, w, MINIMA + 2 * W * p) for p in range(4)]
        for c, at in enumerate(ys):
            scale = times(E, dmin, dy[c])
            for pairs in [(0,), (1,), (2,), (3,)] if split else [range(4)]:
                low[c] = E.fma(E.i2f(minima(E, mins, at, pairs)), scale, low[c])
        scales = [times(E, d, x) for x in dy]
        totals = [zero(E)] * columns
        for p in range(4):
            separate(E)
            sums = _pair(E, w, ys, p)
            if split:
                acc = [E.fma(E.i2f(s), x, a) for s, x, a in zip(sums, scales, acc, strict=True)]
            else:
                totals = [E.b.add(a, b) for a, b in zip(totals, sums, strict=True)]
        if not split:
            acc = [E.fma(E.i2f(s), x, a) for s, x, a in zip(totals, scales, acc, strict=True)]
        return E.tup(acc + low)

    state = tup(f32xw, 2 * columns)
    return mk(f"q4_k_step{columns}{times.__name__}", state, (state, ADDR, ADDR, ADDR), emit)


def _zeros(columns):
    return mk(f"q4_k_zeros{columns}", tup(f32xw, 2 * columns), (ADDR,), lambda E, _: E.tup([E.const(F32, 0.0, W)] * 2 * columns))


def _result(columns):
    def emit(E, state):
        v = E.untup(state, 2 * columns)
        return E.tup([E.sub(v[c], v[columns + c]) for c in range(columns)])

    return mk(f"q4_k_result{columns}", tup(f32xw, columns), (tup(f32xw, 2 * columns),), emit)


_step1, _zeros1, _result1 = _step(1, False), _zeros(1), _result(1)
_stepn, _zerosn, _resultn = _step(_TILE, True), _zeros(_TILE), _result(_TILE)
# Of two scales that are NaN the reference keeps the weights' where it multiplies four rows at once, the row's where sixteen.
_step_of_four, _step_of_sixteen = _step(_TILE, True, weight_first), _step(_TILE, True, row_first)


def _four_records(E, _):
    """Memory of the calling function."""
    with E.b.goto_entry_block():
        memory = E.b.alloca(ir.ArrayType(I8, _TILE * RECORD))
        memory.align = 64
    return E.b.ptrtoint(memory, I64)


_records = mk("q4_k_records", types.intp, (ADDR,), _four_records)


@compiled
def _any_wild(rows, stride, blocks):
    """Whether one of four rows has NaN or infinities."""
    return (
        is_wild(rows, blocks)
        or is_wild(rows + stride, blocks)
        or is_wild(rows + 2 * stride, blocks)
        or is_wild(rows + 3 * stride, blocks)
    )


@kernel
def gemv(args, chunk, thread):
    """One activation row, packed in the thread's scratch."""
    w, groups, blocks = ld_i64(args, WEIGHTS), ld_i64(args, GROUPS), ld_i64(args, BLOCKS)
    y = ld_i64(args, Y) + thread * ld_i64(args, Y_STRIDE)
    parts = ld_i64(args, ROW_PARTS)
    for g in range(part_start(groups, parts, chunk), part_start(groups, parts, chunk + 1)):
        acc = _zeros1(0)
        at = w + g * blocks * PACKED
        for b in range(blocks):
            acc = _step1(acc, at + b * PACKED, y + b * RECORD, 0)
        finish(args, 0, g, _result1(acc)[0])


@kernel
def gemm(args, chunk, thread):
    """Many activation rows; a chunk is a part of the weight rows times a part of the columns (a multiple of four)."""
    w, groups, blocks = ld_i64(args, WEIGHTS), ld_i64(args, GROUPS), ld_i64(args, BLOCKS)
    y, stride = ld_i64(args, Y), ld_i64(args, Y_STRIDE)
    parts, columns, column_part = ld_i64(args, ROW_PARTS), ld_i64(args, COLUMNS), ld_i64(args, COLUMN_PART)
    first = chunk // parts * column_part
    last = min(columns, first + column_part)
    by_four = min(last, columns // 4 * 4)
    sixteens = columns // 16 * 16
    chunk = chunk % parts
    records = _records(0)
    for g in range(part_start(groups, parts, chunk), part_start(groups, parts, chunk + 1)):
        at = w + g * blocks * PACKED
        for j in range(first, by_four, _TILE):
            acc = _zerosn(0)
            rows = y + j * stride
            if _any_wild(rows, stride, blocks):
                for b in range(blocks):
                    by_fours(rows + b * RECORD, stride, records)
                    if j < sixteens:
                        acc = _step_of_sixteen(acc, at + b * PACKED, records, RECORD)
                    else:
                        acc = _step_of_four(acc, at + b * PACKED, records, RECORD)
            else:
                for b in range(blocks):
                    acc = _stepn(acc, at + b * PACKED, rows + b * RECORD, stride)
            out = _resultn(acc)
            for c in range(_TILE):
                finish(args, j + c, g, out[c])
        for j in range(max(first, by_four), last):
            one = _zeros1(0)
            for b in range(blocks):
                one = _step1(one, at + b * PACKED, y + j * stride + b * RECORD, 0)
            finish(args, j, g, _result1(one)[0])


@entry("void(intp, intp, intp, intp, intp, intp)")
def pack(source, packed, rows, blocks, first, last):
    """Pack groups first..last of a matrix of `rows` file rows; `packed` holds zeros before."""
    for r in range(first * W, min(rows, last * W)):
        i = r % W
        for b in range(blocks):
            src = source + (r * blocks + b) * 144
            dst = packed + (r // W * blocks + b) * PACKED
            copy2(dst + 2 * i, src)
            copy2(dst + 2 * W + 2 * i, src + 2)
            for g in range(8):
                st_i8(dst + SCALES + W * g, i, scale_6bit(src + 4, g))
                st_i8(dst + MINIMA + 2 * W * (g // 2), 2 * i + g % 2, minimum_6bit(src + 4, g))
            for j in range(32):
                copy4(dst + QUANTS + (j * W + i) * 4, src + 16 + 4 * j)


@compiled("void(intp, intp, intp, intp)")
def unpack_row(packed, row, blocks, out):
    """Dequantize one row of packed weights: (d*scale)*nibble - dmin*minimum, each rounded."""
    i = row % W
    for b in range(blocks):
        src = packed + (row // W * blocks + b) * PACKED
        d = ld_f16(src, i)
        dmin = ld_f16(src, W + i)
        for g in range(8):
            scale = d * np.float32(ld_u8(src + SCALES + W * g, i))
            low = dmin * np.float32(ld_u8(src + MINIMA + 2 * W * (g // 2), 2 * i + g % 2))
            for e in range(32):
                byte = ld_u8(src + QUANTS + ((g // 2 * 8 + e // 4) * W + i) * 4, e % 4)
                q = np.float32(byte & 15 if g % 2 == 0 else byte >> 4)
                st_f32(out, 256 * b + 32 * g + e, scale * q - low)


@kernel
def get_rows(args, chunk, thread):
    """Dequantize the rows that `Y` (int64 row numbers) names; a chunk is a part of them."""
    packed, blocks = ld_i64(args, WEIGHTS), ld_i64(args, BLOCKS)
    part = ld_i64(args, COLUMN_PART)
    for j in range(chunk * part, min(ld_i64(args, COLUMNS), chunk * part + part)):
        unpack_row(packed, ld_i64(ld_i64(args, Y), j), blocks, ld_i64(args, OUT) + 4 * j * ld_i64(args, OUT_STRIDE))
