# SPDX-License-Identifier: MIT OR Apache-2.0
"""The built-in members of strings. Lengths and positions are bytes; upper and lower know ASCII only.

Source: value_string_t::get_builtins, common/jinja/value.cpp; common/jinja/string.cpp.
"""

from __future__ import annotations

import re
from typing import Any

from bankml.core.jinja.errors import LimitError, TemplateError, UnsupportedError
from bankml.core.jinja.run import MAX_STRING, Run
from bankml.core.jinja.values import Args, Handler, Int, Undefined, as_int, as_text, is_kind

_INT_MAX = (1 << 31) - 1
_LONGEST_NUMBER = 4096
_FLOAT_AT = re.compile(
    rb"[ \t\n\v\f\r]*([+-]?(?:0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)(?:[pP][+-]?[0-9]+)?"
    rb"|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf(?:inity)?|nan))",
    re.IGNORECASE,
)


class Joined(bytes):
    """A string that remembers the pieces it was joined from: capitalize and title treat each piece on its own."""

    parts: tuple[bytes, ...]


def parts_of(text: bytes) -> tuple[bytes, ...]:
    """The pieces of a string."""
    return text.parts if isinstance(text, Joined) else (text,)


def joined(pieces: list[bytes], run: Run) -> bytes:
    """The pieces as one string that remembers them."""
    run.grow(8 * sum(len(piece.parts) if isinstance(piece, Joined) else 1 for piece in pieces))
    parts = [part for piece in pieces for part in parts_of(piece)]
    if len(parts) == 1:
        return parts[0]
    text = Joined(b"".join(parts))
    text.parts = tuple(parts)
    return text


def _text(args: Args, complaint: bytes | None = None) -> bytes:
    value = args.pos(0)
    if not isinstance(value, bytes):
        if complaint is None:
            args.typed(bytes)
        raise TemplateError(complaint or b"")
    args.run.room(len(value))
    return value


def _per_part(method: Any, price: int = 0) -> Handler:
    """A method of each piece; ``price`` is what a byte costs."""

    def handler(args: Args) -> Any:
        args.typed(bytes)
        text = args.pos(0)
        args.run.room(len(text))
        args.run.spend((len(text) >> 8) + price * len(text))
        args.run.spend(2 * len(parts_of(text)))
        return joined([method(part) for part in parts_of(text)], args.run)

    return handler


def _title(text: bytes) -> bytes:
    """Upper case after white space, lower case elsewhere."""
    return b"".join([word[:1].upper() + word[1:].lower() for word in re.split(rb"([ \t\n\v\f\r]+)", text)])


def _strip(left: bool, right: bool) -> Handler:
    def handler(args: Args) -> Any:
        parts = list(parts_of(_text(args, b"strip() first argument must be a string" if left and right else None)))
        chars = args.named(b"chars", 1)
        chosen = None if isinstance(chars, Undefined) else as_text(chars, args.run)
        args.run.spend(len(args.pos(0)) * (16 + len(chosen or b"")) >> 10)
        # A piece that is stripped to nothing goes, and the next one is stripped in its place.
        while left and parts:
            parts[0] = bytes(parts[0]).lstrip(chosen)
            if parts[0]:
                break
            del parts[0]
        while right and parts:
            parts[-1] = bytes(parts[-1]).rstrip(chosen)
            if parts[-1]:
                break
            parts.pop()
        return joined(parts, args.run)

    return handler


def _edge(at_end: bool) -> Handler:
    def handler(args: Args) -> Any:
        args.typed(bytes, bytes)
        text, edge = args.pos(0), args.pos(1)
        args.run.read(len(edge))
        return text.endswith(edge) if at_end else text.startswith(edge)

    return handler


def _split(from_right: bool) -> Handler:
    name = b"rsplit" if from_right else b"split"

    def handler(args: Args) -> Any:
        args.count(1, 3)
        text = _text(args, name + b"() first argument must be a string")
        delimiter = as_text(args.pos(1), args.run) if len(args.values) > 1 else b" "
        if not delimiter:
            raise TemplateError(b"empty separator")
        most = as_int(args.pos(2)) if len(args.values) > 2 else -1
        # A search from the right is quadratic at worst, so its worst case is what is paid for.
        args.run.read(len(text) * (len(delimiter) if from_right else 2))
        count = text.count(delimiter)
        most = min(most, count) if most >= 0 else -1
        args.run.grow(1 + (count if most < 0 else most), 56)
        return text.rsplit(delimiter, most) if from_right else text.split(delimiter, most)

    return handler


def _replace(args: Args) -> Any:
    args.typed(bytes, bytes, bytes, required=3)
    text, old, new = bytes(_text(args)), args.pos(1), args.pos(2)
    if len(args.values) > 3 and as_int(args.pos(3)) > 0:
        raise UnsupportedError(b"String replace with count argument not implemented")
    if old == new:
        return text
    args.run.read(2 * len(text))
    times = text.count(old) if old else len(text) + 1
    args.run.room(len(text) + times * (len(new) - len(old)))
    return text.replace(old, new)


def _format(args: Args) -> Any:
    text = _text(args, b"format() first argument must be a string")
    pieces: list[bytes] = []
    index = 1
    start = 0
    while (at := text.find(b"{", start)) >= 0:
        if text[at + 1 : at + 2] != b"}":
            raise UnsupportedError(b"format() only supports simple '{}' placeholders")
        args.run.spend(4)
        pieces += [text[start:at], as_text(args.pos(index), args.run)]
        index += 1
        start = at + 2
    pieces.append(text[start:])
    args.run.room(sum(map(len, pieces)))
    return joined([piece for piece in pieces if piece], args.run)


