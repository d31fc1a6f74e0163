# SPDX-License-Identifier: MIT OR Apache-2.0
"""F32, F16 and BF16 weights, in the layout of the file.

One activation row: the reference's vec_dot, four accumulators of eight lanes. Two rows and more, when rows % 4 == 0 and
k % 8 == 0: tinyBLAS, one accumulator of eight lanes. The two differ in bits, as they do in the reference.
Activations are float32 values already rounded to the weight's type.

Source: ggml_vec_dot_f32, _f16, _bf16, ggml-cpu/vec.cpp; tinyBLAS, llamafile/sgemm.cpp. Leftovers as the compiler fused them.
"""

from __future__ import annotations

from math import isnan

import numpy as np

from bankml.kernels.compiler import types
from bankml.kernels.compiler.isa import TIER
from bankml.kernels.compiler.native import compiled, kernel
from bankml.kernels.compiler.simd import ADDR, F32, V, f32x8, fma32, ld_bf16, ld_f16, ld_f32, ld_i64, mk, st_f32, tup
from bankml.kernels.floats import nans as float_nans
from bankml.kernels.floats.numbers import BF16_ID, F16_ID, F32_ID, number, widen
from bankml.kernels.products.matmul import (
    BIAS,
    COLUMN_PART,
    COLUMNS,
    OUT,
    OUT_STRIDE,
    RESIDUAL,
    ROW_PARTS,
    ROWS,
    SCALE,
    TYPE,
    WEIGHTS,
    Y_STRIDE,
    K,
    Y,
    part_start,
)

TILE_ROWS = 4
TILE_COLUMNS = 6 if TIER == "avx512" else 3


_acc4 = tup(f32x8, 4)
_zeros4 = mk("_zeros4f", _acc4, (ADDR,), lambda E, _: E.tup([E.const(F32, 0.0, 8)] * 4))


def _dot_step(type_id):
    def emit(E, acc, w, y):
        a = E.untup(acc, 4)
        return E.tup([E.fma(widen(E, type_id, w, 8 * j), E.ld(V(F32, 8), y, 32 * j), a[j]) for j in range(4)])

    return mk(f"_dot_step{type_id}", _acc4, (_acc4, ADDR, ADDR), emit)


def _dot_fold(order):
    def emit(E, acc):
        a = E.untup(acc, 4)
        return E.lane(E.hsum_lanes(E.add(E.add(a[0], a[2]), E.add(a[1], a[3])), order), 0)

    return mk(f"_dot_fold{order}", types.float32, (_acc4,), emit)


_fold_a, _fold_b = _dot_fold("A"), _dot_fold("B")
_step_f32, _step_f16, _step_bf16 = (_dot_step(t) for t in (F32_ID, F16_ID, BF16_ID))


@compiled("float32(intp, intp, intp)")
def dot_f32(w, y, k):
    """ggml_vec_dot_f32: leftovers unfused by eights and a four, fused for the last three."""
    acc = _zeros4(0)
    n = k // 32 * 32
    for i in range(0, n, 32):
        acc = _step_f32(acc, w + 4 * i, y + 4 * i)
    total = _fold_b(acc)
    left = k - n
    unfused = left // 8 * 8
    if left - unfused >= 4:
        unfused += 4
    for i in range(n, n + unfused):
        total = total + ld_f32(w, i) * ld_f32(y, i)
    for i in range(n + unfused, k):
        total = fma32(ld_f32(w, i), ld_f32(y, i), total)
    return total


@compiled("float32(intp, intp, intp)")
def dot_f16(w, y, k):
    """ggml_vec_dot_f16: leftovers in float64."""
    acc = _zeros4(0)
    n = k // 32 * 32
    for i in range(0, n, 32):
        acc = _step_f16(acc, w + 2 * i, y + 4 * i)
    total = np.float64(_fold_b(acc))
    for i in range(n, k):
        total += np.float64(ld_f16(w, i) * ld_f32(y, i))
    return np.float32(total)


