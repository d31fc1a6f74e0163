# SPDX-License-Identifier: MIT OR Apache-2.0
"""What work costs, told without a clock: the same on any machine, whatever else runs there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


def calls(work: Callable[[], object]) -> int:
    """Calls of functions, Python's own among them, while ``work`` runs."""
    count = 0

    def seen(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def lines(work: Callable[[], object]) -> int:
    """Lines of Python that run while ``work`` does."""
    count = 0

    def seen(_frame: FrameType, event: str, _argument: object) -> object:
        nonlocal count
        count += event == "line"
        return seen

    before = sys.gettrace()
    sys.settrace(seen)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
