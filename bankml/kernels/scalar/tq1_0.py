# SPDX-License-Identifier: MIT OR Apache-2.0
"""TQ1_0. Super-block: 48 bytes of five base-3 digits, 4 bytes of four, half d; weight = (digit-1)*d.

Source: ggml_vec_dot_tq1_0_q8_K.
"""

from __future__ import annotations

import numpy as np

from . import quantizers
from .arithmetic import F32, fma, halves, hs_a
from .orders import pair_sums, scaled_lanes
from .tq2_0 import ONES

BLOCK, BYTES = 256, 54
form = quantizers.q8_k


def _digits(data, count):
    """`count` base-3 digits of each byte, the first digit of all bytes before the second."""
    powers = np.array([1, 3, 9, 27, 81][:count], np.int32)
    shifted = (data.astype(np.int32)[None, :] * powers[:, None]) & 255
    return (shifted * 3 >> 8).reshape(-1)


def blocks(row):
    """(d, 256 digits) of each super-block."""
    for block in row.reshape(-1, BYTES):
        parts = [_digits(block[:32], 5), _digits(block[32:48], 5), _digits(block[48:52], 4)]
        yield halves(block[52:])[0], np.concatenate(parts)


def dequantize(row):
    """Exact."""
    return np.concatenate([(q - 1).astype(F32) * d for d, q in blocks(row)])


def dot(row, y, where):
    """As TQ2_0's."""
    acc = np.zeros(8, F32)
    for (d, q), block in zip(blocks(row), y, strict=True):
        lane = scaled_lanes(q, block, ONES) - pair_sums(block, ONES)
        acc = fma(lane.astype(F32), block.d * d, acc)
    return hs_a(acc)
