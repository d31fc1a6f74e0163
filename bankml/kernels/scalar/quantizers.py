# SPDX-License-Identifier: MIT OR Apache-2.0
"""Activation rows as blocks of quants: q8_0, q8_1 and q8_K. Defined for rows without NaN.

Source: quantize_row_q8_0, quantize_row_q8_1, ggml-cpu/arch/x86/quants.c (AVX2 branch); quantize_row_q8_K_ref, ggml-quants.c.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .arithmetic import F32, half


@dataclass
class Block:
    """`q` int32 quants; `d` the scale as products read it; `s` q8_1's scaled sum; `sums` q8_K's sums of each 16 quants."""

    q: np.ndarray
    d: np.float32
    s: np.float32 | None = None
    sums: np.ndarray | None = None


def _to_int(x):
    """Round to nearest even; what has no int32 becomes the smallest one, as the processor does it."""
    fits = np.abs(x) < 2**31
    return np.where(fits, np.rint(np.where(fits, x, 0)), -(2**31)).astype(np.int64)


@np.errstate(all="ignore")
def q8(x):
    """Blocks of 32: q8_1's, of which q8_0 is all but `s`."""
    return [_q8_block(part) for part in np.asarray(x, F32).reshape(-1, 32)]


def _q8_block(x):
    largest = np.abs(x).max()
    d = largest / F32(127)
    # The scale of the quants is made from the largest value, not from d.
    inverse = F32(127) / largest if largest != 0 else F32(0)
    wide = _to_int(x * inverse)
    total = wide.sum().astype(np.int32)
    return Block(np.clip(wide, -128, 127).astype(np.int32), half(d), half(d * F32(total)))


@np.errstate(all="ignore")
def q8_k(x):
    """Super-blocks of 256."""
    return [_q8_k_block(part) for part in np.asarray(x, F32).reshape(-1, 256)]


def _q8_k_block(x):
    # The first of the largest magnitudes decides the sign.
    largest = x[np.argmax(np.abs(x))]
    if largest == 0:
        return Block(np.zeros(256, np.int32), F32(0), sums=np.zeros(16, np.int32))
    scale = F32(-127) / largest
    q = np.minimum(_to_int(scale * x), 127).astype(np.int32)
    return Block(q, F32(1) / scale, sums=q.reshape(16, 16).sum(axis=1, dtype=np.int32))
