# SPDX-License-Identifier: MIT OR Apache-2.0
"""The built-in members of arrays, objects, numbers, none and undefined: filters and methods are the same thing here.

Source: the get_builtins methods, common/jinja/value.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bankml.core.jinja.errors import LimitError, TemplateError, UnsupportedError
from bankml.core.jinja.functions import TESTS, tojson
from bankml.core.jinja.run import Run
from bankml.core.jinja.strings import STRING
from bankml.core.jinja.trace import mark_deep
from bankml.core.jinja.values import (
    UNDEFINED,
    Args,
    Func,
    Handler,
    Int,
    Kwarg,
    Loop,
    Obj,
    Pair,
    Undefined,
    as_int,
    as_text,
    check_key,
    compare,
    is_kind,
    is_number,
    pairs_of,
    to_int64,
    type_name,
)
from bankml.core.std_sort import Less, NoOrderError, std_sort


def default(args: Args) -> Any:
    """The argument in place of undefined or none (or, with ``boolean``, of anything false)."""
    args.count(2, 3)
    check, value = args.named(b"boolean", 2), args.pos(0)
    missing = not value if check else (value is None or isinstance(value, Undefined))
    return args.pos(1) if missing else value


def _typed(kind: type, function: Callable[[Any], Any]) -> Handler:
    def handler(args: Args) -> Any:
        args.typed(kind)
        return function(args.pos(0))

    return handler


def _copy(kind: type, function: Callable[[Any], Any]) -> Handler:
    """A member that makes a list as long as the value."""

    def handler(args: Args) -> Any:
        args.typed(kind)
        args.run.grow(len(args.pos(0)))
        return function(args.pos(0))

    return handler


def _constant(make: Callable[[], Any]) -> Handler:
    return lambda args: make()


def _missing(message: bytes) -> Handler:
    def handler(args: Args) -> Any:
        raise UnsupportedError(message)

    return handler


def _same_shape(value: Any, items: list[Any]) -> Any:
    return Pair.of(items) if isinstance(value, tuple) else items


def _array(args: Args, message: bytes) -> Any:
    value = args.pos(0)
    if not isinstance(value, (list, tuple)):
        raise TemplateError(message)
    args.run.spend(4 * len(value))
    args.run.grow(len(value))
    return value


def _attribute(item: Any, key: Any, run: Run) -> Any:
    """An object's value for a key, an array's for an index. Raises: TemplateError when it is not there."""
    if isinstance(item, dict):
        check_key(key, run)
        if key not in item:
            raise TemplateError(b"Key '%b' not found in value of type Object" % as_text(key, run))
        return item[key]
    index = key + len(item) if key < 0 else key
    if not 0 <= index < len(item):
        raise TemplateError(b"Index %d out of bounds for array of size %d" % (index, len(item)))
    return item[index]


def slice_items(value: Any, start: int, stop: int, step: int) -> Any:
    """Python's slice; the caller has given every bound. Source: slice, common/jinja/value.cpp."""
    size = len(value)
    if step > 0:
        first = max(size + start, 0) if start < 0 else min(start, size)
        last = max(size + stop, 0) if stop < 0 else min(stop, size)
        return value[first:last:step]
    first = max(size + start, 0) if start < 0 else min(start, size - 1)
    last = max(size + stop, -1) if stop < -1 else min(stop, size - 1)
    return value[first : (None if last < 0 else last) : step] if first > last else value[:0]


def slice_(args: Args) -> Any:
    """``value[start:stop:step]`` of a string or an array."""
    args.count(1, 4)
    value = args.pos(0)
    args.typed(bytes if isinstance(value, bytes) else list, Int, required=2)
    bounds = [as_int(args.pos(i)) if i < len(args.values) else None for i in (1, 2, 3)]
    if len(args.values) == 2:
        # one bound was meant as the start, and the missing stop is what fails
        bounds[1] = as_int(UNDEFINED)
    start, stop = bounds[0], bounds[1]
    step = bounds[2] if len(args.values) > 3 else as_int(UNDEFINED)
    assert start is not None and stop is not None and step is not None
    if step == 0:
        raise TemplateError(b"slice step cannot be zero")
    cut = slice_items(value, start, stop, step)
    if isinstance(value, bytes):
        args.run.room(len(cut))
    else:
        args.run.grow(2 * len(cut))
    return Pair.of(cut) if isinstance(value, tuple) else bytes(cut) if isinstance(value, bytes) else list(cut)


