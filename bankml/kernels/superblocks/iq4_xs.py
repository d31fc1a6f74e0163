# SPDX-License-Identifier: MIT OR Apache-2.0
"""IQ4_XS weights times q8_K activations: below eight rows in the order of the reference's vec_dot, else in its panel product's.

File block, 256 weights: ``half d, half scales_high, byte scales_low[4], byte q[128]``; weight = d*(scale-32)*VALUES[nibble] in
groups of 32, of which byte 16g+i holds elements i (low nibble) and 16+i.
Packed group of W rows, per block: ``half d[W], int8 scale[4][W][2], 2 bytes free [W], byte q[8 lanes][4][W][4]``: word p of a
lane holds groups 2p (low nibbles) and 2p+1.

vec_dot: acc[L] = fma(d*dy, s[L], acc[L]), result HS-A(acc). When panels are taken and what they are: panels.py.
Source: ggml_vec_dot_iq4_xs_q8_K, ggml-cpu/arch/x86/quants.c; ggml-cpu/iqp.cpp.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir

from bankml.kernels.activations.quantize_k import C, D
from bankml.kernels.compiler.isa import VNNI, W
from bankml.kernels.compiler.native import compiled, entry, kernel
from bankml.kernels.compiler.simd import (
    ADDR,
    F32,
    I8,
    I32,
    IW,
    V,
    copy2,
    f32xw,
    ld_f16,
    ld_i8,
    ld_i32,
    ld_i64,
    ld_u8,
    ld_u16,
    mk,
    st_f32,
    st_i8,
    st_i32,
    tup,
)
from bankml.kernels.products.matmul import BLOCKS, COLUMN_PART, COLUMNS, OUT, OUT_STRIDE, WEIGHTS, Y
from bankml.kernels.superblocks import lanes, panels
from bankml.kernels.superblocks.steps import (
    add_pairs,
    columns_of,
    field,
    ld_byte_pairs,
    minima,
    pairs_u8s8,
    scale_of_pair,
    separate,
    shift,
    zero,
    zeros,
)

# The 16 values of a nibble. With VNNI they are looked up with 128 added.
VALUES = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
BLOCK, BYTES = 256, 136
OFFSET = 128 if VNNI else 0
MINUS_OFFSET = -OFFSET
SCALES, QUANTS = 2 * W, 12 * W
PACKED = 140 * W
_BYTES = V(I8, 4 * W)
_TABLE = np.array(VALUES, np.int64)


def _lookup(E, table, index):
    name = "llvm.x86.avx512.pshuf.b.512" if W == 16 else "llvm.x86.avx2.pshuf.b"
    values = ir.Constant(_BYTES, [v - 256 if v > 127 else v for v in table] * (W // 4))
    return E.call(name, _BYTES, [values, E.b.bitcast(index, _BYTES)])


def _value(E, q, upper):
    """The weights of one nibble of each byte: with VNNI their value + 128, else (magnitude, value)."""
    index = field(E, q, 4 * upper, 0x0F)
    if VNNI:
        return _lookup(E, [v + OFFSET for v in VALUES], index)
    return _lookup(E, [abs(v) for v in VALUES], index), _lookup(E, VALUES, index)


def _signed_pairs(E, value, word):
    """AVX2: int16 sums of two products, by the magnitude of the weight and the quant with the weight's sign."""
    magnitude, signs = value
    return pairs_u8s8(E, magnitude, E.call("llvm.x86.avx2.psign.b", _BYTES, [E.b.bitcast(word, _BYTES), signs]))


def _pairs(E, w):
    return [ld_byte_pairs(E, w, SCALES + 2 * W * p, signed=True) for p in range(4)]


def _scales(E, w):
    """Each scale as the sums take it."""
    if not VNNI:
        return [scale_of_pair(E, pair, half) for pair in _pairs(E, w) for half in (0, 1)]
    sixteen = E.const(I32, 16, W)
    return [E.b.ashr(x, sixteen) for pair in _pairs(E, w) for x in (E.b.shl(pair, sixteen), pair)]


def _values(E, at):
    """The eight groups' weights of a lane."""
    words = [E.ld(IW, at, 4 * W * p) for p in range(4)]
    return [_value(E, q, half) for q in words for half in range(2)]


def _lane(E, tile, values, scales):
    """Dots with VNNI do not fit 16 bits: they are multiplied as they are."""
    totals = [zero(E)] * tile.columns
    for g, (value, scale) in enumerate(zip(values, scales, strict=True)):
        for c in range(tile.columns):
            word = E.splat_ld(I32, tile.sums(c, 32 * g))
            if VNNI:
                dot = E.dot_u8s8(E.splat_ld(I32, tile.sums(c, C + 32 * g)), value, word)
                totals[c] = E.b.add(totals[c], E.b.mul(dot, scale))
            else:
                totals[c] = add_pairs(E, totals[c], _signed_pairs(E, value, word), scale)
    return totals


