# SPDX-License-Identifier: MIT OR Apache-2.0
"""Q8_0 weights times q8_0 activations, in the order of the reference's vec_dot and tinyBLAS (which agree).

File block, 32 weights: ``half d, int8 q[32]``; weight = q*d.
Packed group of W rows, per block: ``half d[W], byte q[8][W][4]``: word j of a row holds lane j. With VNNI the bytes are stored as
q+128, and the activation row carries minus 128 times its own sums to take that back.

Per output: acc[L] = fma(d*dy, isum[L], acc[L]), result HS-A(acc).
Source: ggml_vec_dot_q8_0_q8_0, ggml-cpu/arch/x86/quants.c; tinyBLAS_Q0_AVX, llamafile/sgemm.cpp.
"""

from __future__ import annotations

from numba import njit

from .isa import VNNI, W
from .matmul import finish, part_start
from .simd import ADDR, F32, I32, IW, copy2, f32xw, ld_f16, ld_i64, ld_u8, mk, st_f32, st_i8, tup
from .team import kernel

BLOCK, BYTES = 32, 34
FLIP = 128 if VNNI else 0
MINUS_OFFSET = -FLIP
PACKED = W * BYTES
_Q = 2 * W


def _columns(columns, prefetch):
    def emit(E, state, w, *rest):
        ys, ds, cs = rest[:columns], rest[columns : 2 * columns], rest[2 * columns :]
        values = E.untup(state, 8 * columns)
        if prefetch:
            for line in range(0, PACKED, 64):
                E.prefetch(w, prefetch + line)
        d = E.ld_f16(w)
        scales = [E.mul(d, E.splat_ld(F32, at)) for at in ds]
        for j in range(8):
            q = E.ld(IW, w, _Q + 4 * W * j)
            for c, y in enumerate(ys):
                word = E.splat_ld(I32, y, 4 * j)
                dot = E.dot_u8s8(E.splat_ld(I32, cs[c], 4 * j), q, word) if VNNI else E.dot_s8s8(q, word)
                values[8 * c + j] = E.fma(scales[c], E.i2f(dot), values[8 * c + j])
        return E.tup(values)

    state = tup(f32xw, 8 * columns)
    return mk(f"q8_0_step{columns}", state, (state, ADDR) + (ADDR,) * (3 * columns), emit)


def _zeros(columns):
    return mk(f"q8_0_zeros{columns}", tup(f32xw, 8 * columns), (ADDR,), lambda E, _: E.tup([E.const(F32, 0.0, W)] * 8 * columns))


def _result(columns):
    def emit(E, state):
        v = E.untup(state, 8 * columns)
        return E.tup([E.hsum_a(v[8 * c : 8 * c + 8]) for c in range(columns)])

    return mk(f"q8_0_result{columns}", tup(f32xw, columns), (tup(f32xw, 8 * columns),), emit)


_TILE = 3 if W == 16 else 1
_step1, _zeros1, _result1 = _columns(1, 4096), _zeros(1), _result(1)
_stepn, _zerosn, _resultn = _columns(_TILE, 0), _zeros(_TILE), _result(_TILE)
dot_step, dot_zeros, dot_result = _columns(1, 0), _zeros1, _result1


@kernel
def gemv(args, chunk, thread):
    """One activation row, packed in the thread's scratch."""
    w, groups, blocks = ld_i64(args, 0), ld_i64(args, 1), ld_i64(args, 2)
    y = ld_i64(args, 3) + thread * ld_i64(args, 4)
    parts = ld_i64(args, 9)
    d = y + 32 * blocks
    c = d + 8 * blocks
    for g in range(part_start(groups, parts, chunk), part_start(groups, parts, chunk + 1)):
        acc = _zeros1(0)
        at = w + g * blocks * PACKED
        for b in range(blocks):
            acc = _step1(acc, at + b * PACKED, y + 32 * b, d + 4 * b, c + 32 * b)
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
        j = first
        while j + _TILE <= last:
            acc = _zerosn(0)
            y0 = y + j * stride
            d0 = y0 + 32 * blocks
            c0 = d0 + 8 * blocks
            if _TILE == 3:
                y1, d1, c1 = y0 + stride, d0 + stride, c0 + stride
                y2, d2, c2 = y1 + stride, d1 + stride, c1 + stride
                for b in range(blocks):
                    q, f = 32 * b, 4 * b
                    acc = _stepn(acc, at + b * PACKED, y0 + q, y1 + q, y2 + q, d0 + f, d1 + f, d2 + f, c0 + q, c1 + q, c2 + q)
            else:
                for b in range(blocks):
                    acc = _stepn(acc, at + b * PACKED, y0 + 32 * b, d0 + 4 * b, c0 + 32 * b)
            out = _resultn(acc)
            for c in range(_TILE):
                finish(args, j + c, g, out[c])
            j += _TILE
        while j < last:
            one = _zeros1(0)
            y0 = y + j * stride
            d0 = y0 + 32 * blocks
            c0 = d0 + 8 * blocks
            for b in range(blocks):
                one = dot_step(one, at + b * PACKED, y0 + 32 * b, d0 + 4 * b, c0 + 32 * b)
            finish(args, j, g, _result1(one)[0])
            j += 1


@njit("void(intp, intp, intp, intp, intp, intp)", cache=True, nogil=True, error_model="numpy")
def pack(source, packed, rows, blocks, first, last):
    """Pack groups first..last of a matrix of `rows` file rows; `packed` holds zeros before."""
    for r in range(first * W, min(rows, last * W)):
        i = r % W
        for b in range(blocks):
            src = source + (r * blocks + b) * 34
            dst = packed + (r // W * blocks + b) * PACKED
            copy2(dst + 2 * i, src)
            for j in range(8):
                for e in range(4):
                    st_i8(dst + _Q + (j * W + i) * 4, e, ld_u8(src + 2, 4 * j + e) ^ FLIP)


@njit("void(intp, intp, intp, intp)", cache=True, nogil=True, error_model="numpy")
def unpack_row(packed, row, blocks, out):
    """Dequantize one row of packed weights: q*d, rounded."""
    i = row % W
    for b in range(blocks):
        src = packed + (row // W * blocks + b) * PACKED
        d = ld_f16(src, i)
        for e in range(32):
            q = ld_u8(src + _Q + (e // 4 * W + i) * 4, e % 4) ^ FLIP
            st_f32(out, 32 * b + e, ((q ^ 128) - 128) * d)


@kernel
def get_rows(args, chunk, thread):
    """Dequantize the rows that `Y` (int64 row numbers) names; a chunk is a part of them."""
    packed, blocks = ld_i64(args, 0), ld_i64(args, 2)
    part = ld_i64(args, 11)
    for j in range(chunk * part, min(ld_i64(args, 10), chunk * part + part)):
        unpack_row(packed, ld_i64(ld_i64(args, 3), j), blocks, ld_i64(args, 5) + 4 * j * ld_i64(args, 6))
