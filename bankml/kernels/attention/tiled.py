# SPDX-License-Identifier: MIT OR Apache-2.0
"""Attention over a half-precision cache: the argument block of all kernels, and the *tiled* kernel for 64 rows and more.

It takes tiles of 64 cells, in float32 throughout, of heads whose width divides by 8. Fewer rows and other widths: see
``attention_rows``. Cells that the mask hides contribute nothing and are left out. Layouts of the cache: ``rope.rope_store``.
Source: ggml_compute_forward_flash_attn_ext_tiled, ggml-cpu/ops.cpp.
"""

from __future__ import annotations

import math

import numpy as np

from bankml.kernels.compiler import types
from bankml.kernels.compiler.isa import W
from bankml.kernels.compiler.native import compiled, kernel
from bankml.kernels.compiler.simd import ADDR, F32, V, f32xw, ld_f32, ld_i64, mk, st_f32, tup, vld, vmul, vsplat, vst
from bankml.kernels.libm.functions import expf
from bankml.kernels.libm.vectors import emit_vexp

# Words of the argument block. HEADS_TOGETHER: the most heads that the kernel for few rows takes at once.
FIELDS = 24
(
    Q,
    Q_STRIDE,
    K_CACHE,
    V_CACHE,
    HEADS,
    GROUP,
    DIM,
    CELLS,
    POSITION,
    ROWS,
    SPAN,
    SPANS,
    PARTIALS,
    OUT,
    OUT_STRIDE,
    SCRATCH,
    SCRATCH_STRIDE,
    SCALE,
    HEADS_TOGETHER,
) = range(19)

TILE_ROWS = 6 if W == 16 else 2
_VECTORS = 4


