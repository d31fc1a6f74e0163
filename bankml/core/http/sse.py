# SPDX-License-Identifier: MIT OR Apache-2.0
"""Server-sent events: values as events, and the comment that keeps a silent stream open."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bankml.core.json.writer import dump

PING = b":\n\n"


def event(value: Any) -> bytes:
    """A value as one server-sent event."""
    return b"data: " + dump(value) + b"\n\n"


def events(values: Iterable[Any]) -> bytes:
    """Several values as server-sent events, one after the other."""
    return b"".join(map(event, values))