_DIGITS_AT = re.compile(rb"[ \t\n\v\f\r]*([+-]?)(0[xX](?=[0-9a-fA-F]))?([0-9a-zA-Z]*)")


def parse_int(text: bytes, base: int) -> int | None:
    """The integer that the text starts with in a base (0: by prefix), or None; 32 bits. Source: C++ std::stoi."""
    match = _DIGITS_AT.match(text)
    assert match is not None
    sign, prefix, digits = match.groups()
    if prefix and base not in (0, 16):
        digits, prefix = b"0", None
    if base == 0:
        base = 16 if prefix else 8 if digits.startswith(b"0") else 10
    zeros = len(digits) - len(digits.lstrip(b"0"))
    value, count = 0, zeros
    # Past some digits no 32 bits hold it, whatever follows.
    for c in digits[zeros : zeros + 64]:
        digit = int(bytes((c,)), 36)
        if digit >= base:
            break
        value, count = min(value * base + digit, 1 << 40), count + 1
    value = -value if sign == b"-" else value
    return value if count and -_INT_MAX - 1 <= value <= _INT_MAX else None


def _number_text(args: Args) -> bytes:
    """The beginning of a text that stands for a number, as C reads it."""
    text: bytes = args.pos(0)[:_LONGEST_NUMBER].split(b"\0")[0]
    args.run.spend(len(text) >> 3)
    return text


def _int(args: Args) -> Any:
    value, fallback = args.pos(0), args.named(b"default", 1)
    base_value = args.named(b"base", 2)
    base = 10 if isinstance(base_value, Undefined) else as_int(base_value)
    if base != 0 and not 2 <= base <= 36:
        raise TemplateError(b"int() base must be 0 or between 2 and 36")
    if not isinstance(value, bytes):
        raise TemplateError(b"int() first argument must be a string")
    number = parse_int(_number_text(args), base)
    if number is not None:
        return number
    return 0 if isinstance(fallback, Undefined) else as_int(fallback)


def _float(args: Args) -> Any:
    args.typed(bytes)
    fallback = args.named(b"default", 1)
    match = _FLOAT_AT.match(_number_text(args))
    if match:
        text = match.group(1).decode()
        value = float.fromhex(text) if "0x" in text.lower() else float(text)
        overflow = value in (float("inf"), float("-inf")) and "inf" not in text.lower()
        underflow = value == 0.0 and any(c in "123456789" for c in text.lower().split("e")[0]) and "0x" not in text.lower()
        if not overflow and not underflow:
            return value
    if isinstance(fallback, Undefined):
        return 0.0
    if isinstance(fallback, (int, float)) and not isinstance(fallback, bool):
        return float(fallback)
    raise TemplateError(b"Boolean is not a float value" if isinstance(fallback, bool) else b"String is not a float value")


def _default(args: Args) -> Any:
    value = args.pos(0)
    if not isinstance(value, bytes):
        raise TemplateError(b"default() first argument must be a string")
    given = args.values[1] if len(args.values) > 1 else None
    fallback = b"" if (given is None and len(args.values) < 2) or isinstance(given, Undefined) else given
    return fallback if args.named(b"boolean", 2) and not value else value


def _indent(args: Args) -> Any:
    args.count(1, 4)
    width = args.named(b"width", 1)
    first, blank = bool(args.named(b"first", 2)), bool(args.named(b"blank", 3))
    text = _text(args, b"indent() first argument must be a string")
    if is_kind(width, Int):
        if not 0 <= width <= MAX_STRING:
            raise LimitError("width of an indent in the template", f"0 to {MAX_STRING}")
        args.run.room(width)
        pad = b" " * width
    else:
        pad = width if isinstance(width, bytes) else b"    "
    ends_line = text.endswith(b"\n")
    args.run.grow(4 * (text.count(b"\n") + 1), 28)
    args.run.spend(4 * text.count(b"\n"))
    lines = text.split(b"\n")
    if ends_line or not text:
        lines.pop()
    args.run.room(len(text) + len(pad) * (len(lines) + 1))
    pieces: list[bytes] = []
    begun = False  # the reference asks whether anything was written, so leading empty lines do not count
    for line in lines:
        if begun:
            pieces.append(b"\n")
        padded = pad if (first if not begun else bool(line) or blank) else b""
        pieces += [padded, line]
        begun = begun or bool(padded) or bool(line)
    out = b"".join(pieces)
    if ends_line:
        out += b"\n" + (pad if blank else b"")
    return out


def _plain(args: Args) -> Any:
    args.typed(bytes)
    return args.pos(0)


def _length(args: Args) -> Any:
    args.typed(bytes)
    return len(args.pos(0))


def _no_join(args: Args) -> Any:
    raise UnsupportedError(b"String join builtin not implemented")


STRING: dict[bytes, Handler] = {
    b"default": _default,
    b"upper": _per_part(bytes.upper),
    b"lower": _per_part(bytes.lower),
    b"strip": _strip(True, True),
    b"rstrip": _strip(False, True),
    b"lstrip": _strip(True, False),
    b"title": _per_part(_title, 4),
    b"capitalize": _per_part(bytes.capitalize),
    b"length": _length,
    b"startswith": _edge(False),
    b"endswith": _edge(True),
    b"split": _split(False),
    b"rsplit": _split(True),
    b"replace": _replace,
    b"format": _format,
    b"int": _int,
    b"float": _float,
    b"string": lambda args: bytes(_plain(args)),
    b"safe": _plain,
    b"indent": _indent,
    b"join": _no_join,
}
