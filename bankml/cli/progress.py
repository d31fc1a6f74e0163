# SPDX-License-Identifier: MIT OR Apache-2.0
"""Progress bars: on stderr, and only where that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def bars() -> Iterator[Callable[[str, int, int | None], None] | None]:
    """A callback that shows one bar for each kind of work; None where nobody watches."""
    if not sys.stderr.isatty():
        yield None
        return
    from tqdm import tqdm

    shown: dict[str, Any] = {}

    def show(what: str, done: int, total: int | None) -> None:
        if what not in shown:
            for bar in shown.values():
                bar.close()
            shown.clear()
            shown[what] = tqdm(desc=what, total=total, initial=0, unit="", unit_scale=True, leave=False)
        bar = shown[what]
        bar.total = total
        bar.update(done - bar.n)

    try:
        yield show
    finally:
        for bar in shown.values():
            bar.close()
