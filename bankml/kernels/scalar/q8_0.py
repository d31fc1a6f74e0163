# SPDX-License-Identifier: MIT OR Apache-2.0
"""Q8_0. Block: half d, int8[32]; weight = q*d. Source: ggml_vec_dot_q8_0_q8_0; tinyBLAS_Q0_AVX, whose arithmetic is the same."""

from __future__ import annotations

import numpy as np

from . import quantizers
from .arithmetic import F32, halves
from .orders import dot_lanes

BLOCK, BYTES = 32, 34
form = quantizers.q8


def blocks(row):
    """(d, 32 quants) of each block."""
    for block in row.reshape(-1, BYTES):
        yield halves(block[:2])[0], block[2:].view(np.int8).astype(np.int32)


def dequantize(row):
    """One rounding."""
    return np.concatenate([q.astype(F32) * d for d, q in blocks(row)])


def dot(row, y, where):
    """Eight lanes."""
    return dot_lanes(blocks(row), y)
