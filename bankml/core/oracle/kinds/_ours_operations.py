# SPDX-License-Identifier: MIT OR Apache-2.0
"""bankml's kernels between the products, called over arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bankml.core.gguf.types import TYPES
from bankml.core.model.memory import Block
from bankml.core.model.model import corr_dims
from bankml.core.oracle.kinds._ours import Held
from bankml.kernels import rope as kernel
from bankml.kernels import rows

Floats = npt.NDArray[np.float32]


def rms_norm(x: Floats, epsilon: float, weight: Floats | None) -> Floats:
    """Each row of x normed; the kernel always multiplies, so no weights are weights of 1."""
    n, k = x.shape
    by, y = np.ones(k, np.float32) if weight is None else weight, Block(4 * k + 256)
    out = np.empty_like(x)
    for j in range(n):
        rows.rms_norm_row(x[j].ctypes.data, k, np.float32(epsilon), by.ctypes.data, y.address)
        out[j] = y.floats((k,))
    return out


def rope(
    x: Floats,
    positions: npt.NDArray[np.int32],
    factors: Floats | None,
    *,
    neox: bool,
    base: float,
    freq_scale: float,
    ext: float,
    attn: float,
    n_ctx_orig: int,
) -> Floats:
    """x[positions, heads, dims] rotated; float32[positions, heads * dims]."""
    n, heads, dims = x.shape
    f32 = np.float32
    low, high = corr_dims(dims, n_ctx_orig, base, 32.0, 1.0) if ext else (0.0, 0.0)
    step, address = kernel.theta_scale(f32(base), dims), 0 if factors is None else factors.ctypes.data
    table = Block(4 * dims)
    out = np.ascontiguousarray(x)
    for j, position in enumerate(positions.tolist()):
        start = table.address - position * dims * 4
        kernel.fill_table(
            step, f32(freq_scale), address, f32(ext), f32(attn), f32(low), f32(high), dims, position, position + 1, start
        )
        for head in range(heads):
            kernel.rotate(out[j, head].ctypes.data, dims, int(neox), table.address)
    return out.reshape(n, -1)


def swiglu(gate: Floats, up: Floats) -> Floats:
    """silu(gate) * up."""
    n = len(gate)
    # The kernel reads and writes whole vectors.
    blocks = [Block(4 * n + 256) for _ in range(3)]
    for block, values in zip(blocks, (gate, up), strict=False):
        block.floats((n,))[:] = values
    rows.swiglu_row(blocks[0].address, blocks[1].address, n, blocks[2].address)
    return blocks[2].floats((n,)).copy()


def get_rows(type_name: str, data: npt.NDArray[np.uint8], row_count: int, k: int, wanted: npt.NDArray[np.int64]) -> Floats:
    """Rows of an embedding."""
    number = next(kind.id for kind in TYPES.values() if kind.name == type_name)
    held = Held(number, data, row_count, k)
    return held.rows(wanted)
