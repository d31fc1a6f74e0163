# SPDX-License-Identifier: MIT OR Apache-2.0
"""bankml's kernels between the products, called over arrays by the entries that the graph points at."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from bankml.core.exact.products import FORMS, Held, file_bytes, formed, run
from bankml.core.gguf.types import TYPE_IDS
from bankml.core.model.graph import float_word
from bankml.core.model.memory import Block
from bankml.core.model.model import corr_dims
from bankml.kernels import attention_rows, rows
from bankml.kernels import rope as kernel

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]


def rms_norm(x: Floats, epsilon: float, weight: Floats | None) -> Floats:
    """Each row of x normed; the kernel always multiplies, so no weights are weights of 1."""
    by = np.ones(x.shape[1], np.float32) if weight is None else weight
    return np.ascontiguousarray(normed(x, epsilon, by, "F32")).view(np.float32)


def normed(x: Floats, epsilon: float, weight: Floats, form: str) -> Bytes:
    """Each row of x normed, then formed for a product: as the file bytes of a type."""
    by = Block(4 * len(weight) + 256)
    by.floats(weight.shape)[:] = weight
    return _formed(rows.norm_rows, x, form, {rows.WEIGHT: by.address, rows.EPSILON: float_word(epsilon)})


def swiglu(gate: Floats, up: Floats) -> Floats:
    """silu(gate) * up."""
    return np.ascontiguousarray(gated(gate[None, :], up[None, :], "F32")[0]).view(np.float32)


def gated(gate: Floats, up: Floats, form: str) -> Bytes:
    """Rows of silu(gate) * up, formed for a product: as the file bytes of a type."""
    other = Block(4 * up.size + 256)
    other.floats(up.shape)[:] = up
    return _formed(rows.swiglu_rows, gate, form, {rows.Y: other.address})


def rounded(x: Floats, form: str) -> Bytes:
    """Rows of x formed for a product: as the file bytes of a type."""
    return _formed(rows.form_rows, x, form, {})


def joined(x: Floats, form: str) -> Bytes:
    """Rows of x as attention's only span of one head, joined and formed for a product: as the file bytes of a type."""
    n, k = x.shape
    stride = int(rows.formed_bytes(FORMS[form], k))
    partials, scratch, out = Block(4 * n * (k + 2)), Block(4 * k + 256), Block(stride + 256)
    each = partials.floats((n, k + 2))
    each[:, 0], each[:, 1], each[:, 2:] = 0, 1, x
    found = []
    for j in range(n):
        join(partials.address + 4 * j * (k + 2), (1, 1, k), scratch, out, FORMS[form])
        found.append(out.bytes[:stride].copy())
    return file_bytes(form, np.stack(found), k)


def join(partials: int, shape: tuple[int, int, int], scratch: Block, out: Block, form: int) -> None:
    """Partial results of attention at an address, of (heads, spans, head width), joined into a formed row."""
    words = dict(enumerate((partials, *shape, scratch.address, 0, out.address, 0, form, 0)))
    run(attention_rows.join_form, attention_rows.JOIN_FIELDS, words, 1)


def _formed(operation: object, x: Floats, form: str, words: dict[int, int]) -> Bytes:
    n, k = x.shape
    stride = int(rows.formed_bytes(FORMS[form], k))
    out = formed(operation, FORMS[form], x, stride, words)
    return file_bytes(form, out.bytes[: n * stride].reshape(n, stride), k)


def rope_table(first: int, last: int, factors: Floats | None, dims: int, yarn: Mapping[str, float]) -> Block:
    """cos and sin of every pair for the positions first..last; ``yarn`` has base, freq_scale, ext, attn and n_ctx_orig."""
    f32, base, ext = np.float32, yarn["base"], yarn["ext"]
    low, high = corr_dims(dims, int(yarn["n_ctx_orig"]), base, 32.0, 1.0) if ext else (0.0, 0.0)
    table = Block(4 * dims * (last - first))
    kernel.fill_table(
        kernel.theta_scale(f32(base), dims), f32(yarn["freq_scale"]), 0 if factors is None else factors.ctypes.data, f32(ext),
        f32(yarn["attn"]), f32(low), f32(high), dims, first, last, table.address - 4 * dims * first,
    )  # fmt: skip
    return table


def rope(x: Floats, positions: npt.NDArray[np.int32], factors: Floats | None, *, neox: bool, yarn: Mapping[str, float]) -> Floats:
    """x[positions, heads, dims] rotated; float32[positions, heads * dims]."""
    n, heads, dims = x.shape
    out = np.ascontiguousarray(x).copy()
    for j, position in enumerate(positions.tolist()):
        table = rope_table(position, position + 1, factors, dims, yarn)
        words = {
            kernel.Q: out[j].ctypes.data, kernel.TABLE: table.address, kernel.HEADS: heads, kernel.HEAD_DIM: dims,
            kernel.ROT: dims, kernel.NEOX: int(neox), kernel.ROWS: 1, kernel.ROW_PART: 1,
        }  # fmt: skip
        run(kernel.rope_store, kernel.FIELDS, words, 1)
    return out.reshape(n, -1)


def get_rows(type_name: str, data: Bytes, row_count: int, k: int, wanted: npt.NDArray[np.int64]) -> Floats:
    """Rows of an embedding."""
    return Held(TYPE_IDS[type_name], data, row_count, k).rows(wanted)
