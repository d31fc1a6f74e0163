# SPDX-License-Identifier: MIT OR Apache-2.0
"""Q4_1 weights times q8_1 activations, in the order of the reference's vec_dot.

File block, 32 weights: ``half d, half m, byte q[16]``; weight = d*nibble + m, low nibbles first.
Packed group of W rows, per block: ``half d[W], half m[W], byte q[4][W][4]``: word j of a row holds lane j in its low nibbles
and lane j+4 in its high nibbles.

Per output: acc[L] = fma(d*dy, isum[L], acc[L]), summs = fma(m, s, summs), result HS-A(acc) + summs.
Source: ggml_vec_dot_q4_1_q8_1, ggml-cpu/arch/x86/quants.c; the sum of minima is contracted by the compiler.
"""

from __future__ import annotations

from numba import njit

from .isa import VNNI, W
from .matmul import finish, part_start
from .simd import ADDR, F32, I32, IW, copy2, copy4, f32xw, ld_f16, ld_i64, ld_u8, mk, st_f32, tup
from .team import kernel

BLOCK, BYTES = 32, 20
MINUS_OFFSET = 0
PACKED = W * BYTES
_Q = 4 * W


def _step(E, accs, sums, w, ys, ds, s_offset):
    """One block for len(ys) columns; accs is a list of eight vectors a column, sums one vector a column."""
    d = E.ld_f16(w)
    m = E.ld_f16(w, 2 * W)
    scales = [E.mul(d, E.splat_ld(F32, at)) for at in ds]
    sums = [E.fma(m, E.splat(E.ld(F32, E.b.add(at, s_offset))), s) for s, at in zip(sums, ds, strict=True)]
    # Sixteen times the sum times a sixteenth of the scale: exact, and it saves a shift.
    high = [E.mul(s, E.const(F32, 1 / 16, W)) for s in scales] if VNNI else scales
    zero = E.const(I32, 0, W)
    low_mask = E.const(I32, 0x0F0F0F0F, W)
    for j in range(4):
        q = E.ld(IW, w, _Q + 4 * W * j)
        low = E.b.and_(q, low_mask)
        up = E.b.and_(q, E.const(I32, -0x0F0F0F10, W)) if VNNI else E.b.and_(E.b.lshr(q, E.const(I32, 4, W)), low_mask)
        for c, y in enumerate(ys):
            for lane, part, scale in ((j, low, scales[c]), (j + 4, up, high[c])):
                dot = E.dot_u8s8(zero, part, E.splat_ld(I32, y, 4 * lane))
                accs[c][lane] = E.fma(scale, E.i2f(dot), accs[c][lane])
    return accs, sums


def _columns(columns, prefetch):
    def emit(E, state, w, *rest):
        ys, ds, s_offset = rest[:columns], rest[columns : 2 * columns], rest[2 * columns]
        values = E.untup(state, 9 * columns)
        accs = [values[8 * c : 8 * c + 8] for c in range(columns)]
        if prefetch:
            for line in range(0, PACKED, 64):
                E.prefetch(w, prefetch + line)
        accs, sums = _step(E, accs, values[8 * columns :], w, ys, ds, s_offset)
        return E.tup([v for acc in accs for v in acc] + sums)

    state = tup(f32xw, 9 * columns)
    return mk(f"q4_1_step{columns}", state, (state, ADDR) + (ADDR,) * (2 * columns + 1), emit)


def _zeros(columns):
    return mk(f"q4_1_zeros{columns}", tup(f32xw, 9 * columns), (ADDR,), lambda E, _: E.tup([E.const(F32, 0.0, W)] * 9 * columns))


def _result(columns):
    def emit(E, state):
        v = E.untup(state, 9 * columns)
        return E.tup([E.add(E.hsum_a(v[8 * c : 8 * c + 8]), v[8 * columns + c]) for c in range(columns)])

    return mk(f"q4_1_result{columns}", tup(f32xw, columns), (tup(f32xw, 9 * columns),), emit)


