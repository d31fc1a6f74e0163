# SPDX-License-Identifier: MIT OR Apache-2.0
"""bankml's products called over arrays, by the entries that the graph points at: formed rows, products, dequantized rows."""

from __future__ import annotations

from collections.abc import Mapping
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

__all__ = ["FORMS", "TYPE_IDS", "Held", "file_bytes", "formed", "quantized", "run"]

FORMS = {
    "F32": rows.FORM_F32, "F16": rows.FORM_F16, "BF16": rows.FORM_BF16, "Q8_0": rows.FORM_Q8, "Q8_1": rows.FORM_Q8,
    "Q8_K": rows.FORM_Q8K,
}  # fmt: skip
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

    def product(self, x: Floats, added: Mapping[int, Floats] | None = None) -> Floats:
        """x[n, k] times the matrix; float32[n, rows]. One row takes the kernel of decoding, more take that of a prompt.

        Args:
            added: by their word of the argument block, a scale of one number, a bias[rows] and a residual[n, rows].
        """
        m = self.matrix
        n, width = len(x), matmul.padded(m.rows)
        stride = int(rows.formed_bytes(m.kind.form, m.k))
        ready = formed(rows.form_rows, m.kind.form, x, stride, {rows.MINUS_OFFSET: m.kind.minus_offset})
        out = Block(4 * n * width)
        words = self._words(out, width) | {matmul.Y: ready.address, matmul.ROW_PARTS: min(_PARTS, m.groups)}
        blocks = {word: _padded(values, width) for word, values in (added or {}).items()}
        words |= {word: block.address for word, block in blocks.items()}
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


def _padded(values: Floats, width: int) -> Block:
    """Values in rows of `width`."""
    lines = np.atleast_2d(values)
    block = Block(4 * width * len(lines))
    block.floats((len(lines), width))[:, : lines.shape[1]] = lines
    return block


def run(kernel: Any, fields: int, words: Mapping[int, int], chunks: int) -> None:
    """Every chunk of an operation, last one first: chunks must not depend on each other."""
    args = np.zeros(fields, np.int64)
    for word, value in words.items():
        args[word] = value
    for chunk in reversed(range(chunks)):
        kernel(args.ctypes.data, chunk, 0)


def formed(kernel: Any, form: int, x: Floats, stride: int, words: Mapping[int, int]) -> Block:
    """Rows x[n, k] after an operation of ``rows`` that forms them: `stride` bytes from one to the next."""
    x = np.ascontiguousarray(x)
    n, k = x.shape
    # The kernels read and write whole vectors.
    given, out, scratch = Block(4 * n * k + 256), Block(n * stride + 256), Block(4 * k + 256)
    given.floats((n, k))[:] = x
    block = {
        rows.X: given.address, rows.X_STRIDE: k, rows.K: k, rows.TO: out.address, rows.TO_STRIDE: stride, rows.FORM: form,
        rows.ROWS: n, rows.ROW_PART: n, rows.SCRATCH: scratch.address, **words,
    }  # fmt: skip
    run(kernel, rows.FIELDS, block, 1)
    return out


def quantized(form: str, x: Floats) -> Bytes:
    """A row of activations as the file bytes of ``Q8_0``, ``Q8_1``, ``Q8_K``, ``F16`` or ``BF16``."""
    stride = int(rows.formed_bytes(FORMS[form], len(x)))
    out = formed(rows.form_rows, FORMS[form], x[None, :], stride, {})
    return file_bytes(form, out.bytes[:stride].reshape(1, stride), len(x)).reshape(-1)


def file_bytes(form: str, lines: Bytes, k: int) -> Bytes:
    """Formed rows of k values as a file has them, in the type that ``form`` names."""
    if form == "Q8_K":
        return _q8_k(lines, k)
    if form in ("Q8_0", "Q8_1"):
        return _q8(lines, k, with_sums=form == "Q8_1")
    wide = lines[:, : 4 * k].view("<f4")
    if form == "BF16":
        return (wide.view("<u4") >> 16).astype("<u2").view(np.uint8)
    return wide.astype("<f2").view(np.uint8) if form == "F16" else wide.view(np.uint8)


def _q8(lines: Bytes, k: int, *, with_sums: bool) -> Bytes:
    n, blocks = len(lines), k // 32
    q = lines[:, :k].reshape(n, blocks, 32)
    halves = lines[:, k : k + 8 * blocks].view("<f4").astype("<f2").reshape(n, 2, blocks, 1).view(np.uint8)
    d, s = halves[:, 0], halves[:, 1]
    return np.concatenate([d, s, q] if with_sums else [d, q], axis=2).reshape(n, -1)


def _q8_k(lines: Bytes, k: int) -> Bytes:
    n, blocks = len(lines), k // quantize_k.BLOCK
    records = lines[:, : blocks * quantize_k.RECORD].reshape(n, blocks, quantize_k.RECORD)
    parts = ((quantize_k.D, 4), (quantize_k.Q, 256), (quantize_k.SUMS16, 32))
    return np.concatenate([records[:, :, at : at + size] for at, size in parts], axis=2).reshape(n, -1)