@compiled("float32(intp, intp, intp)")
def dot_bf16(w, y, k):
    """ggml_vec_dot_bf16: leftovers in float64."""
    acc = _zeros4(0)
    n = k // 32 * 32
    for i in range(0, n, 32):
        acc = _step_bf16(acc, w + 2 * i, y + 4 * i)
    total = np.float64(_fold_a(acc))
    for i in range(n, k):
        total += np.float64(ld_bf16(w, i) * ld_f32(y, i))
    return np.float32(total)


@compiled("void(intp, intp, intp, float32)")
def _finish(args, column, row, value):
    """Apply scale, bias and residual where the block names them, and store one output."""
    scale = ld_i64(args, SCALE)
    if scale != 0:
        value = value * ld_f32(scale, 0)
    bias = ld_i64(args, BIAS)
    if bias != 0:
        value = value + ld_f32(bias, row)
    at = column * ld_i64(args, OUT_STRIDE) + row
    residual = ld_i64(args, RESIDUAL)
    if residual != 0:
        value = value + ld_f32(residual, at)
    st_f32(ld_i64(args, OUT), at, value)


def _tile(columns):
    """Intrinsics of TILE_ROWS weight rows times some activation rows: (zeros, steps by type F32, F16, BF16, lanes)."""
    count = TILE_ROWS * columns
    state = tup(f32x8, count)

    def step_of(type_id):
        def step(E, acc, w, row_bytes, y, y_stride):
            a = E.untup(acc, count)
            ys = [E.ld(V(F32, 8), E.b.add(y, E.b.mul(y_stride, E.i64(c)))) for c in range(columns)]
            for r in range(TILE_ROWS):
                row = widen(E, type_id, E.b.add(w, E.b.mul(row_bytes, E.i64(r))), 0)
                for c in range(columns):
                    a[r * columns + c] = E.fma(row, ys[c], a[r * columns + c])
            return E.tup(a)

        return mk(f"_tile_step{type_id}_{columns}", state, (state,) + (ADDR,) * 4, step)

    return (
        mk(f"_tile_zeros{columns}", state, (ADDR,), lambda E, _: E.tup([E.const(F32, 0.0, 8)] * count)),
        *map(step_of, (F32_ID, F16_ID, BF16_ID)),
        mk(
            f"_tile_lanes{columns}",
            tup(types.float32, count),
            (state,),
            lambda E, acc: E.tup([E.lane(E.hsum_lanes(v, "A"), 0) for v in E.untup(acc, count)]),
        ),
    )


# Numba takes intrinsics as arguments, one by one. Two columns keep the multipliers as busy as many do; one waits for itself.
_zeros_many, _f32_many, _f16_many, _bf16_many, _lanes_many = _tile(TILE_COLUMNS)
_zeros_two, _f32_two, _f16_two, _bf16_two, _lanes_two = _tile(2)
_zeros_one, _f32_one, _f16_one, _bf16_one, _lanes_one = _tile(1)


@compiled("float32(intp, intp, intp, intp)")
def _dot(type_id, w, y, k):
    if type_id == 1:
        value = dot_f16(w, y, k)
    elif type_id == 0:
        value = dot_f32(w, y, k)
    else:
        value = dot_bf16(w, y, k)
    return float_nans.dot(type_id, w, y, k) if isnan(value) else value


@compiled("void(intp, intp, intp, intp, intp, float32)")
def _finish_tiled(args, column, row, w, y, value):
    if isnan(value):
        value = float_nans.tiled(ld_i64(args, TYPE), w, y, ld_i64(args, K), row, column, ld_i64(args, COLUMNS))
    _finish(args, column, row, value)


