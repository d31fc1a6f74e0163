# SPDX-License-Identifier: MIT OR Apache-2.0
"""Values that remember what a template did with them."""

from __future__ import annotations

from typing import Any

from bankml.core.jinja.values import Obj


class TracedStr(bytes):
    """A string that remembers what a template did with it."""

    used = False
    ops: set[bytes]


class TracedList(list[Any]):
    """An array that remembers what a template did with it."""

    used = False
    ops: set[bytes]


class TracedObj(Obj):
    """An object that remembers what a template did with it."""

    used = False
    ops: set[bytes]


Traced = (TracedStr, TracedList, TracedObj)


def mark(value: Any, *ops: bytes) -> None:
    """Notes that a traced value was used, and by which operations."""
    if isinstance(value, Traced):
        value.used = True
        value.ops.update(ops)


def mark_deep(value: Any) -> None:
    """Notes that a value and everything in it was used; what is in it twice is looked at once."""
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if id(item) in seen:
            continue
        mark(item)
        if isinstance(item, (dict, list, tuple)):
            seen.add(id(item))
            waiting += item.values() if isinstance(item, dict) else item
            if isinstance(item, dict):
                for key in item:
                    mark(key)


def traced(value: Any) -> Any:
    """A copy of a value in which every string, array and object can be traced."""
    copy: Any
    if isinstance(value, dict):
        copy = TracedObj((key, traced(item)) for key, item in value.items())
    elif isinstance(value, list):
        copy = TracedList([traced(item) for item in value])
    elif isinstance(value, bytes):
        copy = TracedStr(value)
    else:
        return value
    copy.ops = set()
    return copy
