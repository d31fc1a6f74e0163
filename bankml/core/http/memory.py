# SPDX-License-Identifier: MIT OR Apache-2.0
"""Settings of the allocator and the collector, so that a large request keeps nobody waiting and leaves no memory behind."""

from __future__ import annotations

import contextlib
import ctypes
import gc
from typing import Final

_ARENA_MAX: Final = -8
_MMAP_THRESHOLD: Final = -3
"""M_ARENA_MAX and M_MMAP_THRESHOLD of malloc.h."""


def settle() -> None:
    """Before the first request: one heap for all threads, and a collector that passes over what was loaded.

    Under the interpreter's lock more heaps only take memory, and each look at every loaded object would keep clients waiting.
    """
    with contextlib.suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_ARENA_MAX, 1)
        # Set, it no longer grows: what is larger than this always goes back to the system when it is freed.
        libc.mallopt(_MMAP_THRESHOLD, 4 << 20)
    gc.collect()
    gc.freeze()


def give_back() -> None:
    """Return to the system what a large request has left free."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
