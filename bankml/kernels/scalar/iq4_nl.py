# SPDX-License-Identifier: MIT OR Apache-2.0
"""IQ4_NL. Block: half d, 16 bytes; weight = d*table[nibble], low nibbles first.

Source: ggml_vec_dot_iq4_nl_q8_0; tinyBLAS_Q0_AVX; gemv and gemm iq4_nl_8x8, repack.cpp.
"""

from __future__ import annotations

import numpy as np

from . import quantizers
from .arithmetic import F32, halves
from .orders import dot_chain, dot_lanes, dot_two_lanes

BLOCK, BYTES = 32, 18
VALUES = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int32)
form = quantizers.q8


def blocks(row):
    """(d, 32 table values) of each block."""
    for block in row.reshape(-1, BYTES):
        yield halves(block[:2])[0], VALUES[np.concatenate([block[2:] & 15, block[2:] >> 4])]


def dequantize(row):
    """One rounding."""
    return np.concatenate([q.astype(F32) * d for d, q in blocks(row)])


def dot(row, y, where):
    """Repacked: one chain. Else vec_dot's two sets of lanes for one column, tinyBLAS's one set for more."""
    if where.repacked:
        return dot_chain(blocks(row), y)
    return dot_two_lanes(blocks(row), y) if where.columns == 1 else dot_lanes(blocks(row), y)
