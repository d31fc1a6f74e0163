# SPDX-License-Identifier: MIT OR Apache-2.0
"""The steps of the grid type IQ1: values -1, 0 and 1 and a shift of 1/8 or -1/8 to them; codes of two bits, the value plus one.

vec_dot keeps values and shifts apart: acc[L] = fma(d*dy, s[L], acc[L]) for the values. In panels a weight is eight times its
shifted value, an integer; see panels.py. Bits of shifts are set in packed blocks where the shift is positive.
Source: ggml_vec_dot_iq1_s_q8_K, ggml_vec_dot_iq1_m_q8_K, ggml-cpu/arch/x86/quants.c.
"""

from __future__ import annotations

import numpy as np

from bankml.kernels.compiler.isa import W
from bankml.kernels.compiler.native import compiled
from bankml.kernels.compiler.simd import I16, I32, V, ld_f16, ld_i64, ld_u8, st_f32
from bankml.kernels.products.matmul import BLOCKS, COLUMN_PART, COLUMNS, OUT, OUT_STRIDE, WEIGHTS, Y
from bankml.kernels.superblocks import lanes, panels
from bankml.kernels.superblocks.grid_blocks import code_of, codes_at, group_codes, lane_address, lane_scales
from bankml.kernels.superblocks.steps import byte_mask

BITS, UNIT = 2, 0.125
# What the codes are stored with. The same of the panels' bytes, which are the shifted value times eight, plus nine.
OFFSET, PANEL_OFFSET = 1, 9


def bit_mask(E, a, bit):
    """All bits of a word set where this bit of it is."""
    return E.b.ashr(E.b.shl(a, E.const(I32, 31 - bit, W)), E.const(I32, 31, W))


def negate(E, pairs, mask):
    """Pairs of int16, negated where the mask is set."""
    words = V(I16, 2 * W)
    pairs, mask = E.b.bitcast(pairs, words), E.b.bitcast(mask, words)
    return E.b.bitcast(E.b.sub(E.b.xor(pairs, mask), mask), V(I32, W))


def steps(name, small, pairs, positive, *, extra, begin, lane, end):
    """As signed_grids.steps; extra, begin, lane, end as in lanes.Layout.

    ``positive(E, w)`` gives a function of (group, quarter of it): a mask that is set where the shift is positive.
    """

    def words(E, w):
        masks = positive(E, w)

        def shifted(p, lane):
            at = lane_address(E, w, small, BITS, lane)
            for g in (2 * p, 2 * p + 1):
                two = E.b.and_(masks(g, lane // 2), byte_mask(E, 2))
                yield E.b.or_(group_codes(E, at, BITS, g, up=3), two)

        return shifted

    layout = lanes.Layout(
        name=name,
        quants=codes_at(small),
        lane_bytes=4 * W * BITS,
        scales=lambda E, w: lane_scales(E, pairs(E, w)),
        words=lambda E, at: [group_codes(E, at, BITS, g) for g in range(8)],
        lane=lane,
        extra=extra,
        begin=begin,
        end=end,
    )
    zeros, step, result = lanes.column(layout)
    tile, one = (panels.panel(name, n, unit=UNIT, offset=PANEL_OFFSET, pairs=pairs, words=words) for n in (panels.TILE, 1))
    return zeros, step, result, *tile, *one


@compiled
def unpack_rows(small, scales, shifts, first, step, packed_size, args, chunk):
    """Dequantize the rows that `Y` names: d/8 times the integer scale*(8*value+-1), exact.

    `scales`, `shifts`: how many there are. `first`, `step`: the bit of the first shift in the small bytes, and on to the next.
    """
    packed, blocks, part = ld_i64(args, WEIGHTS), ld_i64(args, BLOCKS), ld_i64(args, COLUMN_PART)
    for j in range(chunk * part, min(ld_i64(args, COLUMNS), chunk * part + part)):
        row, out = ld_i64(ld_i64(args, Y), j), ld_i64(args, OUT) + 4 * j * ld_i64(args, OUT_STRIDE)
        i = row % W
        for b in range(blocks):
            block = packed + (row // W * blocks + b) * packed_size
            d = ld_f16(block, i) * np.float32(0.125)
            for e in range(256):
                n, bit = e * scales // 256, first + step * (e * shifts // 256)
                scale = 2 * (ld_u8(block + (2 + n // 2) * W, i) >> 4 * (n % 2) & 7) + 1
                shift = 2 * (ld_u8(block + (2 + bit // 8) * W, i) >> bit % 8 & 1) - 1
                st_f32(out, 256 * b + e, d * np.float32(scale * (8 * (code_of(block, small, 2, i, e) - 1) + shift)))