# Two columns fill the registers of the wide tier; with three the compiler spills and is a tenth slower.
_TILE = 2 if W == 16 else 1
_step1, _zeros1, _result1 = _columns(1, 4096), _zeros(1), _result(1)
_stepn, _zerosn, _resultn = _columns(_TILE, 0), _zeros(_TILE), _result(_TILE)
_step_one = _columns(1, 0)


@kernel
def gemv(args, chunk, thread):
    """One activation row, packed in the thread's scratch."""
    w, groups, blocks = ld_i64(args, 0), ld_i64(args, 1), ld_i64(args, 2)
    y = ld_i64(args, 3) + thread * ld_i64(args, 4)
    parts = ld_i64(args, 9)
    d = y + 32 * blocks
    for g in range(part_start(groups, parts, chunk), part_start(groups, parts, chunk + 1)):
        acc = _zeros1(0)
        at = w + g * blocks * PACKED
        for b in range(blocks):
            acc = _step1(acc, at + b * PACKED, y + 32 * b, d + 4 * b, 4 * blocks)
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
    s_offset = 4 * blocks
    for g in range(part_start(groups, parts, chunk), part_start(groups, parts, chunk + 1)):
        at = w + g * blocks * PACKED
        j = first
        while j + _TILE <= last:
            acc = _zerosn(0)
            if _TILE == 2:
                y0 = y + j * stride
                y1 = y0 + stride
                d0, d1 = y0 + 32 * blocks, y1 + 32 * blocks
                for b in range(blocks):
                    acc = _stepn(acc, at + b * PACKED, y0 + 32 * b, y1 + 32 * b, d0 + 4 * b, d1 + 4 * b, s_offset)
            else:
                y0 = y + j * stride
                d0 = y0 + 32 * blocks
                for b in range(blocks):
                    acc = _stepn(acc, at + b * PACKED, y0 + 32 * b, d0 + 4 * b, s_offset)
            out = _resultn(acc)
            for c in range(_TILE):
                finish(args, j + c, g, out[c])
            j += _TILE
        while j < last:
            one = _zeros1(0)
            y0 = y + j * stride
            d0 = y0 + 32 * blocks
            for b in range(blocks):
                one = _step_one(one, at + b * PACKED, y0 + 32 * b, d0 + 4 * b, s_offset)
            finish(args, j, g, _result1(one)[0])
            j += 1


@njit("void(intp, intp, intp, intp, intp, intp)", cache=True, nogil=True, error_model="numpy")
def pack(source, packed, rows, blocks, first, last):
    """Pack groups first..last of a matrix of `rows` file rows; `packed` holds zeros before."""
    for r in range(first * W, min(rows, last * W)):
        i = r % W
        for b in range(blocks):
            src = source + (r * blocks + b) * 20
            dst = packed + (r // W * blocks + b) * PACKED
            copy2(dst + 2 * i, src)
            copy2(dst + 2 * W + 2 * i, src + 2)
            for j in range(4):
                copy4(dst + _Q + (j * W + i) * 4, src + 4 + 4 * j)


@njit("void(intp, intp, intp, intp)", cache=True, nogil=True, error_model="numpy")
def unpack_row(packed, row, blocks, out):
    """Dequantize one row of packed weights: d*nibble, rounded, plus m."""
    i = row % W
    for b in range(blocks):
        src = packed + (row // W * blocks + b) * PACKED
        d = ld_f16(src, i)
        m = ld_f16(src, W + i)
        for e in range(16):
            q = ld_u8(src + _Q + (e // 4 * W + i) * 4, e % 4)
            st_f32(out, 32 * b + e, d * (q & 15) + m)
            st_f32(out, 32 * b + 16 + e, d * (q >> 4) + m)


@kernel
def get_rows(args, chunk, thread):
    """Dequantize the rows that `Y` (int64 row numbers) names; a chunk is a part of them."""
    packed, blocks = ld_i64(args, 0), ld_i64(args, 2)
    part = ld_i64(args, 11)
    for j in range(chunk * part, min(ld_i64(args, 10), chunk * part + part)):
        unpack_row(packed, ld_i64(ld_i64(args, 3), j), blocks, ld_i64(args, 5) + 4 * j * ld_i64(args, 6))
