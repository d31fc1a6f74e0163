# SPDX-License-Identifier: MIT OR Apache-2.0
"""The values of a template and how the reference tests, prints, compares and converts them.

A string is ``bytes``, an array a ``list`` or ``tuple``, an object an :class:`Obj`, none is ``None``; numbers are
``bool``, ``int`` (64 bits) and ``float``. What only exists inside the engine is :class:`Undefined`, :class:`Func`
and :class:`Kwarg`.

Source: common/jinja/value.h, value.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bankml.core.jinja.errors import TemplateError

if TYPE_CHECKING:
    from bankml.core.jinja.run import Run

INT64_MIN = -(1 << 63)


class Undefined:
    """The value of a name or key that is not there; ``hint`` names it in errors."""

    __slots__ = ("hint",)

    def __init__(self, hint: bytes = b"") -> None:
        self.hint = hint

    def __bool__(self) -> bool:
        return False


class Obj(dict[Any, Any]):
    """An object with the built-in members (get, items, keys, ...)."""

    __slots__ = ()


class Loop(dict[Any, Any]):
    """The ``loop`` variable: an object without built-in members."""

    __slots__ = ()


class Pair(tuple[Any, ...]):
    """A tuple that knows its size and depth with everything in it, so that hashing it stays cheap."""

    size: int
    depth: int

    @classmethod
    def of(cls, items: Any) -> Pair:
        """A tuple of the items; Raises: TemplateError when it is absurdly large or deep."""
        pair = cls(items)
        pair.size, pair.depth = 1, 1
        for item in pair:
            if type(item) is Pair:
                pair.size += item.size
                pair.depth = max(pair.depth, item.depth + 1)
            else:
                pair.size += 1
        if pair.depth > 64 or pair.size > 4096:
            raise TemplateError(b"tuple too large")
        return pair


def pairs_of(value: dict[Any, Any], run: Run) -> list[Pair]:
    """The items of an object as tuples, paid for."""
    run.spend(5 * len(value))
    run.hold(320 * len(value))
    return [Pair.of(pair) for pair in value.items()]


class Func:
    """A function, perhaps bound to the value it is a member of."""

    __slots__ = ("handler", "name", "this")

    def __init__(self, name: bytes, handler: Handler, *this: Any) -> None:
        self.name = name
        self.handler = handler
        self.this = this

    def __bool__(self) -> bool:
        raise TemplateError(b"Function is not a bool value")

    def invoke(self, run: Run, scope: dict[bytes, Any], args: list[Any]) -> Any:
        """The function's value for these arguments, called from this scope."""
        return self.handler(Args(self.name, run, scope, [*self.this, *args]))


class Kwarg:
    """A keyword argument in a list of arguments."""

    __slots__ = ("key", "value")

    def __init__(self, key: bytes, value: Any) -> None:
        self.key = key
        self.value = value

    def __bool__(self) -> bool:
        raise TemplateError(b"KwArg is not a bool value")


class Args:
    """The arguments of one call, with the checks that the reference's functions make."""

    __slots__ = ("name", "run", "scope", "values")

    def __init__(self, name: bytes, run: Run, scope: dict[bytes, Any], values: list[Any]) -> None:
        self.name = name
        self.run = run
        self.scope = scope
        self.values = values

    def count(self, low: int, high: int = 999) -> None:
        """Raises: TemplateError unless there are ``low`` to ``high`` arguments."""
        n = len(self.values)
        if n < low or n > high:
            text = b"Function '%b' expected between %d and %d arguments, got %d"
            raise TemplateError(text % (self.name, low, high, n))

    def typed(self, *kinds: type, required: int | None = None) -> None:
        """Raises: TemplateError unless the first ``required`` arguments are there and of these kinds."""
        required = len(kinds) if required is None else required
        self.count(required)
        for value, kind in zip(self.values[:required], kinds, strict=False):
            if not is_kind(value, kind):
                text = b"Function '%b' expected value of type %b, got %b"
                raise TemplateError(text % (self.name, _MANGLED[kind], type_name(value)))

    def pos(self, index: int) -> Any:
        """The argument at an index. Raises: TemplateError when there are fewer."""
        if index < len(self.values):
            return self.values[index]
        text = b"Function '%b' expected at least %d arguments, got %d"
        raise TemplateError(text % (self.name, index + 1, len(self.values)))

    def kwarg(self, key: bytes) -> Any:
        """The keyword argument, or None when it was not given (and never a template's none, which is wrapped)."""
        for value in self.values:
            if type(value) is Kwarg and value.key == key:
                return value
        return None

    def named(self, key: bytes, index: int) -> Any:
        """The keyword argument, else the one at an index, else undefined."""
        found = self.kwarg(key)
        value = found.value if found is not None else UNDEFINED
        if type(value) is Undefined and index < len(self.values) and type(self.values[index]) is not Kwarg:
            return self.values[index]
        return value


Handler = Callable[[Args], Any]
UNDEFINED = Undefined()
Int = type("Int", (), {})  # an integer that is not a boolean