def _tile_dot(E, acc, keys, *queries):
    """One dimension of a tile: W*4 cells for each row; q[d] is broadcast."""
    a = E.untup(acc, _VECTORS * TILE_ROWS)
    for i in range(_VECTORS):
        cell = i * W
        # Blocks of 16 cells are keys_stride bytes apart; the caller passes their addresses through `keys` and the stride.
        k = E.ld_f16(E.b.add(keys, E.b.mul(queries[-1], E.i64(cell // 16))), cell % 16 * 2)
        for r in range(TILE_ROWS):
            a[i * TILE_ROWS + r] = E.fma(k, E.splat_ld(F32, queries[r]), a[i * TILE_ROWS + r])
    return E.tup(a)


_tile = tup(f32xw, _VECTORS * TILE_ROWS)
_tile_dot_step = mk("_tile_dot_step", _tile, (_tile, ADDR) + (ADDR,) * (TILE_ROWS + 1), _tile_dot)
_tile_zero = mk("_tile_zero", _tile, (ADDR,), lambda E, _: E.tup([E.const(F32, 0.0, W)] * (_VECTORS * TILE_ROWS)))


def _tile_store(E, acc, out, row_stride, scale):
    s = E.splat(scale)
    for i in range(_VECTORS):
        for r in range(TILE_ROWS):
            value = E.mul(E.b.extract_value(acc, i * TILE_ROWS + r), s)
            E.st(value, E.b.add(out, E.b.mul(row_stride, E.i64(r))), 4 * W * i)


_tile_store_scores = mk("_tile_store_scores", types.void, (_tile, ADDR, ADDR, types.float32), _tile_store)


def _tile_load(E, out, row_stride):
    return E.tup(
        [
            E.ld(V(F32, W), E.b.add(out, E.b.mul(row_stride, E.i64(r))), 4 * W * i)
            for i in range(_VECTORS)
            for r in range(TILE_ROWS)
        ]
    )


_tile_load_values = mk("_tile_load_values", _tile, (ADDR, ADDR), _tile_load)


def _tile_put(E, acc, out, row_stride):
    for i in range(_VECTORS):
        for r in range(TILE_ROWS):
            E.st(E.b.extract_value(acc, i * TILE_ROWS + r), E.b.add(out, E.b.mul(row_stride, E.i64(r))), 4 * W * i)


_tile_put_values = mk("_tile_put_values", types.void, (_tile, ADDR, ADDR), _tile_put)


def _tile_add(E, acc, values, weights, row_stride):
    """One cell of a tile: W*4 value dimensions for each row; the row's weight is broadcast."""
    a = E.untup(acc, _VECTORS * TILE_ROWS)
    p = [E.splat_ld(F32, E.b.add(weights, E.b.mul(row_stride, E.i64(r)))) for r in range(TILE_ROWS)]
    for i in range(_VECTORS):
        v = E.ld_f16(values, 2 * W * i)
        for r in range(TILE_ROWS):
            a[i * TILE_ROWS + r] = E.fma(v, p[r], a[i * TILE_ROWS + r])
    return E.tup(a)


_tile_add_cell = mk("_tile_add_cell", _tile, (_tile, ADDR, ADDR, ADDR), _tile_add)


def _weights(E, at, top):
    """exp(score - top) of W cells, in place; returns the HS-A sum of each eight, in every lane of its eight."""
    p = emit_vexp(E, E.sub(E.ld(V(F32, W), at), E.splat(top)))
    E.st(p, at)
    return E.hsum_lanes(p, "A")


_weigh = mk("_weigh", f32xw, (ADDR, types.float32), _weights)
_first_lane = mk("_first_lane", types.float32, (f32xw,), lambda E, v: E.lane(v, 0))
_ninth_lane = mk("_ninth_lane", types.float32, (f32xw,), lambda E, v: E.lane(v, 8 if W == 16 else 0))


def _max_lanes(E, a, b):
    return E.b.select(E.b.fcmp_ordered(">", a, b), a, b)


_vmax = mk("_vmax", f32xw, (f32xw, f32xw), _max_lanes)


def _top_lane(E, v):
    while v.type.count > 1:
        n = v.type.count // 2
        if n == 1:
            return _max_lanes(E, E.lane(v, 0), E.lane(v, 1))
        v = _max_lanes(E, E.half(v, 0), E.half(v, 1))
    return v


_vtop = mk("_vtop", types.float32, (f32xw,), _top_lane)


@compiled("float32(intp, intp, float32, float32, intp, intp)")
def _soften(row, visible, old_top, total, values, dim):
    """One row's scores of a tile become weights; cells from `visible` on weigh 0. Rescales values; returns the new sum.

    The new maximum is left in the first float before the row.
    """
    for c in range(visible, 64):
        st_f32(row, c, np.float32(-math.inf))
    best = vld(row)
    for i in range(1, 64 // W):
        best = _vmax(best, vld(row + 4 * W * i))
    top = max(old_top, _vtop(best))
    if top > old_top:
        by = expf(old_top - top)
        factor = vsplat(by)
        d = 0
        while d < dim:
            vst(values + 4 * d, vmul(vld(values + 4 * d), factor))
            d += W
        total = total * by
    softened = 0.0
    for i in range(64 // W):
        sums = _weigh(row + 4 * W * i, top)
        softened += np.float64(_first_lane(sums))
        if W == 16:
            softened += np.float64(_ninth_lane(sums))
    st_f32(row, -1, top)
    return np.float32(np.float64(total) + softened)


@kernel
def rows_tiled(args, chunk, thread):
    """Many rows by the tiled kernel: chunk = row tile * HEADS + head.

    scratch, float32: scores [TILE_ROWS][16 + 64], values [TILE_ROWS][dim], sums and maxima [2][TILE_ROWS].
    """
    heads, dim, cells = ld_i64(args, HEADS), ld_i64(args, DIM), ld_i64(args, CELLS)
    tile, head = chunk // heads, chunk % heads
    position, rows = ld_i64(args, POSITION), ld_i64(args, ROWS)
    kv = head // ld_i64(args, GROUP) * cells * dim * 2
    keys, values = ld_i64(args, K_CACHE) + kv, ld_i64(args, V_CACHE) + kv
    scale = ld_f32(args, 2 * SCALE)
    scratch = ld_i64(args, SCRATCH) + thread * ld_i64(args, SCRATCH_STRIDE)
    # Value rows are padded to whole registers: what lies past dim is computed and never read.
    score_stride, value_stride = 4 * 80, 4 * ((dim + 63) // 64 * 64)
    score = scratch + 64
    acc_at = score + TILE_ROWS * score_stride
    sums = acc_at + TILE_ROWS * value_stride
    tops = sums + 4 * TILE_ROWS
    first = tile * TILE_ROWS
    count = min(TILE_ROWS, rows - first)
    q_stride = 4 * ld_i64(args, Q_STRIDE)
    q = ld_i64(args, Q) + first * q_stride + 4 * head * dim
    for r in range(TILE_ROWS):
        st_f32(sums, r, np.float32(0.0))
        st_f32(tops, r, np.float32(-math.inf))
        for d in range(dim):
            st_f32(acc_at + r * value_stride, d, np.float32(0.0))
    end = position + first + count
    block_stride = 32 * dim
    for cell in range(0, end, 64):
        for part in range(0, 64, _VECTORS * W):
            at = keys + (cell + part) // 16 * block_stride
            acc = _tile_zero(0)
            if TILE_ROWS == 6:
                q1 = q + (q_stride if count > 1 else 0)
                q2 = q1 + (q_stride if count > 2 else 0)
                q3 = q2 + (q_stride if count > 3 else 0)
                q4 = q3 + (q_stride if count > 4 else 0)
                q5 = q4 + (q_stride if count > 5 else 0)
                for d in range(dim):
                    f = 4 * d
                    acc = _tile_dot_step(acc, at + 32 * d, q + f, q1 + f, q2 + f, q3 + f, q4 + f, q5 + f, block_stride)
            else:
                q1 = q + (q_stride if count > 1 else 0)
                for d in range(dim):
                    acc = _tile_dot_step(acc, at + 32 * d, q + 4 * d, q1 + 4 * d, block_stride)
            _tile_store_scores(acc, score + 4 * part, score_stride, scale)
        for r in range(TILE_ROWS):
            row = score + r * score_stride
            visible = min(64, position + first + r + 1 - cell)
            if visible <= 0 or r >= count:
                for c in range(64):
                    st_f32(row, c, np.float32(0.0))
                continue
            total = _soften(row, visible, ld_f32(tops, r), ld_f32(sums, r), acc_at + r * value_stride, dim)
            st_f32(sums, r, total)
            st_f32(tops, r, ld_f32(row, -1))
        live = min(64, end - cell)
        for part in range(0, dim, _VECTORS * W):
            acc = _tile_load_values(acc_at + 4 * part, value_stride)
            for c in range(live):
                acc = _tile_add_cell(acc, values + ((cell + c) * dim + part) * 2, score + 4 * c, score_stride)
            _tile_put_values(acc, acc_at + 4 * part, value_stride)
    for r in range(count):
        total = ld_f32(sums, r)
        normalizer = np.float32(1.0) / total if total != np.float32(0.0) else np.float32(0.0)
        inverse = vsplat(normalizer)
        out = ld_i64(args, OUT) + ((first + r) * ld_i64(args, OUT_STRIDE) + head * dim) * 4
        d = 0
        while d + W <= dim:
            vst(out + 4 * d, vmul(vld(acc_at + r * value_stride + 4 * d), inverse))
            d += W
        while d < dim:
            st_f32(out, d, ld_f32(acc_at + r * value_stride, d) * normalizer)
            d += 1


def scratch_bytes(dim: int) -> int:
    """Scratch that one thread needs."""
    return ((TILE_ROWS * (80 + (dim + 63) // 64 * 64 + 2) + 64) * 4 + 63) // 64 * 64
