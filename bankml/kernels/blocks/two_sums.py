# SPDX-License-Identifier: MIT OR Apache-2.0
"""The order of the reference's vec_dot of IQ4_NL and MXFP4: even and odd blocks have accumulators of their own.

Per output, block pairs: even[L] = fma(dy*d, dot of 4, even[L]), odd[L] likewise; r = HS-A(even + odd); where the number of
blocks is odd the last one is added as r = fma(dy*d, dot of 32, r), which the compiler contracted.
Source: ggml_vec_dot_iq4_nl_q8_0, ggml_vec_dot_mxfp4_q8_0, ggml-cpu/arch/x86/quants.c.
"""

from __future__ import annotations

from bankml.kernels.blocks.nibbles import lane_dots, weight_first
from bankml.kernels.blocks.walk import is_wild
from bankml.kernels.compiler.isa import W
from bankml.kernels.compiler.native import compiled
from bankml.kernels.compiler.simd import ADDR, F32, Emit, f32xw, ld_i64, mk, tup
from bankml.kernels.products.matmul import (
    BLOCKS,
    COLUMN_PART,
    COLUMNS,
    GROUPS,
    ROW_PARTS,
    WEIGHTS,
    Y_STRIDE,
    Y,
    finish,
    part_start,
)
from bankml.kernels.superblocks.lanes import first_nan, first_nans

_STATE = tup(f32xw, 16)


def two_sums(name, packed, scale, words, dot, totals, times=Emit.mul):
    """(step over two blocks, last block, zeros, fold).

    Arguments as in nibbles.py; `packed` is the bytes of one block. The reference's last block is scalar code: `totals` must be
    exact for any quants.
    """

    def step(E, values, w, y, d, x):
        flat = E.untup(values, 16)
        out = []
        for n in range(2):
            at = E.b.add(w, E.i64(packed * n))
            ys, ds, xs = ([E.b.add(p, E.i64(size * n))] for p, size in ((y, 32), (d, 4), (x, 32)))
            out += lane_dots(E, scale(E, at), words(E, at), dot, [flat[8 * n : 8 * n + 8]], ys, ds, xs, times)[0]
        return E.tup(out)

    def fold(E, values):
        flat = E.untup(values, 16)
        return first_nans(E, [first_nan(E, flat[i], flat[8 + i]) for i in range(8)])

    def last(E, total, w, y, d, t):
        dots = totals(E, w, [y], [t])[0]
        return E.fma(weight_first(E, scale(E, w), E.splat_ld(F32, d)), E.i2f(dots), total)

    return (
        mk(f"{name}_pair", _STATE, (_STATE,) + (ADDR,) * 4, step),
        mk(f"{name}_pair_last", f32xw, (f32xw,) + (ADDR,) * 4, last),
        mk(f"{name}_pair_zeros", _STATE, (ADDR,), lambda E, _: E.tup([E.const(F32, 0.0, W)] * 16)),
        mk(f"{name}_pair_fold", f32xw, (_STATE,), fold),
    )


@compiled
def _output(step, careful_step, last, zeros, fold, packed, w, y, blocks):
    if is_wild(y, blocks):
        return _sum(careful_step, last, zeros, fold, packed, w, y, blocks)
    return _sum(step, last, zeros, fold, packed, w, y, blocks)


@compiled
def _sum(step, last, zeros, fold, packed, w, y, blocks):
    acc = zeros(0)
    d = y + 32 * blocks
    x = d + 8 * blocks
    for b in range(0, blocks // 2 * 2, 2):
        acc = step(acc, w + packed * b, y + 32 * b, d + 4 * b, x + 32 * b)
    total = fold(acc)
    if blocks % 2 == 1:
        b = blocks - 1
        total = last(total, w + packed * b, y + 32 * b, d + 4 * b, d + 40 * blocks + 4 * b)
    return total


@compiled
def one_row_in_two(step, careful_step, last, zeros, fold, packed, args, chunk, thread):
    """Matrix times the activation row in the thread's scratch: a part of the row groups."""
    groups, blocks, parts = ld_i64(args, GROUPS), ld_i64(args, BLOCKS), ld_i64(args, ROW_PARTS)
    y = ld_i64(args, Y) + thread * ld_i64(args, Y_STRIDE)
    for g in range(part_start(groups, parts, chunk), part_start(groups, parts, chunk + 1)):
        w = ld_i64(args, WEIGHTS) + g * blocks * packed
        finish(args, 0, g, _output(step, careful_step, last, zeros, fold, packed, w, y, blocks))


@compiled
def many_rows_in_two(step, careful_step, last, zeros, fold, packed, args, chunk):
    """Matrix times many activation rows, one at a time: a part of the row groups times a part of the rows."""
    groups, blocks, parts = ld_i64(args, GROUPS), ld_i64(args, BLOCKS), ld_i64(args, ROW_PARTS)
    y, stride = ld_i64(args, Y), ld_i64(args, Y_STRIDE)
    total, column_part = ld_i64(args, COLUMNS), ld_i64(args, COLUMN_PART)
    first = chunk // parts * column_part
    chunk = chunk % parts
    for g in range(part_start(groups, parts, chunk), part_start(groups, parts, chunk + 1)):
        w = ld_i64(args, WEIGHTS) + g * blocks * packed
        for j in range(first, min(total, first + column_part)):
            at = y + j * stride
            finish(args, j, g, _output(step, careful_step, last, zeros, fold, packed, w, at, blocks))
