# SPDX-License-Identifier: MIT OR Apache-2.0
"""Q3_K. Super-block: 32 bytes of high bits, 64 bytes of four codes, 12 bytes of 6-bit scales, half d.

Source: ggml_vec_dot_q3_K_q8_K.
"""

from __future__ import annotations

import numpy as np

from . import quantizers
from .arithmetic import F32, fma, halves, hs_a
from .orders import scaled_lanes
from .q2_k import codes

BLOCK, BYTES = 256, 110
form = quantizers.q8_k


def _scales(packed):
    """16 scales of 6 bits, less 32: four low bits in eight bytes, two high bits in four."""
    p = packed.astype(np.int32)
    low = np.concatenate([p[:8] & 15, p[:8] >> 4])
    high = np.concatenate([(p[8:] >> shift) & 3 for shift in (0, 2, 4, 6)])
    return (low | high << 4) - 32


def blocks(row):
    """(d, 16 scales, 256 quants) of each super-block. A high bit that is not set takes 4 off."""
    for block in row.reshape(-1, BYTES):
        high = ((block[None, :32] >> np.arange(8, dtype=np.uint8)[:, None]) & 1).reshape(-1).astype(np.int32)
        yield halves(block[108:])[0], _scales(block[96:108]), codes(block[32:96]) - 4 * (1 - high)


def dequantize(row):
    """(d*scale)*q, each product rounded."""
    return np.concatenate([np.repeat(d * scales.astype(F32), 16) * q.astype(F32) for d, scales, q in blocks(row)])


def dot(row, y, where):
    """Eight lanes."""
    acc = np.zeros(8, F32)
    for (d, scales, q), block in zip(blocks(row), y, strict=True):
        acc = fma(block.d * d, scaled_lanes(q, block, scales).astype(F32), acc)
    return hs_a(acc)
