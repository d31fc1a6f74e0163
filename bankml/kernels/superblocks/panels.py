# SPDX-License-Identifier: MIT OR Apache-2.0
"""Products of the types that the reference multiplies by panels, from eight activation rows on where weight rows divide by eight.

In a panel each output is one chain, fma(s, unit*d*dy, acc) with s the sum of the whole super-block. Fewer rows, or other
matrices, take the order of vec_dot, eight lanes for each output: lanes.py. Source: ggml-cpu/iqp.cpp.
"""

from __future__ import annotations

from bankml.kernels.activations.quantize_k import RECORD, SUMS16, SUMS32, D
from bankml.kernels.compiler.isa import VNNI, W
from bankml.kernels.compiler.native import compiled
from bankml.kernels.compiler.simd import ADDR, F32, I32, f32xw, ld_i64, mk, tup
from bankml.kernels.products.matmul import (
    BLOCKS,
    COLUMN_PART,
    COLUMNS,
    GROUPS,
    ROW_PARTS,
    ROWS,
    WEIGHTS,
    Y_STRIDE,
    Y,
    finish,
    part_start,
)
from bankml.kernels.superblocks.lanes import lanes_sum
from bankml.kernels.superblocks.steps import add_pairs, columns_of, pairs_u8s8, scale_of_pair, separate, zero, zeros

FROM = 8
TILE = 4


def panel(name, columns, *, unit, offset, pairs, words):
    """(step, zeros) of one super-block and `columns` activation rows.

    Args:
        unit: power of two that multiplies d.
        offset: what the weights are stored with; a byte must stay below 129, so that no sum of two products leaves 16 bits.
        pairs: ``pairs(E, w)``, pairs of int16 scales: four of groups 2p and 2p+1, or eight of the halves of each group.
        words: ``words(E, w)`` gives a function of (p, lane): that lane's weights in groups 2p and 2p+1 as bytes.
    """

    def emit(E, state, w, y, stride):
        acc = E.untup(state, columns)
        ys = columns_of(E, y, stride, columns)
        d = E.ld_f16(w)
        if unit != 1:
            d = E.mul(d, E.const(F32, unit, W))
        scales = pairs(E, w)
        halves = len(scales) // 4
        totals = [_times(E, _of_sums(E, scales, at), -offset) for at in ys]
        weights = words(E, w)
        for p in range(4):
            for half in range(halves):
                separate(E)
                scale = [
                    scale_of_pair(E, scales[2 * p + g] if halves == 2 else scales[p], half if halves == 2 else g) for g in (0, 1)
                ]
                sums = [[zero(E)] * 2 for _ in ys]
                for lane in range(8 // halves * half, 8 // halves * (half + 1)):
                    for g, u in enumerate(weights(p, lane)):
                        for c, at in enumerate(ys):
                            word = E.splat_ld(I32, at, 32 * (2 * p + g) + 4 * lane)
                            if VNNI:
                                sums[c][g] = E.dot_u8s8(sums[c][g], u, word)
                            else:
                                totals[c] = add_pairs(E, totals[c], pairs_u8s8(E, u, word), scale[g])
                if VNNI:
                    for g in range(2):
                        totals = [E.b.add(t, E.b.mul(s[g], scale[g])) for t, s in zip(totals, sums, strict=True)]
        for c, at in enumerate(ys):
            acc[c] = E.fma(E.i2f(totals[c]), E.mul(d, E.splat_ld(F32, at, D)), acc[c])
        return E.tup(acc)

    state = tup(f32xw, columns)
    return mk(f"{name}_panel{columns}", state, (state, ADDR, ADDR, ADDR), emit), zeros(name, columns)


def _of_sums(E, scales, y):
    """The sum of scale times the row's sum, over all groups or halves of groups."""
    total = zero(E)
    for i, pair in enumerate(scales):
        total = add_pairs(E, total, pair, E.splat_ld(I32, y, (SUMS32 if len(scales) == 4 else SUMS16) + 4 * i))
    return total


def _times(E, a, factor):
    return E.b.mul(a, E.const(I32, factor, W))


@compiled
def _panel(step, zeros, packed, w, y, stride, blocks):
    acc = zeros(0)
    for b in range(blocks):
        acc = step(acc, w + b * packed, y + b * RECORD, stride)
    return acc


@compiled
def many_rows(zeros, step, result, tile, tile_zeros, one, one_zeros, packed, args, chunk):
    """Matrix times many activation rows: a part of the row groups times a part of the rows.

    Intrinsics as from lanes.column, then as from `panel` for TILE rows and for one.
    """
    groups, blocks, parts = ld_i64(args, GROUPS), ld_i64(args, BLOCKS), ld_i64(args, ROW_PARTS)
    y, stride = ld_i64(args, Y), ld_i64(args, Y_STRIDE)
    columns, column_part = ld_i64(args, COLUMNS), ld_i64(args, COLUMN_PART)
    first = chunk // parts * column_part
    last = min(columns, first + column_part)
    chunk = chunk % parts
    in_panels = columns >= FROM and ld_i64(args, ROWS) % 8 == 0
    tiled = first + (last - first) // TILE * TILE
    for g in range(part_start(groups, parts, chunk), part_start(groups, parts, chunk + 1)):
        w = ld_i64(args, WEIGHTS) + g * blocks * packed
        if not in_panels:
            for j in range(first, last):
                finish(args, j, g, lanes_sum(zeros, step, result, packed, w, y + j * stride, blocks))
            continue
        for j in range(first, tiled, TILE):
            out = _panel(tile, tile_zeros, packed, w, y + j * stride, stride, blocks)
            for c in range(TILE):
                finish(args, j + c, g, out[c])
        for j in range(tiled, last):
            finish(args, j, g, _panel(one, one_zeros, packed, w, y + j * stride, 0, blocks)[0])