def _panel(columns):
    """One super-block in the panel product's order; the state is one vector for each column."""

    def emit(E, state, w, y, stride):
        acc = E.untup(state, columns)
        ys = columns_of(E, y, stride, columns)
        d = E.ld_f16(w)
        scales = _scales(E, w)
        totals = [zero(E)] * columns
        if VNNI:
            # Minus 128 times the row's sums, which the lookup's offset added.
            more = [minima(E, _pairs(E, w), at) for at in ys]
            totals = [shift(E, E.b.sub(zero(E), x), -7) for x in more]
        for p in range(4):
            separate(E)
            sums = [[zero(E)] * 2 for _ in ys]
            for lane in range(8):
                q = E.ld(IW, w, QUANTS + 4 * W * (4 * lane + p))
                for half in range(2):
                    value = _value(E, q, half)
                    for c, at in enumerate(ys):
                        word = E.splat_ld(I32, at, 32 * (2 * p + half) + 4 * lane)
                        if VNNI:
                            sums[c][half] = E.dot_u8s8(sums[c][half], value, word)
                        else:
                            totals[c] = add_pairs(E, totals[c], _signed_pairs(E, value, word), scales[2 * p + half])
            if VNNI:
                for half in range(2):
                    scale = scales[2 * p + half]
                    totals = [E.b.add(t, E.b.mul(s[half], scale)) for t, s in zip(totals, sums, strict=True)]
        for c, at in enumerate(ys):
            acc[c] = E.fma(E.i2f(totals[c]), E.mul(d, E.splat_ld(F32, at, D)), acc[c])
        return E.tup(acc)

    state = tup(f32xw, columns)
    return mk(f"iq4_xs_panel{columns}", state, (state, ADDR, ADDR, ADDR), emit)


_LAYOUT = lanes.Layout(
    name="iq4_xs",
    quants=QUANTS,
    lane_bytes=16 * W,
    scales=lambda E, w: 2 * _scales(E, w),
    words=_values,
    lane=_lane,
)
_zeros8, _lanes, _result8 = lanes.column(_LAYOUT)
_panel1, _zeros1 = _panel(1), zeros("iq4_xs", 1)
_paneln, _zerosn = _panel(panels.TILE), zeros("iq4_xs", panels.TILE)


@kernel
def gemv(args, chunk, thread):
    """One activation row, packed in the thread's scratch."""
    lanes.one_row(_zeros8, _lanes, _result8, PACKED, args, chunk, thread)


@kernel
def gemm(args, chunk, thread):
    """Many activation rows; a chunk is a part of the weight rows times a part of the columns."""
    panels.many_rows(_zeros8, _lanes, _result8, _paneln, _zerosn, _panel1, _zeros1, PACKED, args, chunk)


@entry("void(intp, intp, intp, intp, intp, intp)")
def pack(source, packed, rows, blocks, first, last):
    """Pack groups first..last of a matrix of `rows` file rows; `packed` holds zeros before."""
    for r in range(first * W, min(rows, last * W)):
        i = r % W
        for b in range(blocks):
            src = source + (r * blocks + b) * BYTES
            dst = packed + (r // W * blocks + b) * PACKED
            copy2(dst + 2 * i, src)
            for g in range(8):
                scale = (ld_u8(src + 4, g // 2) >> (4 * (g % 2)) & 15) | (ld_u16(src + 2, 0) >> (2 * g) & 3) << 4
                st_i8(dst + SCALES + 2 * W * (g // 2), 2 * i + g % 2, scale - 32)
            for lane in range(8):
                bits = 4 * (lane // 4)
                for p in range(4):
                    at = src + 8 + 32 * p + 4 * (lane % 4)
                    low, up = ld_i32(at, 0) >> bits & 0x0F0F0F0F, ld_i32(at + 16, 0) >> bits & 0x0F0F0F0F
                    st_i32(dst + QUANTS + ((4 * lane + p) * W + i) * 4, 0, low | up << 4)


@compiled("void(intp, intp, intp, intp)")
def unpack_row(packed, row, blocks, out):
    """Dequantize one row of packed weights: (d*(scale-32))*value, each rounded."""
    i = row % W
    for b in range(blocks):
        src = packed + (row // W * blocks + b) * PACKED
        d = ld_f16(src, i)
        for e in range(256):
            g = e // 32
            scale = d * np.float32(ld_i8(src + SCALES + 2 * W * (g // 2), 2 * i + g % 2))
            q = ld_u8(src + QUANTS + ((e % 32 // 4 * 4 + g // 2) * W + i) * 4, e % 4) >> (4 * (g % 2)) & 15
            st_f32(out, 256 * b + e, scale * np.float32(_TABLE[q]))


@kernel
def get_rows(args, chunk, thread):
    """Dequantize the rows that `Y` (int64 row numbers) names; a chunk is a part of them."""
    packed, blocks = ld_i64(args, WEIGHTS), ld_i64(args, BLOCKS)
    part = ld_i64(args, COLUMN_PART)
    for j in range(chunk * part, min(ld_i64(args, COLUMNS), chunk * part + part)):
        unpack_row(packed, ld_i64(ld_i64(args, Y), j), blocks, ld_i64(args, OUT) + 4 * j * ld_i64(args, OUT_STRIDE))
