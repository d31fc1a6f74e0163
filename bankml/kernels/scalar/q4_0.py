# SPDX-License-Identifier: MIT OR Apache-2.0
"""Q4_0. Block: half d, 16 bytes; weight = (nibble-8)*d, low nibbles first.

Source: ggml_vec_dot_q4_0_q8_0; gemv and gemm q4_0_8x8, repack.cpp.
"""

from __future__ import annotations

import numpy as np

from . import quantizers
from .arithmetic import F32, halves
from .orders import dot_chain, dot_lanes

BLOCK, BYTES = 32, 18
form = quantizers.q8


def blocks(row):
    """(d, 32 quants) of each block."""
    for block in row.reshape(-1, BYTES):
        yield halves(block[:2])[0], np.concatenate([block[2:] & 15, block[2:] >> 4]).astype(np.int32) - 8


def dequantize(row):
    """One rounding."""
    return np.concatenate([q.astype(F32) * d for d, q in blocks(row)])


def dot(row, y, where):
    """One chain where the rows are repacked, else eight lanes."""
    return dot_chain(blocks(row), y) if where.repacked else dot_lanes(blocks(row), y)
