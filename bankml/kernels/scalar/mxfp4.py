# SPDX-License-Identifier: MIT OR Apache-2.0
"""MXFP4. Block: exponent byte e, 16 bytes; weight = 2^(e-128) * table[nibble], twice the values of E2M1.

Source: ggml_vec_dot_mxfp4_q8_0; gemv and gemm mxfp4_8x8, repack.cpp.
"""

from __future__ import annotations

import numpy as np

from . import quantizers
from .arithmetic import F32
from .orders import dot_chain, dot_two_lanes

BLOCK, BYTES = 32, 17
VALUES = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.int32)
form = quantizers.q8


def blocks(row):
    """(d, 32 table values) of each block."""
    for block in row.reshape(-1, BYTES):
        yield F32(2.0 ** (int(block[0]) - 128)), VALUES[np.concatenate([block[1:] & 15, block[1:] >> 4])]


def dequantize(row):
    """One rounding."""
    return np.concatenate([q.astype(F32) * d for d, q in blocks(row)])


def dot(row, y, where):
    """Repacked: one chain; else two sets of lanes."""
    return dot_chain(blocks(row), y) if where.repacked else dot_two_lanes(blocks(row), y)
