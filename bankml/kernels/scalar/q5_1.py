# SPDX-License-Identifier: MIT OR Apache-2.0
"""Q5_1. Block: half d, half m, 32 high bits, 16 bytes; weight = d*q + m. Source: ggml_vec_dot_q5_1_q8_1."""

from __future__ import annotations

import numpy as np

from . import quantizers
from .arithmetic import F32, fma, halves, hs_a, lanes
from .q5_0 import fives

BLOCK, BYTES = 32, 24
form = quantizers.q8


def blocks(row):
    """(d, m, 32 quants) of each block."""
    for block in row.reshape(-1, BYTES):
        d, m = halves(block[:4])
        yield d, m, fives(block[4:8], block[8:])


def dequantize(row):
    """The product and the sum are rounded apart."""
    return np.concatenate([q.astype(F32) * d + m for d, m, q in blocks(row)])


def dot(row, y, where):
    """Eight lanes for the quants; the minima in one fused sum beside them."""
    acc, minima = np.zeros(8, F32), F32(0)
    for (d, m, q), block in zip(blocks(row), y, strict=True):
        acc = fma(d * block.d, lanes(q * block.q).astype(F32), acc)
        minima = fma(m, block.s, minima)
    return hs_a(acc) + minima
