# SPDX-License-Identifier: MIT OR Apache-2.0
"""IQ2_XXS, IQ2_XS, IQ2_S: a grid index and signs for each eight weights.

Source: ggml_vec_dot_iq2_xxs_q8_K, ggml_vec_dot_iq2_xs_q8_K, ggml_vec_dot_iq2_s_q8_K; iqp.cpp.
"""

from __future__ import annotations

from bankml.kernels.superblocks import grids

from .arithmetic import halves
from .grid_blocks import GridType, fields, odd_scales, signed, signed_by_sevens, words


def _xxs(row):
    """Half d; for each 32 weights four bytes of indices and a word of four times seven signs and four bits of a scale."""
    for block in row.reshape(-1, 66):
        parts = block[2:].reshape(8, 8)
        more = words(parts[:, 4:], "<u4").reshape(-1)
        values = signed_by_sevens(grids.IQ2_XXS.values[parts[:, :4]], fields(more, 7, 4))
        yield halves(block[:2])[0], odd_scales(more >> 28), values


def _xs(row):
    """Half d, 32 words of nine bits of an index and seven signs, sixteen scales of four bits."""
    for block in row.reshape(-1, 74):
        more = words(block[2:66])
        values = signed_by_sevens(grids.IQ2_XS.values[more & 511], more >> 9)
        yield halves(block[:2])[0], odd_scales(fields(block[66:], 4, 2)), values


def _s(row):
    """Half d, low bytes of 32 indices, 32 bytes of signs, two high bits of the indices, sixteen scales of four bits."""
    for block in row.reshape(-1, 82):
        index = block[2:34] | fields(block[66:74], 2, 4) << 8
        values = signed(grids.IQ2_S.values[index], block[34:66])
        yield halves(block[:2])[0], odd_scales(fields(block[74:], 4, 2)), values


xxs = GridType(66, 0.125, _xxs)
xs = GridType(74, 0.125, _xs)
s = GridType(82, 0.125, _s)
