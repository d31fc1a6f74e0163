# SPDX-License-Identifier: MIT OR Apache-2.0
"""The JSON writer of answers: no spaces, UTF-8 as it is, and ``null`` for the floats that JSON has no word for.

Source: serializer::dump of vendor/nlohmann/json.hpp.
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

_BLOCK: Final = 1 << 16
_ITEMS: Final = 1 << 11
_SHORT: Final = 64
_FEW: Final = 8


def dumps(value: Any, *, indent: int | None = None, separators: tuple[str, str] | None = None) -> str:
    """A value as JSON, text as it is; a float that is not finite becomes null."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, indent=indent, separators=separators)


def dump(value: Any) -> bytes:
    """A value as llama-server writes it, in one piece: for what is known to be small."""
    return dumps(value, separators=(",", ":")).encode("utf-8")


def blocks(value: Any) -> Iterator[bytes]:
    """The same bytes in blocks of some 64 KiB, made when they are taken: for what follows the size of an input.

    Beside the types that :func:`dump` takes, an array of numbers is written as a list, an iterator of small items too, and
    :class:`Joined` as a string.
    """
    held: list[str] = []
    size = 0
    for text in _texts(value):
        held.append(text)
        size += len(text)
        if size >= _BLOCK:
            yield "".join(held).encode("utf-8")
            held.clear()
            size = 0
    if held:
        yield "".join(held).encode("utf-8")


class Joined:
    """A text that comes in parts, written as one string."""

    def __init__(self, parts: Iterator[str]) -> None:
        self.parts = parts


def short(value: Any, size: int = 60) -> str:
    """The first ``size`` characters of a value as JSON, for messages; time does not follow the size of the value."""
    return _cut(_texts(value, ", ", ": "), size)


def excerpt(value: Any, size: int = 4096, indent: int | None = None) -> str:
    """As much of a value as a message of llama-server quotes here; it quotes all of it, without blanks or indented.

    Source: basic_json::dump of vendor/nlohmann/json.hpp.
    """
    if indent is None:
        return _cut(_texts(value), size)
    return _cut(json.JSONEncoder(ensure_ascii=False, indent=indent).iterencode(value), size)


def _cut(parts: Iterable[str], size: int) -> str:
    text = ""
    for part in parts:
        text += part[: size + 1]
        if len(text) > size:
            return f"{text[: size - 1]}…"
    return text


def _texts(value: Any, comma: str = ",", colon: str = ":") -> Iterator[str]:
    if isinstance(value, str):
        yield '"'
        for start in range(0, len(value), _BLOCK):
            yield json.dumps(value[start : start + _BLOCK], ensure_ascii=False)[1:-1]
        yield '"'
    elif isinstance(value, Joined):
        yield '"'
        for part in value.parts:
            yield json.dumps(part, ensure_ascii=False)[1:-1]
        yield '"'
    elif isinstance(value, dict):
        yield "{"
        for index, (name, member) in enumerate(value.items()):
            yield comma if index else ""
            yield from _texts(str(name), comma, colon)
            yield colon
            yield from _texts(member, comma, colon)
        yield "}"
    elif isinstance(value, array):
        yield "["
        for start in range(0, len(value), _ITEMS):
            yield (comma if start else "") + comma.join(map(str, value[start : start + _ITEMS]))
        yield "]"
    elif isinstance(value, Iterator):
        yield "["
        first = True
        while items := list(islice(value, _ITEMS)):
            yield ("" if first else comma) + dump(items).decode("utf-8")[1:-1]
            first = False
        yield "]"
    elif isinstance(value, list | tuple):
        yield "["
        for start in range(0, len(value), _ITEMS):
            yield comma if start else ""
            items = [*value[start : start + _ITEMS]]
            if comma == "," and all(map(_is_small, items)):
                yield dump(items).decode("utf-8")[1:-1]
                continue
            for index, item in enumerate(items):
                yield comma if index else ""
                yield from _texts(item, comma, colon)
        yield "]"
    else:
        yield dump(value).decode("utf-8")


def _is_small(value: Any, levels: int = 2) -> bool:
    """Whether a value is a scalar or holds a few, so that some thousand of its kind can be written in one piece."""
    if isinstance(value, str):
        return len(value) <= _SHORT
    if isinstance(value, list | tuple | dict):
        items = value.values() if isinstance(value, dict) else value
        return levels > 0 and len(value) <= _FEW and all(_is_small(item, levels - 1) for item in items)
    return value is None or isinstance(value, int | float)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
