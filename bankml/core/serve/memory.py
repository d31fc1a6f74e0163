# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the C library's allocator is told, so that a large request leaves no memory behind."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Final

_ARENA_MAX: Final = -8
"""M_ARENA_MAX of malloc.h."""


def one_arena() -> None:
    """Let all threads share one heap: under the interpreter's lock more of them only take memory."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)


def give_back() -> None:
    """Return to the system what a large request has left free."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