# How the reference's build spells its types in a message (gcc's type_info names).
_MANGLED: dict[type, bytes] = {
    bytes: b"St10shared_ptrIN5jinja14value_string_tEE",
    Int: b"St10shared_ptrIN5jinja11value_int_tEE",
    float: b"St10shared_ptrIN5jinja13value_float_tEE",
    bool: b"St10shared_ptrIN5jinja12value_bool_tEE",
    list: b"St10shared_ptrIN5jinja13value_array_tEE",
    dict: b"St10shared_ptrIN5jinja14value_object_tEE",
}


def is_kind(value: Any, kind: type) -> bool:
    """Whether a value is of the reference's type; a tuple is an array, a boolean is no integer."""
    if kind is Int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind is list:
        return isinstance(value, (list, tuple))
    return isinstance(value, kind)


def type_name(value: Any) -> bytes:
    """The reference's name of a value's type."""
    if isinstance(value, bytes):
        return b"String"
    if isinstance(value, bool):
        return b"Boolean"
    if isinstance(value, int):
        return b"Integer"
    if isinstance(value, float):
        return b"Float"
    if isinstance(value, tuple):
        return b"Tuple"
    if isinstance(value, list):
        return b"Array"
    if isinstance(value, dict):
        return b"Object"
    if value is None:
        return b"None"
    if isinstance(value, Undefined):
        return b"Undefined (hint: '%b')" % value.hint if value.hint else b"Undefined"
    return b"KwArg" if isinstance(value, Kwarg) else b"Function"


def to_int64(value: float) -> int:
    """A double as the x86 conversion gives it: toward zero, out of range is the smallest integer."""
    return int(value) if -9223372036854775808.0 <= value < 9223372036854775808.0 else INT64_MIN


def to_double(value: float) -> float:
    """A number as a double; an integer that a double cannot hold is infinite."""
    if type(value) is float:
        return value
    result = float(value)
    return result if result == value else math.copysign(math.inf, value)


def float_text(value: float) -> bytes:
    """Six decimals without trailing zeros, at least one kept."""
    if math.isnan(value):
        return b"-nan" if math.copysign(1.0, value) < 0 else b"nan"
    if math.isinf(value):
        return b"inf" if value > 0 else b"-inf"
    text = b"%f" % value
    text = text.rstrip(b"0")
    return text + b"0" if text.endswith(b".") else text


def as_int(value: Any) -> int:
    """Raises: TemplateError unless the value is a number."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return to_int64(value) if math.isfinite(value) else 0
    raise TemplateError(type_name(value) + b" is not an int value")


def as_text(value: Any, run: Run) -> bytes:
    """A value as a string. Raises: TemplateError for undefined values, functions and keyword arguments."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        return b"True" if value else b"False"
    if isinstance(value, int):
        return b"%d" % value
    if isinstance(value, float):
        if not -1e15 < value < 1e15:
            run.spend(32)
        return float_text(value)
    if value is None:
        return b"None"
    if isinstance(value, (list, tuple, dict)):
        run.spend(2 + 5 * len(value))
        run.enter(3)
        if isinstance(value, dict):
            parts = [_repr(k, run) + b": " + _repr(v, run) for k, v in value.items()]
        else:
            parts = [_repr(item, run) for item in value]
        run.depth += 3
        if isinstance(value, dict):
            return _enclosed(parts, b"{", b"}", run)
        if isinstance(value, list):
            return _enclosed(parts, b"[", b"]", run)
        return _enclosed(parts, b"(", b",)" if len(value) == 1 else b")", run)
    raise TemplateError(type_name(value) + b" is not a string value")


def _enclosed(parts: list[bytes], opener: bytes, closer: bytes, run: Run) -> bytes:
    run.room(sum(map(len, parts)) + 2 * len(parts))
    return opener + b", ".join(parts) + closer


def _repr(value: Any, run: Run) -> bytes:
    if isinstance(value, bytes):
        run.room(len(value))
        return to_json(value, run) if b"'" in value else b"'" + value + b"'"
    if isinstance(value, Undefined):
        return type_name(value)
    if isinstance(value, Func):
        inner = _repr(value.this[0], run) if value.this else b""
        return b"Function<" + value.name + b">(" + inner + b")"
    return as_text(value, run)


def hashable(value: Any, run: Run) -> bool:
    """Whether the reference lets the value be compared as part of an array, or looked up."""
    if isinstance(value, (Undefined, Func)):
        return False
    if isinstance(value, (list, tuple, dict)):
        run.spend(1 + 3 * len(value))
        items = value.values() if isinstance(value, dict) else value
        # No deeper than a Pair may be: what is not immutable ends it.
        return all(immutable(item) and hashable(item, run) for item in items)
    return True


def immutable(value: Any) -> bool:
    """Everything but arrays and objects."""
    return not isinstance(value, (list, dict))


def check_key(key: Any, run: Run) -> None:
    """Raises: TemplateError unless the value can be a key of an object."""
    if not immutable(key) or not hashable(key, run):
        raise TemplateError(b"Object key of unhashable type: " + type_name(key))


