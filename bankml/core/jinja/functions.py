# SPDX-License-Identifier: MIT OR Apache-2.0
"""The global functions and the tests (``x is test``).

Source: global_builtins, common/jinja/value.cpp.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from bankml.core.jinja.errors import LimitError, TemplateError, UnsupportedError
from bankml.core.jinja.trace import mark_deep
from bankml.core.jinja.values import (
    Args,
    Func,
    Handler,
    Int,
    Kwarg,
    Obj,
    Undefined,
    as_int,
    as_text,
    check_key,
    compare,
    equal,
    is_kind,
    is_number,
    to_json,
    type_name,
)

MAX_RANGE = 1 << 20
MAX_INDENT = 64


def raise_exception(args: Args) -> Any:
    """Stops the template with its own message."""
    args.typed(bytes)
    raise TemplateError(b"Jinja Exception: " + args.pos(0))


def namespace(args: Args) -> Any:
    """An object made of keyword arguments."""
    out = Obj()
    for value in args.values:
        if type(value) is not Kwarg:
            raise TemplateError(b"namespace() arguments must be kwargs")
        out[value.key] = value.value
    return out


def strftime_now(args: Args) -> Any:
    """The run's time in C's strftime format; fails, as the reference does, on an empty result or one of 100 bytes."""
    args.typed(bytes)
    form = args.pos(0).split(b"\0")[0]
    if len(form) > 4096:
        raise LimitError("length of a time format", "4096 bytes")
    result = _ASCII.sub(lambda part: _formatted(part[0], args.run.now), form)
    if not 0 < len(result) < 100:
        raise TemplateError(b"strftime_now: failed to format time")
    return result


_ASCII = re.compile(rb"[\x01-\x7f]+")


def _formatted(form: bytes, now: time.struct_time) -> bytes:
    """A format of ASCII alone: of other bytes Python makes what the locale can write, C leaves them as they are."""
    return time.strftime(form.decode("ascii"), now).encode("utf-8", "surrogateescape")


def range_(args: Args) -> Any:
    """Integers from start to stop."""
    args.count(1, 3)
    args.typed(Int, required=1)
    bounds = [as_int(value) for value in args.values]
    start, stop, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    if step == 0:
        raise TemplateError(b"range() step argument must not be zero")
    # By hand: range() itself cannot tell a length past 63 bits.
    length = max(0, -((start - stop) // step))
    if length > MAX_RANGE:
        raise LimitError("length of a range in the template", f"{MAX_RANGE} items")
    args.run.grow(length, 40)
    return list(range(start, stop, step))


def tojson(args: Args) -> Any:
    """A value as JSON text."""
    args.count(1, 5)
    ascii_only, indent_value = args.named(b"ensure_ascii", 1), args.named(b"indent", 2)
    separators, sort = args.named(b"separators", 3), args.named(b"sort_keys", 4)
    value = args.pos(0)
    if args.run.trace:
        mark_deep(value)
    indent = -1
    if is_kind(indent_value, Int):
        if indent_value > MAX_INDENT:
            raise LimitError("indent of JSON in the template", f"{MAX_INDENT} blanks")
        indent = max(-1, indent_value)
    if sort:
        raise UnsupportedError(b"tojson sort_keys=true not implemented")
    parts = separators if isinstance(separators, (list, tuple)) else []
    item_separator = as_text(parts[0], args.run) if parts else (b", " if indent < 0 else b",")
    key_separator = as_text(parts[1], args.run) if len(parts) > 1 else b": "
    text = to_json(value, args.run, indent, item_separator, key_separator)
    args.run.room(len(text))
    if not ascii_only:
        return text
    args.run.spend(2 * len(text))
    text = _ascii(text)
    args.run.room(len(text))
    return text


def _ascii(text: bytes) -> bytes:
    """JSON with every character of its strings beyond ASCII as ``\\uXXXX``; a bad byte becomes U+FFFD."""
    out: list[bytes] = []
    in_string = escaped = False
    pos = 0
    while pos < len(text):
        c = text[pos]
        if c < 0x80 or not in_string or escaped:
            out.append(text[pos : pos + 1])
            if not in_string:
                in_string = c == 0x22
            elif escaped:
                escaped = False
            elif c == 0x5C:
                escaped = True
            elif c == 0x22:
                in_string = False
            pos += 1
            continue
        length = 2 if 0xC0 <= c < 0xE0 else 3 if 0xE0 <= c < 0xF0 else 4 if 0xF0 <= c < 0xF8 else 1
        try:
            char = text[pos : pos + length].decode("utf-8")
        except UnicodeDecodeError:
            char, length = "�", 1
        units = char.encode("utf-16-be")
        out.extend(b"\\u%02x%02x" % (units[i], units[i + 1]) for i in range(0, len(units), 2))
        pos += length
    return b"".join(out)


def contains(needle: Any, haystack: Any, args: Args) -> bool:
    """Membership. Raises: TemplateError where the reference refuses the pair."""
    if isinstance(haystack, Undefined):
        return False
    if isinstance(haystack, (list, tuple)):
        args.run.spend(3 * len(haystack))
        return any(equal(needle, item, args.run) for item in haystack)
    if isinstance(haystack, bytes):
        if not isinstance(needle, bytes):
            text = b"'in' test expects args[1] as string when args[0] is string, got args[1] as "
            raise TemplateError(text + type_name(needle))
        args.run.read(len(haystack))
        return needle in haystack
    if isinstance(haystack, dict):
        check_key(needle, args.run)
        return needle in haystack
    raise TemplateError(b"'in' test expects iterable as first argument, got " + type_name(haystack))


def test_in(args: Args) -> Any:
    """``needle in haystack``."""
    args.count(2)
    return contains(args.pos(0), args.pos(1), args)


def _parity(remainder: int) -> Handler:
    def test(args: Args) -> Any:
        args.typed(Int)
        return abs(args.pos(0)) % 2 == remainder

    return test


def _divisible(args: Args) -> Any:
    args.typed(Int, Int)
    if args.pos(1) == 0:
        raise LimitError("division by zero in the template", "a divisor other than zero")
    return args.pos(0) % args.pos(1) == 0


def _is(predicate: Callable[[Any], bool]) -> Handler:
    def test(args: Args) -> Any:
        args.count(1)
        return predicate(args.pos(0))

    return test


def _compares(op: str) -> Handler:
    def test(args: Args) -> Any:
        args.count(2, 2)
        return compare(args.pos(0), args.pos(1), op, args.run)

    return test


def _lower(args: Args) -> Any:
    args.typed(bytes)
    args.run.read(len(args.pos(0)))
    return args.pos(0) == args.pos(0).lower()


def _upper(args: Args) -> Any:
    args.typed(bytes)
    args.run.read(len(args.pos(0)))
    return args.pos(0) == args.pos(0).upper()


def _is_test(args: Args) -> Any:
    args.typed(bytes)
    return args.pos(0) in TESTS


def _missing(message: bytes) -> Handler:
    def test(args: Args) -> Any:
        raise UnsupportedError(message)

    return test


def _listlike(value: Any) -> bool:
    return isinstance(value, (list, tuple, bytes, Undefined))


TESTS: dict[bytes, Handler] = {
    b"boolean": _is(lambda v: isinstance(v, bool)),
    b"callable": _is(lambda v: isinstance(v, Func)),
    b"odd": _parity(1),
    b"even": _parity(0),
    b"false": _is(lambda v: v is False),
    b"true": _is(lambda v: v is True),
    b"divisibleby": _divisible,
    b"string": _is(lambda v: isinstance(v, bytes)),
    b"integer": _is(lambda v: is_kind(v, Int)),
    b"float": _is(lambda v: isinstance(v, float)),
    b"number": _is(is_number),
    b"iterable": _is(_listlike),
    b"sequence": _is(_listlike),
    b"mapping": _is(lambda v: isinstance(v, dict)),
    b"lower": _lower,
    b"upper": _upper,
    b"none": _is(lambda v: v is None),
    b"defined": _is(lambda v: not isinstance(v, Undefined)),
    b"undefined": _is(lambda v: isinstance(v, Undefined)),
    b"eq": _compares("eq"),
    b"equalto": _compares("eq"),
    b"ge": _compares("ge"),
    b"gt": _compares("gt"),
    b"greaterthan": _compares("gt"),
    b"lt": _compares("lt"),
    b"lessthan": _compares("lt"),
    b"ne": _compares("ne"),
    b"in": test_in,
    b"test": _is_test,
    b"sameas": _missing(b"sameas test not implemented"),
    b"escaped": _missing(b"escaped test not implemented"),
    b"filter": _missing(b"filter test not implemented"),
}

# The tests are functions too, under a longer name.
GLOBALS: dict[bytes, Handler] = {
    b"raise_exception": raise_exception,
    b"namespace": namespace,
    b"strftime_now": strftime_now,
    b"range": range_,
    b"tojson": tojson,
    **{b"test_is_" + name: test for name, test in TESTS.items()},
}
