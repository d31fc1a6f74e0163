# SPDX-License-Identifier: MIT OR Apache-2.0
"""Attention over a half-precision cache, in the orders of the reference's three kernels.

* *reference* (fewer than 64 rows; one row under 512 padded cells): online softmax cell by cell, the value sum rounded to half
  after every cell;
* *split-KV* (one row, 512 padded cells and more): the same over as many chunks of cells as the reference has
  threads, then joined;
* *tiled* (64 rows and more of heads whose width divides by 8): tiles of 64 cells, float32 throughout.

Cells that the mask hides contribute nothing and are left out. Layouts of the cache: see ``rope.rope_store``.
Source: ggml_compute_forward_flash_attn_ext_f16_one_chunk, ..._tiled, ggml_flash_attn_ext_reduce_partials, ggml-cpu/ops.cpp.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit, types

from .isa import W
from .libm import expf
from .mathf import emit_vexp, expf_row
from .rows import form_row
from .simd import (
    ADDR,
    F32,
    F64,
    V,
    VecType,
    f32xw,
    fma32,
    ld_f32,
    ld_i64,
    mk,
    round_f16,
    st_f32,
    tup,
    vld,
    vmul,
    vsplat,
    vst,
)
from .team import kernel

# Words of the argument block. SCRATCH holds, for each thread, head_dim + 2 * cells floats (reference) or a query tile's (tiled).
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
) = range(18)


def _quarter(E, acc, keys, q, t_stride):
    """Four chained products: accumulator j gathers element 8j of the lane's column."""
    a = E.untup(acc, 4)
    return E.tup([E.fma(E.ld_f16(keys, 256 * j), E.splat_ld(F32, q, 32 * j), a[j]) for j in range(4)])


_acc4 = tup(f32xw, 4)
_dot_step = mk("_dot_step", _acc4, (_acc4, ADDR, ADDR, ADDR), _quarter)
_zeros4 = mk("_zeros4", _acc4, (ADDR,), lambda E, _: E.tup([E.const(F32, 0.0, W)] * 4))


def _fold(E, acc):
    a = E.untup(acc, 4)
    return E.add(E.add(a[0], a[2]), E.add(a[1], a[3]))


_fold4 = mk("_fold4", f32xw, (_acc4,), _fold)
_hsum_b8 = mk("_hsum_b8", f32xw, (tup(f32xw, 8),), lambda E, acc: E.hsum_b(E.untup(acc, 8)))