def equal(a: Any, b: Any, run: Run) -> bool:
    """``==`` of the reference: arrays that hold arrays, objects or undefined values equal nothing."""
    if isinstance(a, bytes):
        if not isinstance(b, bytes) or len(a) != len(b):
            return False
        run.read(len(a))
        return bytes.__eq__(a, b)
    if isinstance(a, (int, float)):
        return isinstance(b, (int, float)) and a == b
    if a is None:
        return b is None
    if isinstance(a, Undefined):
        return isinstance(b, Undefined)
    if type_name(a) != type_name(b):
        return False
    if isinstance(a, (list, tuple, dict)):
        if len(a) != len(b) or not hashable(a, run) or not hashable(b, run):
            return False
        if not isinstance(a, dict):
            return all(equal(x, y, run) for x, y in zip(a, b, strict=True))
        return all(equal(x, y, run) and equal(a[x], b[y], run) for x, y in zip(a, b, strict=True))
    return isinstance(a, Func)


def compare(a: Any, b: Any, op: str, run: Run) -> bool:
    """Order as the sort filter and the comparison tests use it; a number against a string compares as text.

    Raises: TemplateError for the order of two booleans.
    """
    x: Any
    y: Any
    if is_number(a) and is_number(b):
        x, y = to_double(a), to_double(b)
    elif (isinstance(a, bytes) and (isinstance(b, bytes) or is_number(b))) or (isinstance(b, bytes) and is_number(a)):
        x, y = as_text(a, run), as_text(b, run)
        run.read(min(len(x), len(y)))
    elif isinstance(a, bool) and isinstance(b, bool):
        if op not in ("eq", "ne"):
            raise TemplateError(b"Unsupported comparison operator for bool type")
        x, y = a, b
    else:
        return False
    return bool(COMPARISONS[op](x, y))


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda x, y: x == y,
    "ge": lambda x, y: x >= y,
    "gt": lambda x, y: x > y,
    "lt": lambda x, y: x < y,
    "ne": lambda x, y: x != y,
}


def is_number(value: Any) -> bool:
    """An integer or a float, not a boolean."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_ESCAPES: dict[int, bytes] = {i: b"\\u%04x" % i for i in range(0x20)} | {
    ord('"'): b'\\"',
    ord("\\"): b"\\\\",
    8: b"\\b",
    9: b"\\t",
    10: b"\\n",
    12: b"\\f",
    13: b"\\r",
}
_ESCAPED = bytes(_ESCAPES)


def json_string(value: bytes, run: Run) -> bytes:
    """A JSON string; bytes above 0x7f stay as they are."""
    if any(c in value for c in _ESCAPED):
        run.spend(len(value))
        value = b"".join([_ESCAPES[c] if c in _ESCAPES else bytes((c,)) for c in value])
    return b'"' + value + b'"'


def to_json(
    value: Any,
    run: Run,
    indent: int = -1,
    item_separator: bytes = b", ",
    key_separator: bytes = b": ",
    level: int = 0,
) -> bytes:
    """A value as JSON, keys in their order; functions and undefined values are null. Source: value_to_json_internal."""
    run.spend(5)
    if isinstance(value, bytes):
        run.room(len(value))
        run.spend(len(value) >> 6)
        return json_string(value, run)
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, int):
        return b"%d" % value
    if isinstance(value, float):
        return general_text(value)
    if not isinstance(value, (list, tuple, dict)):
        return b"null"
    is_dict = isinstance(value, dict)
    opener, closer = (b"{", b"}") if is_dict else (b"[", b"]")
    if not value:
        return opener + closer
    newline = b"\n" if indent >= 0 else b""
    pad = b" " * (level * indent) if indent > 0 else b""
    inner = pad + (b" " * indent if indent > 0 else b"")
    parts = []
    run.enter(1)
    for item in value:
        text = to_json(value[item] if is_dict else item, run, indent, item_separator, key_separator, level + 1)
        parts.append(inner + (json_string(as_text(item, run), run) + key_separator if is_dict else b"") + text)
        run.room(len(parts[-1]))
    run.depth += 1
    between = item_separator + newline
    run.room(sum(map(len, parts)) + len(between) * len(parts))
    return opener + newline + between.join(parts) + newline + pad + closer


def general_text(value: float) -> bytes:
    """A double as a C++ stream prints it: six significant digits."""
    if math.isnan(value):
        return b"-nan" if math.copysign(1.0, value) < 0 else b"nan"
    return b"%g" % value


def from_python(value: Any) -> Any:
    """A value of Python's json as the template sees it; keys and strings become UTF-8.

    Raises: UnicodeEncodeError for a lone surrogate.
    """
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict):
        return Obj((key.encode(), from_python(item)) for key, item in value.items())
    if isinstance(value, list):
        return [from_python(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return value if INT64_MIN <= value < -INT64_MIN else _wide(value)
    return value


def _wide(value: int) -> int | float:
    """An integer beyond 64 bits: unsigned ones wrap, larger ones were doubles to the JSON reader."""
    return value - (1 << 64) if 0 < value < 1 << 64 else float(value)
