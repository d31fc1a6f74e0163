# SPDX-License-Identifier: MIT OR Apache-2.0
"""Memory for weights, caches and buffers: zeroed, aligned to cache lines, in large pages where the kernel gives them."""

from __future__ import annotations

import mmap

import numpy as np
import numpy.typing as npt

_HUGE, _SMALL, _LINE = 2 << 20, 1 << 16, 64


class Block:
    """`size` zeroed bytes at a fixed address; freed with the object. Pages become resident when first written."""

    def __init__(self, size: int) -> None:
        # Of small pieces there are many for a moment, and a map costs more than what is done with one.
        whole = np.zeros(size + _LINE, np.uint8) if size < _SMALL else _mapped(size)
        start = -int(whole.ctypes.data) % (_HUGE if size >= _HUGE else _LINE)
        self.bytes: npt.NDArray[np.uint8] = whole[start : start + size]
        self.address = int(self.bytes.ctypes.data)

    def floats(self, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
        """The start of the block as float32."""
        count = int(np.prod(shape))
        return self.bytes[: 4 * count].view(np.float32).reshape(shape)


def _mapped(size: int) -> npt.NDArray[np.uint8]:
    """Anonymous pages with room for `size` bytes from the start of a large page on."""
    block = mmap.mmap(-1, size + _HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= _HUGE:
        block.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(block, np.uint8)


def plain_pages(size: int) -> npt.NDArray[np.uint8]:
    """Anonymous pages of the usual size for what is copied as it is: large ones may take ten times as long to be had."""
    return np.frombuffer(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.uint8)


class Arena:
    """Hands out 64-byte aligned pieces of one block; measure first, then allocate in the same order."""

    def __init__(self) -> None:
        self._sizes: list[int] = []
        self._used = 0
        self.block: Block | None = None

    def reserve(self, size: int) -> int:
        """Offset of a piece of `size` bytes."""
        offset = self._used
        self._used += (size + 63) // 64 * 64
        return offset

    def allocate(self) -> int:
        """Make the block; returns its address."""
        self.block = Block(self._used)
        return self.block.address
