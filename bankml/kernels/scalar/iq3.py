# SPDX-License-Identifier: MIT OR Apache-2.0
"""IQ3_XXS, IQ3_S: a grid index for each four weights, signs for each eight.

Source: ggml_vec_dot_iq3_xxs_q8_K, ggml_vec_dot_iq3_s_q8_K; iqp.cpp.
"""

from __future__ import annotations

from bankml.kernels.superblocks import grids

from .arithmetic import halves
from .grid_blocks import GridType, fields, odd_scales, signed, signed_by_sevens, words


def _xxs(row):
    """Half d, 64 bytes of indices; for each 32 weights a word of four times seven signs and four bits of a scale."""
    for block in row.reshape(-1, 98):
        more = words(block[66:], "<u4")
        values = signed_by_sevens(grids.IQ3_XXS.values[block[2:66]], fields(more, 7, 4))
        yield halves(block[:2])[0], odd_scales(more >> 28), values


def _s(row):
    """Half d, low bytes of 64 indices, their high bits, 32 bytes of signs, eight scales of four bits."""
    for block in row.reshape(-1, 110):
        index = block[2:66] | fields(block[66:74], 1, 8) << 8
        values = signed(grids.IQ3_S.values[index], block[74:106])
        yield halves(block[:2])[0], odd_scales(fields(block[106:], 4, 2)), values


xxs = GridType(98, 0.25, _xxs)
s = GridType(110, 1.0, _s)
