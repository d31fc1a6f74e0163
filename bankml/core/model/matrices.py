# SPDX-License-Identifier: MIT OR Apache-2.0
"""The weights of a model in the form that kernels read: packed copies, or the file's own bytes."""

from __future__ import annotations

import itertools
import mmap
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bankml.core.gguf.reader import GgufFile
from bankml.core.model.compile import Progress
from bankml.core.model.memory import Arena
from bankml.core.model.plan import Plan
from bankml.kernels import matmul
from bankml.kernels.weights import WeightType, weight_type

COLUMN_PART = 96
"""Activation rows of a chunk, when there are many."""
_CHUNK_BYTES = 64 << 10
_GROUPS_PER_TASK = 64


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
    """All matrices and vectors of a plan. Packing reads each page of the file once and lets go of it.

    Tensors of a packed type cost as many bytes again as in the file, which the kernel may then drop from memory.
    """

    def __init__(self, gguf: GgufFile, plan: Plan, threads: int, progress: Progress | None = None) -> None:
        self._keep: list[object] = []
        arena = Arena()
        self.matrices: dict[str, Matrix] = {}
        for name, (rows, k) in plan.matrices.items():
            kind = weight_type(gguf.tensors[name].type_id, rows)
            if kind.packed:
                size = (rows + kind.group - 1) // kind.group * (k // kind.block) * kind.packed
                self.matrices[name] = Matrix(kind, rows, k, arena.reserve(size))
            else:
                data = gguf.data(name)
                self._keep.append(data)
                self.matrices[name] = Matrix(kind, rows, k, int(data.ctypes.data))
        start = arena.allocate()
        self._keep.append(arena.block)
        self._pack(gguf, start, threads, progress)
        self.vectors: dict[str, npt.NDArray[np.float32]] = {}
        for name, length in plan.vectors.items():
            padded = np.zeros(matmul.padded(length), np.float32)
            padded[:length] = gguf.data(name).view(np.float32)
            self.vectors[name] = padded

    def _pack(self, gguf: GgufFile, start: int, threads: int, progress: Progress | None) -> None:
        packed = {name: m for name, m in self.matrices.items() if m.kind.packed}
        total = sum(gguf.tensors[name].n_bytes for name in packed)
        done = 0
        with ThreadPoolExecutor(threads) as pool:
            for name, matrix in packed.items():
                matrix.address += start
                source = gguf.data(name)
                cuts = [*range(0, matrix.groups, _GROUPS_PER_TASK), matrix.groups]
                pack = matrix.kind.pack
                assert pack is not None
                tasks = [
                    pool.submit(pack, source.ctypes.data, matrix.address, matrix.rows, matrix.blocks, first, last)
                    for first, last in itertools.pairwise(cuts)
                ]
                for task in tasks:
                    task.result()
                release(source)
                done += gguf.tensors[name].n_bytes
                if progress is not None:
                    progress("pack weights", done, total)

    def address(self, name: str) -> int:
        """Address of a vector, or 0 where the file has none of that name."""
        vector = self.vectors.get(name)
        return 0 if vector is None else int(vector.ctypes.data)


def release(view: npt.NDArray[np.uint8]) -> None:
    """Let the kernel drop a file view's whole pages from this process; they stay in the page cache."""
    base = view.base
    while base is not None and not isinstance(base, mmap.mmap):
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    if base is None:
        return
    whole = np.frombuffer(base, np.uint8)
    start = int(view.ctypes.data) - int(whole.ctypes.data)
    first = (start + mmap.PAGESIZE - 1) // mmap.PAGESIZE * mmap.PAGESIZE
    last = (start + view.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if last > first:
        base.madvise(mmap.MADV_DONTNEED, first, last - first)