@compiled
def _tiled(zeros, step_f32, step_f16, step_bf16, lanes, columns, args, row, w, j, y):
    """TILE_ROWS weight rows from `row`, which begin at w, times `columns` activation rows from j, which begin at y."""
    k, type_id, stride = ld_i64(args, K), ld_i64(args, TYPE), ld_i64(args, Y_STRIDE)
    row_bytes = k * (4 if type_id == 0 else 2)
    acc = zeros(0)
    if type_id == 1:
        for i in range(0, k, 8):
            acc = step_f16(acc, w + 2 * i, row_bytes, y + 4 * i, stride)
    elif type_id == 0:
        for i in range(0, k, 8):
            acc = step_f32(acc, w + 4 * i, row_bytes, y + 4 * i, stride)
    else:
        for i in range(0, k, 8):
            acc = step_bf16(acc, w + 2 * i, row_bytes, y + 4 * i, stride)
    out = lanes(acc)
    for r in range(TILE_ROWS):
        for c in range(columns):
            _finish_tiled(args, j + c, row + r, w + r * row_bytes, y + c * stride, out[r * columns + c])


@kernel
def gemv(args, chunk, thread):
    """One activation row, formed in the thread's scratch."""
    w, m, k, type_id = ld_i64(args, WEIGHTS), ld_i64(args, ROWS), ld_i64(args, K), ld_i64(args, TYPE)
    y = ld_i64(args, Y) + thread * ld_i64(args, Y_STRIDE)
    size = 4 if type_id == 0 else 2
    parts = ld_i64(args, ROW_PARTS)
    for row in range(part_start(m, parts, chunk), part_start(m, parts, chunk + 1)):
        _finish(args, 0, row, _dot(type_id, w + row * k * size, y, k))


@kernel
def gemm(args, chunk, thread):
    """Many activation rows; a chunk is a part of the weight rows times a part of the columns."""
    w, m, k, type_id = ld_i64(args, WEIGHTS), ld_i64(args, ROWS), ld_i64(args, K), ld_i64(args, TYPE)
    y, stride = ld_i64(args, Y), ld_i64(args, Y_STRIDE)
    parts, columns, column_part = ld_i64(args, ROW_PARTS), ld_i64(args, COLUMNS), ld_i64(args, COLUMN_PART)
    first = chunk // parts * column_part
    last = min(columns, first + column_part)
    chunk = chunk % parts
    row_bytes = k * (4 if type_id == 0 else 2)
    if m % 4 != 0 or k % 8 != 0:
        for row in range(part_start(m, parts, chunk), part_start(m, parts, chunk + 1)):
            for j in range(first, last):
                _finish(args, j, row, _dot(type_id, w + row * row_bytes, y + j * stride, k))
        return
    for row in range(4 * part_start(m // 4, parts, chunk), 4 * part_start(m // 4, parts, chunk + 1), 4):
        at = w + row * row_bytes
        j = first
        while j + TILE_COLUMNS <= last:
            _tiled(_zeros_many, _f32_many, _f16_many, _bf16_many, _lanes_many, TILE_COLUMNS, args, row, at, j, y + j * stride)
            j += TILE_COLUMNS
        while j + 2 <= last:
            _tiled(_zeros_two, _f32_two, _f16_two, _bf16_two, _lanes_two, 2, args, row, at, j, y + j * stride)
            j += 2
        if j < last:
            _tiled(_zeros_one, _f32_one, _f16_one, _bf16_one, _lanes_one, 1, args, row, at, j, y + j * stride)


@compiled("void(intp, intp, intp, intp, intp)")
def widen_row(weights, row, k, type_id, out):
    """One row as float32."""
    for i in range(k):
        st_f32(out, i, number(type_id, weights, row * k + i))


@kernel
def get_rows(args, chunk, thread):
    """Widen the rows that `Y` (int64 row numbers) names; a chunk is a part of them."""
    k, type_id = ld_i64(args, K), ld_i64(args, TYPE)
    part = ld_i64(args, COLUMN_PART)
    for j in range(chunk * part, min(ld_i64(args, COLUMNS), chunk * part + part)):
        widen_row(
            ld_i64(args, WEIGHTS), ld_i64(ld_i64(args, Y), j), k, type_id, ld_i64(args, OUT) + 4 * j * ld_i64(args, OUT_STRIDE)
        )
