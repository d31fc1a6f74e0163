# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the grid types IQ1, IQ2 and IQ3 share: super-blocks of a half d, sixteen integer scales and 256 integer values.

weight = d*unit*scale*value, exact; scales are odd. Source: ggml-cpu/iqp.cpp; dequantize_row_iq*, ggml-quants.c.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bankml.kernels.superblocks.grids import SIGNS

from . import quantizers
from .arithmetic import F32, fma, hs_a
from .orders import scaled_lanes


def words(data, kind="<u2"):
    """Bytes as little-endian integers."""
    return np.ascontiguousarray(data).view(kind).astype(np.int64)


def fields(numbers, bits, count):
    """`count` fields of `bits` bits of each number, lowest first."""
    return (numbers.astype(np.int64)[:, None] >> bits * np.arange(count) & (1 << bits) - 1).reshape(-1)


def signed(entries, signs):
    """256 values of grid entries; a bit of `signs`, 32 bytes, negates each."""
    return entries.reshape(-1) * (1 - 2 * fields(signs, 1, 8))


def signed_by_sevens(entries, sevens):
    """The same with seven signs of each eight, in numbers."""
    return signed(entries, SIGNS[sevens])


def odd_scales(codes):
    """The sixteen scales from the codes of sixteen, or of eight."""
    return np.repeat(2 * codes + 1, 16 // len(codes)).astype(np.int32)


def in_panel(where):
    """Whether the reference takes its panel product: eight columns and more, weight rows in groups of eight."""
    return where.repacked and where.columns >= 8


@dataclass(frozen=True)
class GridType:
    """A grid type. `blocks(row)` gives (d, scales, values) of each super-block."""

    BYTES: int
    unit: float
    blocks: Callable[..., Any]
    BLOCK: int = 256

    def form(self, x):
        """Activations."""
        return quantizers.q8_k(x)

    def dequantize(self, row):
        """One rounding."""
        d, scales, values = zip(*self.blocks(row), strict=True)
        integers = np.repeat(np.concatenate(scales), 16) * np.concatenate(values)
        return np.repeat(np.array(d, F32) * F32(self.unit), 256) * integers.astype(F32)

    def dot(self, row, y, where):
        """Panel: one chain over whole super-blocks. Else as the type has it."""
        if not in_panel(where):
            return self.lanes(row, y)
        acc = F32(0)
        for (d, scales, q), block in zip(self.blocks(row), y, strict=True):
            total = scaled_lanes(q, block, scales).sum(dtype=np.int32)
            acc = fma(F32(total), d * F32(self.unit) * block.d, acc)
        return acc

    def lanes(self, row, y):
        """Eight lanes, whose sum is multiplied by the unit."""
        acc = np.zeros(8, F32)
        for (d, scales, q), block in zip(self.blocks(row), y, strict=True):
            acc = fma(d * block.d, scaled_lanes(q, block, scales).astype(F32), acc)
        return F32(self.unit) * hs_a(acc)