def _select(reject: bool) -> Handler:
    def handler(args: Args) -> Any:
        args.count(2, 4)
        args.typed(list, bytes, required=2)
        array, count = args.pos(0), len(args.values)
        args.run.spend(4 * len(array))
        args.run.grow(len(array))
        if count == 2:
            tests = [_object_value(item, args.pos(1)) for item in array]
            return [item for item, value in zip(array, tests, strict=True) if bool(value) != reject]
        name = as_text(args.pos(count - 2), args.run)
        test = TESTS.get(name)
        if test is None:
            raise TemplateError(b"selectattr: unknown test '%b'" % name)
        out = []
        for item in array:
            subject = _object_value(item, args.pos(1)) if count == 4 else item
            if bool(test(Args(b"", args.run, args.scope, [subject, args.pos(count - 1)]))) != reject:
                out.append(item)
        return out

    return handler


def _object_value(item: Any, key: bytes) -> Any:
    if not isinstance(item, dict):
        raise TemplateError(b"selectattr: item is not an object")
    return item.get(key, UNDEFINED)


def _join(args: Args) -> Any:
    args.count(1, 3)
    array = _array(args, b"join() first argument must be an array")
    delimiter, attribute = args.named(b"d", 1), args.named(b"attribute", 2)
    by_index, by_key = is_kind(attribute, Int), isinstance(attribute, bytes)
    if not (isinstance(attribute, Undefined) or by_key or by_index):
        raise TemplateError(b"join() attribute must be string or integer")
    between = b"" if isinstance(delimiter, Undefined) else as_text(delimiter, args.run)
    parts = []
    for element in array:
        item = element
        if (by_index and isinstance(item, (list, tuple))) or (by_key and isinstance(item, dict)):
            item = _attribute(item, attribute, args.run)
        if not isinstance(item, bytes) and not is_number(item):
            raise TemplateError(b"join() can only join arrays of strings or numerics")
        parts.append(as_text(item, args.run))
    args.run.room(sum(map(len, parts)) + len(between) * len(parts))
    return between.join(parts)


def _map(args: Args) -> Any:
    args.count(2)
    array = _array(args, b"map: first argument must be an array")
    if type(args.values[1]) is not Kwarg:
        raise UnsupportedError(b"map: filter-mapping not implemented")
    attribute = args.named(b"attribute", 1)
    by_index = is_kind(attribute, Int)
    if not by_index and not isinstance(attribute, bytes):
        raise TemplateError(b"map: attribute must be string or integer")
    given = args.kwarg(b"default")
    missing = UNDEFINED if given is None else given.value
    out = []
    for item in array:
        found = missing
        if by_index and isinstance(item, (list, tuple)):
            found = item[attribute] if -len(item) <= attribute < len(item) else missing
        elif not by_index and isinstance(item, dict):
            found = item.get(attribute, missing)
        out.append(found)
    return _same_shape(array, out)


def _editable(args: Args) -> list[Any]:
    if isinstance(args.pos(0), tuple):
        raise TemplateError(b"Attempting to modify immutable type")
    array: list[Any] = args.pos(0)
    return array


def _append(args: Args) -> Any:
    args.count(2)
    if not isinstance(args.pos(0), (list, tuple)):
        raise TemplateError(b"append: first argument must be an array")
    array = _editable(args)
    args.run.hold(64)
    array.append(args.pos(1))
    return array


