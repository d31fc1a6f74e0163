# SPDX-License-Identifier: MIT OR Apache-2.0
"""IQ1_S, IQ1_M: a grid index for each eight weights, which are -1, 0 or 1, and a shift of 1/8 or -1/8 to them.

Eight times a shifted value is an integer. The lanes keep values and shifts apart.
Source: ggml_vec_dot_iq1_s_q8_K, ggml_vec_dot_iq1_m_q8_K; iqp.cpp.
"""

from __future__ import annotations

import numpy as np

from bankml.kernels.superblocks import grids

from .arithmetic import F32, fma, halves, hs_a
from .grid_blocks import GridType, fields, odd_scales, words
from .orders import scaled_lanes, sums_of_32


def _s_parts(row):
    """Half d, low bytes of 32 indices, for each 32 weights a word: four times three high bits, scale, the shift's sign.

    (d, scales, grid values, eight shifts of 1 or -1) of each super-block.
    """
    for block in row.reshape(-1, 50):
        more = words(block[34:])
        values = grids.IQ1.values[block[2:34] | fields(more, 3, 4) << 8].reshape(-1)
        yield halves(block[:2])[0], odd_scales(more >> 12 & 7), values, 1 - 2 * (more >> 15)


def _s(row):
    for d, scales, values, shifts in _s_parts(row):
        yield d, scales, 8 * values + np.repeat(shifts, 32)


def _m_parts(row):
    """Low bytes of 32 indices, for each three high bits and the shift's sign, four words of four scales and a quarter of d.

    (d, scales, grid values, 256 shifts of 1 or -1) of each super-block.
    """
    for block in row.reshape(-1, 56):
        more, fours = fields(block[32:48], 4, 2), words(block[48:])
        d = halves(np.array([(fours >> 12) @ [1, 16, 256, 4096]], "<u2").view(np.uint8))[0]
        values = grids.IQ1.values[block[:32] | (more & 7) << 8].reshape(-1)
        yield d, odd_scales(fields(fours, 3, 4)), values, np.repeat(1 - 2 * (more >> 3), 8)


def _m(row):
    for d, scales, values, shifts in _m_parts(row):
        yield d, scales, 8 * values + shifts


class _S(GridType):
    def lanes(self, row, y):
        """Eight lanes of values, one chain of shifts."""
        acc, shifted = np.zeros(8, F32), F32(0)
        for (d, scales, q, shifts), block in zip(_s_parts(row), y, strict=True):
            acc = fma(block.d * d, scaled_lanes(q, block, scales).astype(F32), acc)
            shifted = fma(block.d * d, F32((sums_of_32(block) * shifts * scales[::2]).sum()), shifted)
        return hs_a(acc) + F32(self.unit) * shifted


class _M(GridType):
    def lanes(self, row, y):
        """Eight lanes of values and eight of shifts."""
        acc, shifted = np.zeros(8, F32), np.zeros(8, F32)
        for (d, scales, q, shifts), block in zip(_m_parts(row), y, strict=True):
            acc = fma(block.d * d, scaled_lanes(q, block, scales).astype(F32), acc)
            shifted = fma(block.d * d, scaled_lanes(shifts, block, scales).astype(F32), shifted)
        return fma(F32(self.unit), hs_a(shifted), hs_a(acc))


s = _S(50, 0.125, _s)
m = _M(56, 0.125, _m)
