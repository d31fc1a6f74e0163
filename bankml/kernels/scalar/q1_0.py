# SPDX-License-Identifier: MIT OR Apache-2.0
"""Q1_0. Block: half d, 128 bits from the lowest; weight = d or -d. Source: ggml_vec_dot_q1_0_q8_0."""

from __future__ import annotations

import numpy as np

from . import quantizers
from .arithmetic import F32, fma, halves, hs_a, lanes

BLOCK, BYTES = 128, 18
form = quantizers.q8


def blocks(row):
    """(d, 128 quants of 1 or -1) of each block."""
    for block in row.reshape(-1, BYTES):
        yield halves(block[:2])[0], np.unpackbits(block[2:], bitorder="little").astype(np.int32) * 2 - 1


def dequantize(row):
    """Exact."""
    return np.concatenate([q.astype(F32) * d for d, q in blocks(row)])


def dot(row, y, where):
    """Eight lanes: the four activation blocks of a block are summed first, then scaled."""
    acc = np.zeros(8, F32)
    for number, (d, q) in enumerate(blocks(row)):
        parts = zip(q.reshape(4, 32), y[4 * number : 4 * number + 4], strict=True)
        sums = [(block.d, lanes(part * block.q).astype(F32)) for part, block in parts]
        inner = sums[0][0] * sums[0][1]
        for scale, lane in sums[1:]:
            inner = fma(scale, lane, inner)
        acc = fma(d, inner, acc)
    return hs_a(acc)