def _pop(args: Args) -> Any:
    args.count(1, 2)
    args.typed(list, required=1)
    index = as_int(args.pos(1)) if len(args.values) == 2 else -1
    array = _editable(args)
    place = index + len(array) if index < 0 else index
    if not 0 <= place < len(array):
        raise TemplateError(b"Index %d out of bounds for array of size %d" % (place, len(array)))
    args.run.spend(len(array) >> 10)
    return array.pop(place)


def _sort(args: Args) -> Any:
    args.count(1, 4)
    array = _array(args, b"sort: first argument must be an array")
    reverse, attribute = bool(args.named(b"reverse", 1)), args.named(b"attribute", 3)
    by_index = is_kind(attribute, Int)

    def keys(a: Any, b: Any) -> tuple[Any, Any]:
        if isinstance(attribute, Undefined):
            return a, b
        arrays = isinstance(a, (list, tuple)) and isinstance(b, (list, tuple))
        objects = isinstance(a, dict) and isinstance(b, dict)
        if not (arrays if by_index else objects):
            text = b"sort: unsupported object attribute comparison between %b and %b"
            raise TemplateError(text % (type_name(a), type_name(b)))
        return _attribute(a, attribute, args.run), _attribute(b, attribute, args.run)

    items = list(array)
    _order(items, _before(args, keys, reverse))
    return _same_shape(array, items)


def _order(items: list[Any], before: Less) -> None:
    """Sort in place. Raises: LimitError where the reference would read beyond the list."""
    try:
        std_sort(items, before)
    except NoOrderError:
        raise LimitError("order of a sort in the template", "one that does not contradict itself") from None


def _before(args: Args, keys: Callable[[Any, Any], tuple[Any, Any]], reverse: bool) -> Less:
    op = "gt" if reverse else "lt"

    def before(a: Any, b: Any) -> bool:
        args.run.spend(6)
        x, y = keys(a, b)
        return compare(x, y, op, args.run)

    return before


def _extreme(op: str, name: bytes) -> Handler:
    def handler(args: Args) -> Any:
        args.count(1, 4)
        args.typed(list)
        if not isinstance(args.named(b"attribute", 2), Undefined):
            raise UnsupportedError(name + b": attribute not implemented")
        array = args.pos(0)
        args.run.spend(6 * len(array))
        result = array[0] if array else UNDEFINED
        for item in array[1:]:
            if compare(item, result, op, args.run):
                result = item
        return result

    return handler


def _to_text(kind: type) -> Handler:
    def handler(args: Args) -> Any:
        args.typed(kind)
        if args.run.trace:
            mark_deep(args.pos(0))
        return as_text(args.pos(0), args.run)

    return handler


def _get(args: Args) -> Any:
    args.count(2, 3)
    if not isinstance(args.pos(0), dict):
        raise TemplateError(b"get: first argument must be an object")
    if not isinstance(args.pos(1), bytes):
        raise TemplateError(b"get: second argument must be a string (key)")
    return args.pos(0).get(args.pos(1), args.pos(2) if len(args.values) == 3 else None)


def _items(args: Args) -> Any:
    args.typed(dict)
    return pairs_of(args.pos(0), args.run)


def _dictsort(args: Args) -> Any:
    value, by = args.pos(0), args.named(b"by", 2)
    reverse = bool(args.named(b"reverse", 3))
    column = 1 if by == b"value" else 0
    args.run.grow(len(value), 120)
    pairs = list(value.items())
    _order(pairs, _before(args, lambda a, b: (a[column], b[column]), reverse))
    return Obj(pairs)


_TO_JSON = {b"tojson": tojson}
_EMPTY_LISTS = (b"items", b"map", b"reject", b"rejectattr", b"select", b"selectattr", b"unique")

