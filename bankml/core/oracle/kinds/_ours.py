# SPDX-License-Identifier: MIT OR Apache-2.0
"""bankml's kernels called one at a time over arrays, as the graph calls them: formed rows, products, dequantized rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

# The model room says where compiled kernels live, so it comes before them.
from bankml.core.model.matrices import Matrix
from bankml.core.model.memory import Block
from bankml.kernels import matmul, quantize_k, rows
from bankml.kernels.weights import TYPE_IDS, WeightType, weight_type

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

__all__ = ["TYPE_IDS", "Held", "quantized"]

_FORMS = {"Q8_0": rows.FORM_Q8, "Q8_1": rows.FORM_Q8, "Q8_K": rows.FORM_Q8K, "F16": rows.FORM_F16, "BF16": rows.FORM_BF16}
_PARTS = 3
_COLUMN_PART = 16


class Held:
    """A matrix in the form that its kernels read, and the memory it lies in."""

    def __init__(self, type_id: int, data: Bytes, row_count: int, k: int) -> None:
        kind: WeightType = weight_type(type_id, row_count)
        self._source = np.ascontiguousarray(data)
        self.matrix = Matrix(kind, row_count, k, int(self._source.ctypes.data))
        if kind.packed:
            blocks = self.matrix.blocks
            self._packed = Block(self.matrix.groups * blocks * kind.packed)
            assert kind.pack is not None
            kind.pack(self.matrix.address, self._packed.address, row_count, blocks, 0, self.matrix.groups)
            self.matrix.address = self._packed.address

    def product(self, x: Floats) -> Floats:
        """x[n, k] times the matrix; float32[n, rows]. One row takes the kernel of decoding, more take that of a prompt."""
        m = self.matrix
        n, width = len(x), matmul.padded(m.rows)
        stride = rows.formed_bytes(m.kind.form, m.k)
        formed = Block(n * stride)
        for j, row in enumerate(np.ascontiguousarray(x)):
            rows.form_row(row.ctypes.data, m.k, formed.address + j * stride, m.kind.form, m.kind.minus_offset)
        out = Block(4 * n * width)
        words = self._words(out, width) | {matmul.Y: formed.address, matmul.ROW_PARTS: min(_PARTS, m.groups)}
        chunks = words[matmul.ROW_PARTS]
        if n > 1:
            words |= {matmul.Y_STRIDE: stride, matmul.COLUMNS: n, matmul.COLUMN_PART: _COLUMN_PART}
            chunks *= -(-n // _COLUMN_PART)
        run(m.kind.gemv if n == 1 else m.kind.gemm, matmul.FIELDS, words, chunks)
        return out.floats((n, width))[:, : m.rows].copy()

    def dequantized(self, first: int = 0, last: int | None = None) -> Floats:
        """Rows first..last as float32."""
        return self.rows(np.arange(first, self.matrix.rows if last is None else last, dtype=np.int64))

    def rows(self, wanted: npt.NDArray[np.int64]) -> Floats:
        """Rows by number, as the embedding reads them."""
        m = self.matrix
        out = Block(4 * len(wanted) * matmul.padded(m.k))
        words = self._words(out, m.k) | {
            matmul.Y: int(wanted.ctypes.data),
            matmul.COLUMNS: len(wanted),
            matmul.COLUMN_PART: len(wanted),
        }
        run(m.kind.get_rows, matmul.FIELDS, words, 1)
        return out.floats((len(wanted), m.k)).copy()

    def _words(self, out: Block, width: int) -> dict[int, int]:
        m = self.matrix
        return {
            matmul.WEIGHTS: m.address, matmul.GROUPS: m.groups, matmul.BLOCKS: m.blocks, matmul.OUT: out.address,
            matmul.OUT_STRIDE: width, matmul.ROWS: m.rows, matmul.K: m.k, matmul.TYPE: m.kind.id,
        }  # fmt: skip


def run(kernel: Any, fields: int, words: dict[int, int], chunks: int) -> None:
    """Every chunk of an operation, last one first: chunks must not depend on each other."""
    args = np.zeros(fields, np.int64)
    for word, value in words.items():
        args[word] = value
    for chunk in reversed(range(chunks)):
        kernel(args.ctypes.data, chunk, 0)


def quantized(form: str, x: Floats) -> Bytes:
    """A row of activations as the file bytes of ``Q8_0``, ``Q8_1``, ``Q8_K``, ``F16`` or ``BF16``."""
    k = len(x)
    number = _FORMS[form]
    formed = Block(rows.formed_bytes(number, k))
    x = np.ascontiguousarray(x)
    rows.form_row(x.ctypes.data, k, formed.address, number, 0)
    if form in ("F16", "BF16"):
        wide = formed.floats((k,))
        return wide.astype("<f2").view(np.uint8) if form == "F16" else (wide.view(np.uint32) >> 16).astype("<u2").view(np.uint8)
    return _q8_k(formed.bytes, k) if form == "Q8_K" else _q8(formed.bytes, k, with_sums=form == "Q8_1")


def _q8(packed: Bytes, k: int, *, with_sums: bool) -> Bytes:
    blocks = k // 32
    q = packed[:k].reshape(blocks, 32)
    d, s = packed[k : k + 8 * blocks].view("<f4").astype("<f2").reshape(2, blocks, 1).view(np.uint8)
    return np.concatenate([d, s, q] if with_sums else [d, q], axis=1).reshape(-1)


def _q8_k(packed: Bytes, k: int) -> Bytes:
    blocks = k // quantize_k.BLOCK
    records = packed[: blocks * quantize_k.RECORD].reshape(blocks, quantize_k.RECORD)
    q, sums, d = (records[:, at : at + size] for at, size in ((quantize_k.Q, 256), (quantize_k.SUMS16, 32), (quantize_k.D, 4)))
    return np.concatenate([d, q, sums], axis=1).reshape(-1)
