# SPDX-License-Identifier: MIT OR Apache-2.0
"""Matrix products by the kernel that the reference picks for the type, the shape and the number of columns."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

import numpy as np

from .arithmetic import F32

# Type name -> module, and the object in it where a module holds several.
TYPES = {
    "F32": "floats.f32",
    "F16": "floats.f16",
    "BF16": "floats.bf16",
    **{name: name.lower() for name in (
        "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q1_0", "Q2_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K",
        "IQ4_NL", "IQ4_XS", "MXFP4", "NVFP4", "TQ1_0", "TQ2_0",
    )},
    **{name: name.lower().replace("_", ".") for name in ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S")},
}  # fmt: skip


@dataclass(frozen=True)
class Where:
    """What a kernel's order may depend on: rows of the weights, columns (activation rows), which of them this one is."""

    rows: int
    columns: int
    column: int

    @property
    def repacked(self):
        """True when the reference holds the matrix in groups of eight rows, for the types that it can."""
        return self.rows % 8 == 0


def scalar_type(name):
    """The model of a type: BLOCK, BYTES, form(x), dequantize(row), dot(row, formed, where)."""
    module, _, member = TYPES[name].partition(".")
    found = importlib.import_module(f"{__package__}.{module}")
    return getattr(found, member) if member else found


@np.errstate(all="ignore")
def product(name, weights, rows, x):
    """x[n, k] times weights (the file bytes of rows x k); float32[n, rows]."""
    kind = scalar_type(name)
    by_row = np.asarray(weights, np.uint8).reshape(rows, -1)
    out = np.empty((len(x), rows), F32)
    for j, column in enumerate(np.asarray(x, F32)):
        formed = kind.form(column)
        for i in range(rows):
            out[j, i] = kind.dot(by_row[i], formed, Where(rows, len(x), j))
    return out


@np.errstate(all="ignore")
def dequantize(name, weights, rows):
    """float32[rows, k]."""
    kind = scalar_type(name)
    return np.stack([kind.dequantize(row) for row in np.asarray(weights, np.uint8).reshape(rows, -1)])
