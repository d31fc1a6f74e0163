# SPDX-License-Identifier: MIT OR Apache-2.0
"""Binary operators and the look-up of members.

Source: binary_expression and member_expression, common/jinja/runtime.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from bankml.core.jinja.errors import TemplateError
from bankml.core.jinja.filters import bound
from bankml.core.jinja.functions import contains
from bankml.core.jinja.run import Run
from bankml.core.jinja.strings import joined
from bankml.core.jinja.trace import mark
from bankml.core.jinja.values import (
    Args,
    Int,
    Undefined,
    as_text,
    check_key,
    equal,
    hashable,
    is_kind,
    is_number,
    to_double,
    to_int64,
    type_name,
)

_MEMBERSHIP = (b"in", b"not in")
_CONCAT = (b"+", b"~")
_NO_PROPERTY = b"object_property"


def concat(a: bytes, b: bytes, run: Run) -> bytes:
    """Two strings as one."""
    run.room(len(a) + len(b))
    return joined([a, b], run) if run.pieces else a + b


def binary(op: bytes, a: Any, b: Any, run: Run) -> Any:
    """``a op b`` for every operator but ``and`` and ``or``. Raises: TemplateError where the reference does."""
    if op == b"==":
        return equal(a, b, run)
    if op == b"!=":
        return not equal(a, b, run)
    undefined = isinstance(a, Undefined) or isinstance(b, Undefined)
    if undefined or a is None or b is None:
        return _with_nothing(op, a, b, undefined, run)
    if is_number(a) and is_number(b):
        arithmetic = _NUMERIC.get(op)
        if arithmetic is not None:
            return arithmetic(a, b)
    if isinstance(b, (list, tuple)):
        if isinstance(a, (list, tuple)):
            if op == b"+":
                run.grow(len(a) + len(b))
                return [*a, *b]
        else:
            member = _contains(a, b, run)
            if op in _MEMBERSHIP:
                return member is (op == b"in")
    if op in _CONCAT and (isinstance(a, bytes) or isinstance(b, bytes)):
        return concat(as_text(a, run), as_text(b, run), run)
    if op == b"*" and ((isinstance(a, bytes) and is_kind(b, Int)) or (is_kind(a, Int) and isinstance(b, bytes))):
        text, times = (a, b) if isinstance(a, bytes) else (b, a)
        run.room(len(text) * max(times, 0))
        run.grow(max(times, 0) if run.pieces else max(times, 0) >> 6)
        return joined([text] * max(times, 0), run) if run.pieces else bytes(text) * max(times, 0)
    if (isinstance(a, bytes) and isinstance(b, bytes)) or isinstance(b, dict):
        member = _contains(a, b, run)
        if op in _MEMBERSHIP:
            return member is (op == b"in")
    raise TemplateError(b'Unknown operator "%b" between %b and %b' % (op, type_name(a), type_name(b)))


def _contains(a: Any, b: Any, run: Run) -> bool:
    return contains(a, b, Args(b"", run, {}, []))


def _with_nothing(op: bytes, a: Any, b: Any, undefined: bool, run: Run) -> Any:
    """Operators on undefined or none: a string takes them for empty, membership in undefined is false."""
    if undefined:
        if isinstance(b, Undefined) and op in _MEMBERSHIP:
            return op == b"not in"
        complaint = b"Cannot perform operation %b on undefined values" % op
    else:
        if b is not None and op in _MEMBERSHIP:
            return _contains(a, b, run) is (op == b"in")
        complaint = b"Cannot perform operation on null values"
    if op in _CONCAT:
        nothing_left = a is None or isinstance(a, Undefined)
        nothing_right = b is None or isinstance(b, Undefined)
        if nothing_left and isinstance(b, bytes):
            return b
        if nothing_right and isinstance(a, bytes):
            return a
    raise TemplateError(complaint)


def _number(a: Any, b: Any, value: float) -> float:
    """A result computed in doubles, as an integer again when both operands were."""
    return value if isinstance(a, float) or isinstance(b, float) else to_int64(value)


def _quotient(a: float, b: float) -> float:
    if b != 0.0:
        return a / b
    if a == 0.0 or math.isnan(a):
        return -math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _remainder(a: float, b: float) -> float:
    if b == 0.0 or math.isinf(a):
        return -math.nan
    return math.fmod(a, b)


_NUMERIC: dict[bytes, Callable[[Any, Any], Any]] = {
    b"+": lambda a, b: _number(a, b, to_double(a) + to_double(b)),
    b"-": lambda a, b: _number(a, b, to_double(a) - to_double(b)),
    b"*": lambda a, b: _number(a, b, to_double(a) * to_double(b)),
    b"/": lambda a, b: _quotient(to_double(a), to_double(b)),
    b"%": lambda a, b: _number(a, b, _remainder(to_double(a), to_double(b))),
    b"<": lambda a, b: to_double(a) < to_double(b),
    b">": lambda a, b: to_double(a) > to_double(b),
    b"<=": lambda a, b: to_double(a) <= to_double(b),
    b">=": lambda a, b: to_double(a) >= to_double(b),
}


def static_member(value: Any, name: bytes, run: Run) -> Any:
    """``value.name``: a built-in member wins over a key of an object."""
    if run.trace:
        mark(value, name)
    function = bound(name, value)
    return function if function is not None else member(value, name, run)


def member(value: Any, key: Any, run: Run) -> Any:
    """``value[key]``: a key of an object, an index of an array or string, else a built-in member, else undefined."""
    if isinstance(key, Undefined):
        return Undefined(_NO_PROPERTY)
    if not hashable(key, run):
        raise TemplateError(b"Type: " + type_name(key) + b" is not allowed as object key")
    if isinstance(value, Undefined):
        return Undefined(_NO_PROPERTY)
    found = _find(value, key, run)
    if run.trace:
        mark(found)
        if is_kind(key, Int):
            mark(value, b"array_access")
        elif isinstance(key, bytes):
            mark(value, b"object_access")
        else:
            mark(value)
    return found


def _find(value: Any, key: Any, run: Run) -> Any:
    if isinstance(value, dict):
        check_key(key, run)
        found = value.get(key, _ABSENT)
        if found is _ABSENT or isinstance(found, Undefined):
            return _builtin(value, as_text(key, run), run)
        return found
    if isinstance(value, (list, tuple, bytes)):
        if is_kind(key, Int):
            return _at_index(value, key)
        if isinstance(key, bytes):
            return _builtin(value, key, run)
        raise TemplateError(b"Cannot access property with non-string/non-number: got " + type_name(key))
    if not isinstance(key, bytes):
        raise TemplateError(b"Cannot access property with non-string: got " + type_name(key))
    return _builtin(value, key, run)


def _at_index(value: Any, index: int) -> Any:
    """An element; a string has no negative indices."""
    size = len(value)
    if isinstance(value, bytes):
        return value[index : index + 1] if 0 <= index < size else Undefined(_NO_PROPERTY)
    return value[index] if -size <= index < size else Undefined(_NO_PROPERTY)


def _builtin(value: Any, name: bytes, run: Run) -> Any:
    if run.trace:
        mark(value, name)
    function = bound(name, value)
    return function if function is not None else Undefined(name)


_ABSENT = object()