_wide = tup(VecType("f64", W // 2), 2)


def _widened(E, v):
    return [E.b.fpext(E.half(v, i), V(F64, W // 2)) for i in range(2)]


def _leftover(E, acc, keys, q):
    """One element past the last 32: its product is rounded to float32 and added in float64."""
    products = _widened(E, E.mul(E.ld_f16(keys), E.splat_ld(F32, q)))
    return E.tup([E.add(a, product) for a, product in zip(E.untup(acc, 2), products, strict=True)])


def _narrowed(E, acc):
    return E.join(*(E.b.fptrunc(a, V(F32, W // 2)) for a in E.untup(acc, 2)))


_widen = mk("_widen", _wide, (f32xw,), lambda E, v: E.tup(_widened(E, v)))
_add_leftover = mk("_add_leftover", _wide, (_wide, ADDR, ADDR), _leftover)
_narrow = mk("_narrow", f32xw, (_wide,), _narrowed)


@njit(f32xw(ADDR, ADDR, ADDR), cache=True, nogil=True, error_model="numpy")
def _lane_sum(keys, q, dim):
    """ggml's vec_dot lane: elements L, L+8, L+16, L+24 of each 32, for W cells at once."""
    acc = _zeros4(0)
    for t in range(dim // 32):
        acc = _dot_step(acc, keys + 1024 * t, q + 128 * t, 0)
    return _fold4(acc)


@njit("void(intp, intp, intp, intp, intp, float32, intp)", cache=True, nogil=True, error_model="numpy")
def scores(keys, q, dim, first, last, scale, out):
    """out[c] = (K[c] . q) * scale for the cell blocks that hold cells first..last; q is rounded to half already."""
    for block in range(first // 16, (last + 15) // 16):
        for part in range(16 // W):
            at = keys + block * 32 * dim + part * 2 * W
            total = _hsum_b8(
                (
                    _lane_sum(at, q, dim),
                    _lane_sum(at + 32, q + 4, dim),
                    _lane_sum(at + 64, q + 8, dim),
                    _lane_sum(at + 96, q + 12, dim),
                    _lane_sum(at + 128, q + 16, dim),
                    _lane_sum(at + 160, q + 20, dim),
                    _lane_sum(at + 192, q + 24, dim),
                    _lane_sum(at + 224, q + 28, dim),
                )
            )
            if dim % 32 != 0:
                wide = _widen(total)
                for d in range(dim // 32 * 32, dim):
                    wide = _add_leftover(wide, at + 32 * d, q + 4 * d)
                total = _narrow(wide)
            vst(out + (block * 16 + part * W) * 4, vmul(total, vsplat(scale)))


def _slab(vectors):
    """Value sums of 'vectors' registers: one cell's step, and the rescale at a new maximum."""
    state = tup(f32xw, vectors)

    def rounded(E, v):
        return E.f16_to_f32(E.f32_to_f16(v))

    def step(E, acc, values, p):
        weight = E.splat(p)
        a = E.untup(acc, vectors)
        return E.tup([rounded(E, E.fma(E.ld_f16(values, 2 * W * i), weight, a[i])) for i in range(vectors)])

    def rescale(E, acc, by):
        factor = E.splat(by)
        return E.tup([rounded(E, E.mul(a, factor)) for a in E.untup(acc, vectors)])

    def store(E, acc, out):
        for i, a in enumerate(E.untup(acc, vectors)):
            E.st(a, out, 4 * W * i)

    return (
        mk(f"_slab_zero{vectors}", state, (ADDR,), lambda E, _: E.tup([E.const(F32, 0.0, W)] * vectors)),
        mk(f"_slab_step{vectors}", state, (state, ADDR, types.float32), step),
        mk(f"_slab_rescale{vectors}", state, (state, types.float32), rescale),
        mk(f"_slab_store{vectors}", types.void, (state, ADDR), store),
    )


_zero64, _step64, _rescale64, _store64 = _slab(64 // W)
_zero16, _step16, _rescale16, _store16 = _slab(16 // W)


@njit(types.UniTuple(types.float32, 2)(ADDR, ADDR, ADDR, ADDR), cache=True, nogil=True, error_model="numpy")
def weigh_cells(weights, rescales, first, last):
    """The online softmax of scores first..last: (maximum, sum).

    The scores become weights; rescales[c] is the factor for all before a cell that is a new maximum, and -1 elsewhere.
    """
    # The running maximum of the scores decides every exponent before any is taken.
    top = np.float32(-math.inf)
    for c in range(first, last):
        s = ld_f32(weights, c)
        if s > top:
            st_f32(rescales, c, top - s)
            top = s
            st_f32(weights, c, np.float32(0.0))
        else:
            st_f32(rescales, c, np.float32(1.0))
            st_f32(weights, c, s - top)
    expf_row(weights + 4 * first, last - first)
    total = np.float32(0.0)
    for c in range(first, last):
        by = ld_f32(rescales, c)
        if by <= np.float32(0.0):
            by = expf(by)
            st_f32(rescales, c, by)
            total = fma32(total, by, np.float32(1.0))
        else:
            st_f32(rescales, c, np.float32(-1.0))
            total = total + ld_f32(weights, c)
    return top, total


@njit("void(intp, intp, intp, intp, intp, intp, float32, intp, intp, intp)", cache=True, nogil=True, error_model="numpy")
def attend_span(q, keys, values, dim, first, last, scale, cells, scratch, out):
    """One head's query over cells first..last: out[0] = maximum, out[1] = sum, out[2:] = unnormalised values.

    scratch: float32 [dim] the rounded query, [cells] scores then weights, [cells] rescales (-1: none).
    """
    weights = scratch + 4 * dim
    rescales = weights + 4 * cells
    for d in range(dim):
        st_f32(scratch, d, round_f16(ld_f32(q, d)))
    scores(keys, scratch, dim, first, last, scale, weights)
    top, total = weigh_cells(weights, rescales, first, last)
    st_f32(out, 0, top)
    st_f32(out, 1, total)
    d = 0
    while d + 64 <= dim:
        acc = _zero64(0)
        for c in range(first, last):
            by = ld_f32(rescales, c)
            if by >= np.float32(0.0):
                acc = _rescale64(acc, by)
            acc = _step64(acc, values + (c * dim + d) * 2, ld_f32(weights, c))
        _store64(acc, out + 8 + 4 * d)
        d += 64
    while d < dim:
        one = _zero16(0)
        for c in range(first, last):
            by = ld_f32(rescales, c)
            if by >= np.float32(0.0):
                one = _rescale16(one, by)
            one = _step16(one, values + (c * dim + d) * 2, ld_f32(weights, c))
        if d + 16 <= dim:
            _store16(one, out + 8 + 4 * d)
        else:
            # What lies past the last value is another's; the query is no longer needed.
            _store16(one, scratch)
            for i in range(dim - d):
                st_f32(out, 2 + d + i, ld_f32(scratch, i))
        d += 16


@kernel
def spans(args, chunk, thread):
    """One row: chunk = head * SPANS + span; partial results to float32 PARTIALS[head][span][2 + dim]."""
    dim, cells = ld_i64(args, 6), ld_i64(args, 7)
    n_spans, span = ld_i64(args, 11), ld_i64(args, 10)
    head = chunk // n_spans
    first = chunk % n_spans * span
    last = min(first + span, ld_i64(args, 8) + 1)
    out = ld_i64(args, 12) + chunk * (2 + dim) * 4
    if first >= last:
        st_f32(out, 0, np.float32(-math.inf))
        st_f32(out, 1, np.float32(0.0))
        return
    kv = head // ld_i64(args, 5) * cells * dim * 2
    scratch = ld_i64(args, 15) + thread * ld_i64(args, 16)
    scale = ld_f32(args, 34)
    attend_span(
        ld_i64(args, 0) + 4 * head * dim, ld_i64(args, 2) + kv, ld_i64(args, 3) + kv, dim, first, last, scale, cells, scratch, out
    )


@njit("void(intp, intp, intp, intp)", cache=True, nogil=True, error_model="numpy")
def join_spans(partials, n_spans, dim, out):
    """One head: join its spans in order and normalise into out[dim]."""
    top = np.float32(-math.inf)
    total = np.float32(0.0)
    stride = (2 + dim) * 4
    for d in range(dim):
        st_f32(out, d, np.float32(0.0))
    for t in range(n_spans):
        part = partials + t * stride
        part_top, part_total = ld_f32(part, 0), ld_f32(part, 1)
        if part_total == np.float32(0.0):
            continue
        new = max(top, part_top)
        old_by, new_by = expf(top - new), expf(part_top - new)
        for d in range(dim):
            st_f32(out, d, fma32(ld_f32(out, d), old_by, ld_f32(part, 2 + d) * new_by))
        total = fma32(total, old_by, part_total * new_by)
        top = new
    inverse = np.float32(1.0) / total if total != np.float32(0.0) else np.float32(0.0)
    for d in range(dim):
        st_f32(out, d, ld_f32(out, d) * inverse)


@kernel
def rows_reference(args, chunk, thread):
    """Many rows by the reference kernel: chunk = row * HEADS + head."""
    heads, dim, cells = ld_i64(args, 4), ld_i64(args, 6), ld_i64(args, 7)
    row, head = chunk // heads, chunk % heads
    kv = head // ld_i64(args, 5) * cells * dim * 2
    scratch = ld_i64(args, 15) + thread * ld_i64(args, 16)
    part = scratch + (dim + 2 * cells) * 4
    q = ld_i64(args, 0) + (row * ld_i64(args, 1) + head * dim) * 4
    last = ld_i64(args, 8) + row + 1
    attend_span(q, ld_i64(args, 2) + kv, ld_i64(args, 3) + kv, dim, 0, last, ld_f32(args, 34), cells, scratch, part)
    total = ld_f32(part, 1)
    inverse = np.float32(1.0) / total if total != np.float32(0.0) else np.float32(0.0)
    out = ld_i64(args, 13) + (row * ld_i64(args, 14) + head * dim) * 4
    for d in range(dim):
        st_f32(out, d, ld_f32(part, 2 + d) * inverse)


# Words of the argument block of `join_form`: partials, heads, spans, head dim, scratch and its stride per thread, then where and
# in what form the row goes.
JOIN_FIELDS = 12


@kernel
def join_form(args, chunk, thread):
    """Prologue: join every head's spans into the thread's scratch, then form the row for the next product."""
    heads, n_spans, dim = ld_i64(args, 1), ld_i64(args, 2), ld_i64(args, 3)
    scratch = ld_i64(args, 4) + thread * ld_i64(args, 5)
    for h in range(heads):
        join_spans(ld_i64(args, 0) + h * n_spans * (2 + dim) * 4, n_spans, dim, scratch + 4 * h * dim)
    to = ld_i64(args, 6) + thread * ld_i64(args, 7)
    form_row(scratch, heads * dim, to, ld_i64(args, 8), ld_i64(args, 9))


# --- tiled
TILE_CELLS = 64
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


@njit("float32(intp, intp, float32, float32, intp, intp)", cache=True, nogil=True, error_model="numpy")
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
    heads, dim, cells = ld_i64(args, 4), ld_i64(args, 6), ld_i64(args, 7)
    tile, head = chunk // heads, chunk % heads
    position, rows = ld_i64(args, 8), ld_i64(args, 9)
    kv = head // ld_i64(args, 5) * cells * dim * 2
    keys, values = ld_i64(args, 2) + kv, ld_i64(args, 3) + kv
    scale = ld_f32(args, 34)
    scratch = ld_i64(args, 15) + thread * ld_i64(args, 16)
    # Value rows are padded to whole registers: what lies past dim is computed and never read.
    score_stride, value_stride = 4 * 80, 4 * ((dim + 63) // 64 * 64)
    score = scratch + 64
    acc_at = score + TILE_ROWS * score_stride
    sums = acc_at + TILE_ROWS * value_stride
    tops = sums + 4 * TILE_ROWS
    first = tile * TILE_ROWS
    count = min(TILE_ROWS, rows - first)
    q_stride = 4 * ld_i64(args, 1)
    q = ld_i64(args, 0) + first * q_stride + 4 * head * dim
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
        out = ld_i64(args, 13) + ((first + r) * ld_i64(args, 14) + head * dim) * 4
        d = 0
        while d + W <= dim:
            vst(out + 4 * d, vmul(vld(acc_at + r * value_stride + 4 * d), inverse))
            d += W
        while d < dim:
            st_f32(out, d, ld_f32(acc_at + r * value_stride, d) * normalizer)
            d += 1


def scratch_bytes(dim: int, cells: int) -> int:
    """Scratch that one thread needs for any of the kernels above."""
    return (max(2 * dim + 2 + 2 * cells + 32, TILE_ROWS * (80 + (dim + 63) // 64 * 64 + 2) + 64) * 4 + 63) // 64 * 64
