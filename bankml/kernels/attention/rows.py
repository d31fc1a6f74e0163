# SPDX-License-Identifier: MIT OR Apache-2.0
"""Attention of single rows over a half-precision cache, in the orders of two of the reference's kernels.

* *reference* (fewer than 64 rows, or heads whose width does not divide by 8; one row under 512 padded cells): online softmax
  cell by cell, the value sum rounded to half after every cell;
* *split-KV* (one row, 512 padded cells and more): the same over as many spans of cells as the reference has
  threads, then joined.

Heads that share keys and values are taken together, up to MOST_HEADS: what they share is read and widened once, and the chain
of roundings of one head runs beside those of the others. Cells that the mask hides contribute nothing and are left out.
Layouts of the cache: see ``rope.rope_store``.
Source: ggml_compute_forward_flash_attn_ext_f16_one_chunk, ggml_flash_attn_ext_reduce_partials, ggml-cpu/ops.cpp.
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir

from bankml.kernels.activations.rows import form_row
from bankml.kernels.attention import tiled
from bankml.kernels.compiler import types
from bankml.kernels.compiler.isa import W
from bankml.kernels.compiler.native import compiled, kernel
from bankml.kernels.compiler.simd import (
    ADDR,
    F32,
    F64,
    FW,
    I64,
    V,
    f32xw,
    fma32,
    ld_f32,
    ld_i32,
    ld_i64,
    mk,
    round_f16,
    st_f32,
    st_i32,
    st_i64,
    tup,
)
from bankml.kernels.libm.functions import expf
from bankml.kernels.libm.vectors import expf_row

MOST_HEADS = 3
# Value dimensions of a slab: what a tile of heads keeps in registers.
# Bytes between what is read and what is asked for: the hardware's own prefetching ends with a page.
_AHEAD = 4096
_SLAB, _REST = (64, 16) if W == 16 else (32, 16)


def of_head(E, address, stride, h):
    """The same place of another head of the tile."""
    return address if h == 0 else E.b.add(address, E.b.mul(stride, E.i64(h)))


def widened(E, v):
    """A vector as two of float64."""
    return [E.b.fpext(E.half(v, i), V(F64, W // 2)) for i in range(2)]


# --- scores
def _scoring(heads):
    """Intrinsics of the scores of a tile of heads: (zeros, quarter, fold, total, put, widen, leftover, narrow)."""
    accs, sums, wide = tup(f32xw, 4 * heads), tup(f32xw, heads), tup(types.Vector("f64", W // 2), 2 * heads)

    def quarter(E, acc, keys, q, stride):
        """Four chained products a head: accumulator j gathers element 8j of the lane's column."""
        a = E.untup(acc, 4 * heads)
        for j in range(4):
            E.prefetch(keys, _AHEAD + 256 * j)
            k = E.ld_f16(keys, 256 * j)
            for h in range(heads):
                a[4 * h + j] = E.fma(k, E.splat_ld(F32, of_head(E, q, stride, h), 32 * j), a[4 * h + j])
        return E.tup(a)

    def fold(E, acc):
        a = E.untup(acc, 4 * heads)
        return E.tup([E.add(E.add(a[4 * h], a[4 * h + 2]), E.add(a[4 * h + 1], a[4 * h + 3])) for h in range(heads)])

    def total(E, *lanes):
        values = [E.untup(lane, heads) for lane in lanes]
        return E.tup([E.hsum_b([lane[h] for lane in values]) for h in range(heads)])

    def leftover(E, acc, keys, q, stride):
        """One element past the last 32: its product is rounded to float32 and added in float64."""
        k, a = E.ld_f16(keys), E.untup(acc, 2 * heads)
        for h in range(heads):
            product = E.mul(k, E.splat_ld(F32, of_head(E, q, stride, h)))
            a[2 * h : 2 * h + 2] = [E.add(x, y) for x, y in zip(a[2 * h : 2 * h + 2], widened(E, product), strict=True)]
        return E.tup(a)

    def put(E, totals, scale, out, stride):
        for h, value in enumerate(E.untup(totals, heads)):
            E.st(E.mul(value, E.splat(scale)), of_head(E, out, stride, h))

    def widen(E, totals):
        return E.tup([half for v in E.untup(totals, heads) for half in widened(E, v)])

    def narrow(E, acc):
        halves = [E.b.fptrunc(a, V(F32, W // 2)) for a in E.untup(acc, 2 * heads)]
        return E.tup([E.join(halves[2 * h], halves[2 * h + 1]) for h in range(heads)])

    return (
        mk(f"_score_zeros{heads}", accs, (ADDR,), lambda E, _: E.tup([E.const(F32, 0.0, W)] * 4 * heads)),
        mk(f"_score_quarter{heads}", accs, (accs, ADDR, ADDR, ADDR), quarter),
        mk(f"_score_fold{heads}", sums, (accs,), fold),
        mk(f"_score_total{heads}", sums, (sums,) * 8, total),
        mk(f"_score_put{heads}", types.void, (sums, types.float32, ADDR, ADDR), put),
        mk(f"_score_widen{heads}", wide, (sums,), widen),
        mk(f"_score_leftover{heads}", wide, (wide, ADDR, ADDR, ADDR), leftover),
        mk(f"_score_narrow{heads}", sums, (wide,), narrow),
    )


@compiled
def _lane_sum(zeros, quarter, fold, keys, q, stride, dim):
    """ggml's vec_dot lane: elements L, L+8, L+16, L+24 of each 32, for W cells and a tile of heads at once."""
    acc = zeros(0)
    for t in range(dim // 32):
        acc = quarter(acc, keys + 1024 * t, q + 128 * t, stride)
    return fold(acc)


@compiled
def _scores(zeros, quarter, fold, total, put, widen, leftover, narrow, keys, q, dim, first, last, scale, out, stride):
    """out[c] = (K[c] . q) * scale for the cell blocks that hold cells first..last; q is rounded to half already."""
    for block in range(first // 16, (last + 15) // 16):
        for part in range(16 // W):
            at = keys + block * 32 * dim + part * 2 * W
            totals = total(
                _lane_sum(zeros, quarter, fold, at, q, stride, dim),
                _lane_sum(zeros, quarter, fold, at + 32, q + 4, stride, dim),
                _lane_sum(zeros, quarter, fold, at + 64, q + 8, stride, dim),
                _lane_sum(zeros, quarter, fold, at + 96, q + 12, stride, dim),
                _lane_sum(zeros, quarter, fold, at + 128, q + 16, stride, dim),
                _lane_sum(zeros, quarter, fold, at + 160, q + 20, stride, dim),
                _lane_sum(zeros, quarter, fold, at + 192, q + 24, stride, dim),
                _lane_sum(zeros, quarter, fold, at + 224, q + 28, stride, dim),
            )
            if dim % 32 != 0:
                wide = widen(totals)
                for d in range(dim // 32 * 32, dim):
                    wide = leftover(wide, at + 32 * d, q + 4 * d, stride)
                totals = narrow(wide)
            put(totals, scale, out + (block * 16 + part * W) * 4, stride)


# --- weights
def _whether_none(E, at, top):
    """Whether no lane of the W scores is above `top`."""
    above = E.b.fcmp_ordered(">", E.ld(FW, at), E.splat(top))
    return E.b.zext(E.b.icmp_unsigned("==", E.b.bitcast(above, ir.IntType(W)), ir.Constant(ir.IntType(W), 0)), I64)


_none_above = mk("_none_above", types.int64, (ADDR, types.float32), _whether_none)
_less = mk("_less", types.void, (ADDR, types.float32), lambda E, at, top: E.st(E.sub(E.ld(FW, at), E.splat(top)), at))


@compiled("float32(intp, intp, intp, intp, intp)")
def weigh_cells(weights, rescales, maxima, first, last):
    """The online softmax of scores first..last: the maximum.

    The scores become weights. `maxima`, int32, lists the cells that are a new maximum, and `last` after them; rescales[c] is
    the factor for all before such a cell.
    """
    # The running maximum of the scores decides every exponent before any is taken.
    top = np.float32(-math.inf)
    found = 0
    c = first
    while c < last:
        if c + W <= last and _none_above(weights + 4 * c, top) != 0:
            _less(weights + 4 * c, top)
            c += W
            continue
        for i in range(c, min(c + W, last)):
            s = ld_f32(weights, i)
            if s > top:
                st_f32(rescales, i, top - s)
                st_i32(maxima, found, i)
                found += 1
                top = s
            st_f32(weights, i, s - top)
        c += W
    st_i32(maxima, found, last)
    expf_row(weights + 4 * first, last - first)
    for i in range(found):
        c = ld_i32(maxima, i)
        st_f32(rescales, c, expf(ld_f32(rescales, c)))
    return top


@compiled("float32(intp, intp, intp, intp, intp)")
def sum_of_weights(weights, rescales, maxima, first, last):
    """The sum of the weights of cells first..last, made smaller at each new maximum."""
    total = np.float32(0.0)
    c = first
    number = 0
    while c < last:
        end = ld_i32(maxima, number)
        while c < end:
            total += ld_f32(weights, c)
            c += 1
        if c < last:
            total = fma32(total, ld_f32(rescales, c), ld_f32(weights, c))
            c += 1
        number += 1
    return total


# --- values
def _weighing(heads, width):
    """Intrinsics of the value sums of a tile of heads, `width` dimensions: (zeros, step, rescale, store).

    The state is the heads' value sums, rounded to half, and in every lane of one more vector each the sum of its weights.
    """
    vectors = width // W
    sums = heads * vectors
    state = tup(f32xw, sums + heads)

    def rounded(E, v):
        return E.f16_to_f32(E.f32_to_f16(v))

    def cell(E, values, weights, stride):
        """A cell's values, and its weight for each head."""
        v = [E.ld_f16(values, 2 * W * i) for i in range(vectors)]
        return v, [E.splat_ld(F32, of_head(E, weights, stride, h)) for h in range(heads)]

    def add(E, a, v, p):
        return [rounded(E, E.fma(v[i], p[h], a[h * vectors + i])) for h in range(heads) for i in range(vectors)]

    def step(E, acc, values, weights, stride):
        a = E.untup(acc, sums + heads)
        for line in range(0, 2 * width, 64):
            E.prefetch(values, _AHEAD + line)
        v, p = cell(E, values, weights, stride)
        return E.tup(add(E, a, v, p) + [E.add(a[sums + h], p[h]) for h in range(heads)])

    def rescale(E, acc, values, weights, stride, factors):
        """A cell that is a new maximum of some head: what was before it gets smaller. Elsewhere the factor is 1."""
        a = E.untup(acc, sums + heads)
        f = [E.splat_ld(F32, factors, 4 * h) for h in range(heads)]
        v, p = cell(E, values, weights, stride)
        # A sum that is rounded already stays as it is when its factor is 1, and so does that of the weights.
        scaled = [rounded(E, E.mul(a[h * vectors + i], f[h])) for h in range(heads) for i in range(vectors)]
        return E.tup(add(E, scaled, v, p) + [E.fma(a[sums + h], f[h], p[h]) for h in range(heads)])

    def store(E, acc, out, stride, totals):
        a = E.untup(acc, sums + heads)
        for n in range(sums):
            E.st(a[n], of_head(E, out, stride, n // vectors), 4 * W * (n % vectors))
        for h in range(heads):
            E.st(E.lane(a[sums + h], 0), totals, 4 * h)

    name = f"{heads}x{width}"
    return (
        mk(f"_value_zeros{name}", state, (ADDR,), lambda E, _: E.tup([E.const(F32, 0.0, W)] * (sums + heads))),
        mk(f"_value_step{name}", state, (state, ADDR, ADDR, ADDR), step),
        mk(f"_value_rescale{name}", state, (state, ADDR, ADDR, ADDR, ADDR), rescale),
        mk(f"_value_store{name}", types.void, (state, ADDR, ADDR, ADDR), store),
    )


@compiled
def _values(zeros, step, rescale, store, heads, values, row, first, last, tile, out, out_stride):
    """Value sums of some dimensions for a tile of heads; `row` bytes from cell to cell. The sums of weights go to the state."""
    at, stride, rescales, maxima, state = tile
    factors = state + 8 * MOST_HEADS
    acc = zeros(0)
    for h in range(heads):
        st_i64(state, h, 0)
    c = first
    while c < last:
        here = False
        end = last
        for h in range(heads):
            index = ld_i64(state, h)
            factor = np.float32(1.0)
            if ld_i32(maxima + h * stride, index) == c:
                here = True
                factor = ld_f32(rescales + h * stride, c)
                index += 1
                st_i64(state, h, index)
            st_f32(factors, h, factor)
            end = min(end, ld_i32(maxima + h * stride, index))
        if here:
            acc = rescale(acc, values + c * row, at + 4 * c, stride, factors)
            c += 1
        while c < end:
            acc = step(acc, values + c * row, at + 4 * c, stride)
            c += 1
    store(acc, out, out_stride, factors)


# --- a tile of heads
# Numba takes intrinsics as arguments, one by one.
_zeros1, _quarter1, _fold1, _total1, _put1, _widen1, _leftover1, _narrow1 = _scoring(1)
_zeros2, _quarter2, _fold2, _total2, _put2, _widen2, _leftover2, _narrow2 = _scoring(2)
_zeros3, _quarter3, _fold3, _total3, _put3, _widen3, _leftover3, _narrow3 = _scoring(3)
_slab_zeros1, _slab_step1, _slab_rescale1, _slab_store1 = _weighing(1, _SLAB)
_slab_zeros2, _slab_step2, _slab_rescale2, _slab_store2 = _weighing(2, _SLAB)
_slab_zeros3, _slab_step3, _slab_rescale3, _slab_store3 = _weighing(3, _SLAB)
_rest_zeros1, _rest_step1, _rest_rescale1, _rest_store1 = _weighing(1, _REST)
_rest_zeros2, _rest_step2, _rest_rescale2, _rest_store2 = _weighing(2, _REST)
_rest_zeros3, _rest_step3, _rest_rescale3, _rest_store3 = _weighing(3, _REST)


@compiled
def head_scratch(dim: int, cells: int) -> int:
    """Bytes that one head needs: the rounded query, scores that become weights, rescales, and the cells that are maxima."""
    return (dim + 3 * cells + 32) * 4


@compiled
def _attend(
    zeros, quarter, fold, total, put, widen, leftover, narrow,
    slab_zeros, slab_step, slab_rescale, slab_store, rest_zeros, rest_step, rest_rescale, rest_store,
    heads, args, query, keys, values, first, last, scratch, out, out_stride,
):  # fmt: skip
    """A tile of heads over cells first..last: out[0] = maximum, out[1] = sum, out[2:] = unnormalised values, head by head."""
    dim, cells = ld_i64(args, tiled.DIM), ld_i64(args, tiled.CELLS)
    stride = head_scratch(dim, cells)
    weights = scratch + 4 * dim
    rescales = weights + 4 * cells
    maxima = rescales + 4 * cells
    state = scratch + heads * stride
    for h in range(heads):
        for d in range(dim):
            st_f32(scratch + h * stride, d, round_f16(ld_f32(query, h * dim + d)))
    _scores(
        zeros, quarter, fold, total, put, widen, leftover, narrow,
        keys, scratch, dim, first, last, ld_f32(args, 2 * tiled.SCALE), weights, stride,
    )  # fmt: skip
    for h in range(heads):
        at = h * stride
        st_f32(out + h * out_stride, 0, weigh_cells(weights + at, rescales + at, maxima + at, first, last))
    tile = (weights, stride, rescales, maxima, state)
    d = 0
    while d + _SLAB <= dim:
        _values(
            slab_zeros, slab_step, slab_rescale, slab_store, heads,
            values + 2 * d, 2 * dim, first, last, tile, out + 8 + 4 * d, out_stride,
        )  # fmt: skip
        d += _SLAB
    while d < dim:
        # What lies past the last value of a head is another's; the queries are no longer needed.
        part = d + _REST > dim
        to, to_stride = (scratch, stride) if part else (out + 8 + 4 * d, out_stride)
        _values(
            rest_zeros, rest_step, rest_rescale, rest_store, heads,
            values + 2 * d, 2 * dim, first, last, tile, to, to_stride,
        )  # fmt: skip
        if part:
            for h in range(heads):
                for i in range(dim - d):
                    st_f32(out + h * out_stride, 2 + d + i, ld_f32(scratch + h * stride, i))
        d += _REST
    for h in range(heads):
        st_f32(out + h * out_stride, 1, ld_f32(state + 8 * MOST_HEADS, h))


@kernel
def attend(args, chunk, thread):
    """A tile of heads of one row over one span: chunk = (row * tiles + tile) * SPANS + span.

    Partial results go to float32 PARTIALS[head][span][2 + dim]; where PARTIALS is 0 there is one span, and OUT gets the row.
    """
    dim, cells, group, most = (
        ld_i64(args, tiled.DIM),
        ld_i64(args, tiled.CELLS),
        ld_i64(args, tiled.GROUP),
        ld_i64(args, tiled.HEADS_TOGETHER),
    )
    span, n_spans = ld_i64(args, tiled.SPAN), ld_i64(args, tiled.SPANS)
    tiles = (group + most - 1) // most
    kv_heads = ld_i64(args, tiled.HEADS) // group
    number = chunk // n_spans
    row, number = number // (kv_heads * tiles), number % (kv_heads * tiles)
    kv, tile = number // tiles, number % tiles
    head = kv * group + tile * most
    heads = min(most, group - tile * most)
    first = chunk % n_spans * span
    last = min(first + span, ld_i64(args, tiled.POSITION) + row + 1)
    scratch = ld_i64(args, tiled.SCRATCH) + thread * ld_i64(args, tiled.SCRATCH_STRIDE)
    partials = ld_i64(args, tiled.PARTIALS)
    size = (2 + dim) * 4
    out_stride = size * n_spans
    if partials != 0:
        out = partials + (head * n_spans + chunk % n_spans) * size
    else:
        out = scratch + MOST_HEADS * head_scratch(dim, cells) + 64
    if first >= last:
        for h in range(heads):
            st_f32(out + h * out_stride, 0, np.float32(-math.inf))
            st_f32(out + h * out_stride, 1, np.float32(0.0))
        return
    query = ld_i64(args, tiled.Q) + (row * ld_i64(args, tiled.Q_STRIDE) + head * dim) * 4
    keys, values = ld_i64(args, tiled.K_CACHE) + kv * cells * dim * 2, ld_i64(args, tiled.V_CACHE) + kv * cells * dim * 2
    if heads == 3:
        _attend(
            _zeros3, _quarter3, _fold3, _total3, _put3, _widen3, _leftover3, _narrow3,
            _slab_zeros3, _slab_step3, _slab_rescale3, _slab_store3,
            _rest_zeros3, _rest_step3, _rest_rescale3, _rest_store3,
            3, args, query, keys, values, first, last, scratch, out, out_stride,
        )  # fmt: skip
    elif heads == 2:
        _attend(
            _zeros2, _quarter2, _fold2, _total2, _put2, _widen2, _leftover2, _narrow2,
            _slab_zeros2, _slab_step2, _slab_rescale2, _slab_store2,
            _rest_zeros2, _rest_step2, _rest_rescale2, _rest_store2,
            2, args, query, keys, values, first, last, scratch, out, out_stride,
        )  # fmt: skip
    else:
        _attend(
            _zeros1, _quarter1, _fold1, _total1, _put1, _widen1, _leftover1, _narrow1,
            _slab_zeros1, _slab_step1, _slab_rescale1, _slab_store1,
            _rest_zeros1, _rest_step1, _rest_rescale1, _rest_store1,
            1, args, query, keys, values, first, last, scratch, out, out_stride,
        )  # fmt: skip
    if partials != 0:
        return
    to = ld_i64(args, tiled.OUT) + (row * ld_i64(args, tiled.OUT_STRIDE) + head * dim) * 4
    for h in range(heads):
        total = ld_f32(out + h * size, 1)
        inverse = np.float32(1.0) / total if total != np.float32(0.0) else np.float32(0.0)
        for d in range(dim):
            st_f32(to, h * dim + d, ld_f32(out + h * size, 2 + d) * inverse)


@compiled("void(intp, intp, intp, intp)")
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


# Words of the argument block of `join_form`: the spans' results and their counts, scratch and its stride per thread, then where
# and in what form the row goes.
JOIN_FIELDS = 12
(
    JOIN_PARTIALS,
    JOIN_HEADS,
    JOIN_SPANS,
    JOIN_DIM,
    JOIN_SCRATCH,
    JOIN_SCRATCH_STRIDE,
    JOIN_TO,
    JOIN_TO_STRIDE,
    JOIN_FORM,
    JOIN_MINUS_OFFSET,
) = range(10)


@kernel
def join_form(args, chunk, thread):
    """Prologue: join every head's spans into the thread's scratch, then form the row for the next product."""
    heads, n_spans, dim = ld_i64(args, JOIN_HEADS), ld_i64(args, JOIN_SPANS), ld_i64(args, JOIN_DIM)
    scratch = ld_i64(args, JOIN_SCRATCH) + thread * ld_i64(args, JOIN_SCRATCH_STRIDE)
    for h in range(heads):
        join_spans(ld_i64(args, JOIN_PARTIALS) + h * n_spans * (2 + dim) * 4, n_spans, dim, scratch + 4 * h * dim)
    to = ld_i64(args, JOIN_TO) + thread * ld_i64(args, JOIN_TO_STRIDE)
    form_row(scratch, heads * dim, to, ld_i64(args, JOIN_FORM), ld_i64(args, JOIN_MINUS_OFFSET))


def scratch_bytes(dim: int, cells: int) -> int:
    """Scratch that one thread needs."""
    return (MOST_HEADS * (head_scratch(dim, cells) + (2 + dim) * 4) + 64 + 63) // 64 * 64
