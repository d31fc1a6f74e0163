# SPDX-License-Identifier: MIT OR Apache-2.0
"""The weights of a model in the form that kernels read: packed, or as the file has them, always a copy."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import Empty, SimpleQueue

import numpy as np
import numpy.typing as npt

from bankml.core.gguf.reader import GgufFile
from bankml.core.model.compile import Progress
from bankml.core.model.memory import Arena, plain_pages
from bankml.core.model.plan import Plan
from bankml.kernels import matmul
from bankml.kernels.weights import WeightType, weight_type

COLUMN_PART = 96
"""Activation rows of a chunk, when there are many."""
_CHUNK_BYTES = 64 << 10
_READ_BYTES = 1 << 20


@dataclass
class Matrix:
    """rows x k weights at `address`, in the layout of `kind`."""

    kind: WeightType
    rows: int
    k: int
    address: int

    @property
    def blocks(self) -> int:
        """Blocks of a row."""
        return self.k // int(self.kind.block)

    @property
    def groups(self) -> int:
        """Row groups that the kernels walk."""
        group = int(self.kind.group)
        return (self.rows + group - 1) // group

    def row_parts(self, threads: int) -> int:
        """Chunks of its product with one activation row: a thread takes several, each long enough to be worth its claim."""
        size = self.rows * self.blocks * int(self.kind.bytes)
        return max(1, min(self.groups, max(4 * threads, min(16 * threads, size // _CHUNK_BYTES))))

    def prompt_parts(self, threads: int) -> int:
        """Parts of its rows in a product with many activation rows, which are cut by COLUMN_PART as well."""
        return max(1, min(self.groups, 4 * threads))


class Weights:
    """All matrices and vectors of a plan, in memory that no other program can change or cut short.

    Of a packed type it holds about as many bytes as the file; F32, F16 and BF16 are copied as they are. What is read of the file
    goes through a small buffer of each thread, so nothing of it stays in this process.
    """

    def __init__(self, gguf: GgufFile, plan: Plan, threads: int, progress: Progress | None = None) -> None:
        self._arena = Arena()
        self._plain: dict[str, npt.NDArray[np.uint8]] = {}
        self.matrices: dict[str, Matrix] = {}
        for name, (rows, k) in plan.matrices.items():
            kind = weight_type(gguf.tensors[name].type_id, rows)
            if kind.packed:
                address = self._arena.reserve((rows + kind.group - 1) // kind.group * (k // kind.block) * kind.packed)
            else:
                self._plain[name] = plain_pages(gguf.tensors[name].n_bytes)
                address = int(self._plain[name].ctypes.data)
            self.matrices[name] = Matrix(kind, rows, k, address)
        start = self._arena.allocate()
        for name in self.matrices.keys() - self._plain.keys():
            self.matrices[name].address += start
        self._read(gguf, threads, progress)
        self.vectors: dict[str, npt.NDArray[np.float32]] = {}
        for name, length in plan.vectors.items():
            padded = np.zeros(matmul.padded(length), np.float32)
            padded[:length] = gguf.data(name).view(np.float32)
            self.vectors[name] = padded

    def _read(self, gguf: GgufFile, threads: int, progress: Progress | None) -> None:
        total = sum(gguf.tensors[name].n_bytes for name in self.matrices)
        done = 0
        buffers: SimpleQueue[npt.NDArray[np.uint8]] = SimpleQueue()
        with ThreadPoolExecutor(threads) as pool:
            for name, matrix in self.matrices.items():
                for task in [pool.submit(self._part, gguf, name, matrix, cut, buffers) for cut in _cuts(matrix)]:
                    task.result()
                done += gguf.tensors[name].n_bytes
                if progress is not None:
                    progress("load weights", done, total)

    def _part(
        self, gguf: GgufFile, name: str, matrix: Matrix, groups: tuple[int, int], buffers: SimpleQueue[npt.NDArray[np.uint8]]
    ) -> None:
        """Read some groups of a matrix's rows, and pack them where its kernels want that."""
        kind = matrix.kind
        first, last = groups[0] * kind.group, min(groups[1] * kind.group, matrix.rows)
        row_bytes = matrix.blocks * int(kind.bytes)
        start, size = first * row_bytes, (last - first) * row_bytes
        if not kind.packed:
            gguf.read_into(self._plain[name][start : start + size], name, start)
            return
        try:
            buffer = buffers.get_nowait()
        except Empty:
            buffer = np.empty(0, np.uint8)
        if len(buffer) < size:
            buffer = np.empty(size, np.uint8)
        gguf.read_into(buffer[:size], name, start)
        assert kind.pack is not None
        # The kernel counts from the first row of the matrix.
        kind.pack(int(buffer.ctypes.data) - start, matrix.address, matrix.rows, matrix.blocks, *groups)
        buffers.put(buffer)

    def address(self, name: str) -> int:
        """Address of a vector, or 0 where the file has none of that name."""
        vector = self.vectors.get(name)
        return 0 if vector is None else int(vector.ctypes.data)


def _cuts(matrix: Matrix) -> Iterator[tuple[int, int]]:
    """The groups of a matrix's rows, cut into parts of about _READ_BYTES."""
    group_bytes = matrix.kind.group * matrix.blocks * int(matrix.kind.bytes)
    step = max(1, _READ_BYTES // group_bytes)
    cuts = [*range(0, matrix.groups, step), matrix.groups]
    return itertools.pairwise(cuts)
