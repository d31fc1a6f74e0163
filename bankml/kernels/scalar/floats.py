# SPDX-License-Identifier: MIT OR Apache-2.0
"""F32, F16 and BF16: one row of activations by vec_dot, more by tinyBLAS where the shape allows it.

Source: ggml_vec_dot_f32, _f16, _bf16, ggml-cpu/vec.cpp; tinyBLAS, llamafile/sgemm.cpp. Leftovers as gcc fused them.
"""

from __future__ import annotations

import numpy as np

from .arithmetic import F32, bfloat, fma, half, hs_a, hs_b


def _accumulators(w, y):
    """Four accumulators of eight lanes over the whole runs of 32, folded to one."""
    acc = np.zeros((4, 8), F32)
    for start in range(0, len(w) // 32 * 32, 32):
        acc = fma(w[start : start + 32].reshape(4, 8), y[start : start + 32].reshape(4, 8), acc)
    return (acc[0] + acc[2]) + (acc[1] + acc[3])


def tinyblas(w, y):
    """One accumulator of eight lanes."""
    acc = np.zeros(8, F32)
    for start in range(0, len(w), 8):
        acc = fma(w[start : start + 8], y[start : start + 8], acc)
    return hs_a(acc)


def _leftovers_wide(total, w, y):
    """Products rounded to float32, added in float64."""
    wide = np.float64(total)
    for i in range(len(w) // 32 * 32, len(w)):
        wide += np.float64(w[i] * y[i])
    return F32(wide)


def vec_dot_f32(w, y):
    """Leftovers unfused by eights and one four, fused for the last three."""
    k = len(w)
    total = hs_b(_accumulators(w, y))
    start = k // 32 * 32
    fused_from = start + (k - start) // 4 * 4
    for i in range(start, fused_from):
        total = total + w[i] * y[i]
    for i in range(fused_from, k):
        total = fma(w[i], y[i], total)
    return total


def vec_dot_f16(w, y):
    """HS-B, leftovers in float64."""
    return _leftovers_wide(hs_b(_accumulators(w, y)), w, y)


def vec_dot_bf16(w, y):
    """HS-A, leftovers in float64."""
    return _leftovers_wide(hs_a(_accumulators(w, y)), w, y)


class _Float:
    """A float type: how its bytes read, how activations are rounded for it, its vec_dot."""

    BLOCK = 1

    def __init__(self, size, read, form, vec_dot):
        self.BYTES, self.dequantize, self.form, self._vec_dot = size, read, form, vec_dot

    def dot(self, row, y, where):
        """The kernel depends on how many columns there are, and on the shape."""
        w = self.dequantize(row)
        if where.columns > 1 and where.rows % 4 == 0 and len(w) % 8 == 0:
            return tinyblas(w, y)
        return self._vec_dot(w, y)


f32 = _Float(4, lambda row: row.view("<f4"), lambda x: x, vec_dot_f32)
f16 = _Float(2, lambda row: row.view("<f2").astype(F32), half, vec_dot_f16)
bf16 = _Float(2, lambda row: (row.view("<u2").astype(np.uint32) << 16).view(F32), bfloat, vec_dot_bf16)