_INT: dict[bytes, Handler] = {
    b"default": default,
    b"abs": _typed(Int, abs),
    b"int": _typed(Int, int),
    b"float": _typed(Int, float),
    b"safe": tojson,
    b"string": tojson,
    **_TO_JSON,
}
_FLOAT: dict[bytes, Handler] = {
    b"default": default,
    b"abs": _typed(float, lambda v: -v if v < 0.0 else v),
    b"int": _typed(float, to_int64),
    b"float": _typed(float, float),
    b"safe": tojson,
    b"string": tojson,
    **_TO_JSON,
}
_BOOL: dict[bytes, Handler] = {
    b"default": default,
    b"int": _typed(bool, int),
    b"float": _typed(bool, float),
    b"safe": _typed(bool, lambda v: b"True" if v else b"False"),
    b"string": _typed(bool, lambda v: b"True" if v else b"False"),
    **_TO_JSON,
}
_ARRAY: dict[bytes, Handler] = {
    b"default": default,
    b"list": _copy(list, list),
    b"first": _typed(list, lambda v: v[0] if v else UNDEFINED),
    b"last": _typed(list, lambda v: v[-1] if v else UNDEFINED),
    b"length": _typed(list, len),
    b"slice": slice_,
    b"selectattr": _select(False),
    b"select": _select(False),
    b"rejectattr": _select(True),
    b"reject": _select(True),
    b"join": _join,
    b"string": _to_text(list),
    b"map": _map,
    b"append": _append,
    b"pop": _pop,
    b"sort": _sort,
    b"reverse": _copy(list, lambda v: _same_shape(v, list(v[::-1]))),
    b"min": _extreme("lt", b"min"),
    b"max": _extreme("gt", b"max"),
    b"unique": _missing(b"Array unique builtin not implemented"),
    **_TO_JSON,
}
_OBJECT: dict[bytes, Handler] = {
    b"get": _get,
    b"keys": _copy(dict, list),
    b"values": _copy(dict, lambda v: list(v.values())),
    b"items": _items,
    b"string": _to_text(dict),
    b"length": _typed(dict, len),
    b"dictsort": _dictsort,
    b"join": _missing(b"object join not implemented"),
    **_TO_JSON,
}
_NONE: dict[bytes, Handler] = {
    b"default": default,
    b"string": _constant(lambda: b"None"),
    b"safe": _constant(lambda: b"None"),
    **dict.fromkeys(_EMPTY_LISTS, _constant(list)),
    **_TO_JSON,
}
_UNDEFINED: dict[bytes, Handler] = {
    b"default": default,
    **dict.fromkeys((*_EMPTY_LISTS, b"list", b"reverse", b"sort"), _constant(list)),
    **dict.fromkeys((b"first", b"last", b"max", b"min"), _constant(Undefined)),
    **dict.fromkeys((b"length", b"sum", b"wordcount"), _constant(int)),
    **dict.fromkeys(
        (b"capitalize", b"join", b"lower", b"replace", b"safe", b"string", b"strip", b"title", b"truncate", b"upper"),
        _constant(bytes),
    ),
}
_NOTHING: dict[bytes, Handler] = {}
_STRING: dict[bytes, Handler] = {**STRING, b"slice": slice_, **_TO_JSON}


def members(value: Any) -> dict[bytes, Handler]:
    """The built-in members of a value. Raises: TemplateError for a function, which has none."""
    if isinstance(value, bytes):
        return _STRING
    if isinstance(value, dict):
        return _NOTHING if type(value) is Loop else _OBJECT
    if isinstance(value, (list, tuple)):
        return _ARRAY
    if value is None:
        return _NONE
    if isinstance(value, Undefined):
        return _UNDEFINED
    if isinstance(value, bool):
        return _BOOL
    if isinstance(value, int):
        return _INT
    if isinstance(value, float):
        return _FLOAT
    raise TemplateError(type_name(value) + b" has no builtins")


def bound(name: bytes, value: Any) -> Func | None:
    """The member of a value as a function, or None."""
    handler = members(value).get(name)
    return None if handler is None else Func(name, handler, value)


def filter_of(name: bytes, value: Any) -> Handler:
    """The member of a value that a filter names. Raises: TemplateError when it has none of that name."""
    handler = members(value).get(name)
    if handler is None:
        raise TemplateError(b"Unknown (built-in) filter '%b' for type %b" % (name, type_name(value)))
    return handler
