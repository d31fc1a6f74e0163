# SPDX-License-Identifier: MIT OR Apache-2.0
"""The steps of the grid types whose values have signs, IQ2 and IQ3: a code is the place of a magnitude, and above it the sign.

vec_dot, per output: acc[L] = fma(d*dy, s[L], acc[L]), result unit*HS-A(acc). Panels: panels.py.
Source: ggml_vec_dot_iq2_*_q8_K, ggml_vec_dot_iq3_*_q8_K, ggml-cpu/arch/x86/quants.c.
"""

from __future__ import annotations

import numpy as np

from bankml.kernels.blocks.nibbles import look_up
from bankml.kernels.compiler.isa import VNNI, W
from bankml.kernels.compiler.native import compiled
from bankml.kernels.compiler.simd import F32, ld_f16, ld_i64, st_f32
from bankml.kernels.products.matmul import BLOCKS, COLUMN_PART, COLUMNS, OUT, OUT_STRIDE, WEIGHTS, Y
from bankml.kernels.superblocks import lanes, panels
from bankml.kernels.superblocks.grid_blocks import (
    code_of,
    codes_at,
    group_codes,
    lane_address,
    lane_scales,
    scale_of,
    scale_pairs,
)
from bankml.kernels.superblocks.grids import SIGNS


def table(grid):
    """Value of each code."""
    return np.concatenate([sign * np.pad(grid.levels, (0, -len(grid.levels) % 4)) for sign in (1, -1)])


def steps(name, grid, bits, small, unit):
    """What lanes.one_row and panels.many_rows take: (zeros, step, result, tile, its zeros, one, its zeros)."""
    values = table(grid)
    offset = int(values.max())
    unsigned = [int(v) + offset for v in values] + [0] * (16 - len(values))

    def group(E, at, g):
        return look_up(E, group_codes(E, at, bits, g), unsigned)

    def pairs(E, w):
        return scale_pairs(E, w, small)

    def words(E, w):
        def of(p, lane):
            at = lane_address(E, w, small, bits, lane)
            return group(E, at, 2 * p), group(E, at, 2 * p + 1)

        return of

    def scales(E, w):
        # With VNNI, codes of four bits go a tenth faster where the scales live through all lanes.
        made = lane_scales(E, pairs(E, w))
        return 2 * made if VNNI and bits == 4 else made

    def end(E, total, extra):
        return E.mul(total, E.const(F32, unit, W)) if unit != 1 else total

    layout = lanes.Layout(
        name=name,
        quants=codes_at(small),
        lane_bytes=4 * W * bits,
        scales=scales,
        words=lambda E, at: [group(E, at, g) for g in range(8)],
        lane=lambda E, tile, words, scales: lanes.lane_sums(E, tile, words, scales, offset=True),
        end=end,
    )
    zeros, step, result = lanes.column(layout)
    tile, one = (panels.panel(name, n, unit=unit, offset=offset, pairs=pairs, words=words) for n in (panels.TILE, 1))
    return zeros, step, result, *tile, *one


@compiled
def take_sevens(more, codes, n, bit):
    """Add the signs of weights n to n+31: four times seven bits, each eighth being their parity."""
    for part in range(4):
        take_signs(SIGNS[more >> 7 * part & 127], codes, n + 8 * part, bit)


@compiled
def take_signs(signs, codes, n, bit):
    """Add the signs of weights n to n+7."""
    for j in range(8):
        codes[n + j] |= (signs >> j & 1) << bit


@compiled
def unpack_rows(values, small, bits, unit, packed_size, args, chunk):
    """Dequantize the rows that `Y` names: d*unit times the integer scale*magnitude, exact, then the sign, which NaN takes too."""
    packed, blocks, part = ld_i64(args, WEIGHTS), ld_i64(args, BLOCKS), ld_i64(args, COLUMN_PART)
    for j in range(chunk * part, min(ld_i64(args, COLUMNS), chunk * part + part)):
        row, out = ld_i64(ld_i64(args, Y), j), ld_i64(args, OUT) + 4 * j * ld_i64(args, OUT_STRIDE)
        i = row % W
        for b in range(blocks):
            block = packed + (row // W * blocks + b) * packed_size
            d = ld_f16(block, i) * np.float32(unit)
            for e in range(256):
                integer = scale_of(block, i, e // (128 // small)) * values[code_of(block, small, bits, i, e)]
                value = d * np.float32(abs(integer))
                st_f32(out, 256 * b + e, -value if integer < 0 else value)
