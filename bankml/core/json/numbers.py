# SPDX-License-Identifier: MIT OR Apache-2.0
"""JSON values as the numbers that b11192 makes of them, refused in its words where it refuses.

Source: nlohmann::json's from_json and get, as tools/server/server-schema.cpp uses them; conversions as x86-64 makes them.
"""

from __future__ import annotations

import math
import struct
from typing import Any, TypeVar

from bankml.refusal import Refusal

Number = TypeVar("Number", int, float)


def f32(x: float) -> float:
    """x rounded to single precision, as a Python float; what is past its range becomes infinite."""
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)
    return rounded


INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
FLOAT_MAX = f32(3.4028234663852886e38)


def bad_field(name: str, message: str, found: Any = None) -> Refusal:
    """llama-server's refusal of one field: status 400."""
    return Refusal(
        "sampling.field",
        f"Field '{name}': {message}",
        where=f"/{name}",
        found=None if found is None else repr(found)[:80],
    )


def type_error(name: str, wanted: str, value: Any) -> Refusal:
    """A value of the wrong JSON type."""
    return bad_field(name, f"[json.exception.type_error.302] type must be {wanted}, but is {json_type(value)}", value)


def json_type(value: Any) -> str:
    """The name of a value's JSON type in nlohmann's words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list | tuple) else "object"


def _number(name: str, value: Any) -> int | float:
    if not isinstance(value, bool | int | float):
        raise type_error(name, "number", value)
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return float(value)
    return value


def _signed(x: int, bits: int) -> int:
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


def to_int32(name: str, value: Any) -> int:
    """A number cut to 32 bits; a fraction is dropped, and what no int32 holds is the lowest one where it was a fraction."""
    x = _number(name, value)
    if isinstance(x, float):
        whole = math.isfinite(x) and -(2.0**31) - 1 < x < 2.0**31
        return int(x) if whole else -(2**31)
    return _signed(int(x), 32)


def to_uint32(name: str, value: Any) -> int:
    """A number's low 32 bits, as a seed is taken."""
    x = _number(name, value)
    if isinstance(x, float):
        return int(x) & 0xFFFFFFFF if math.isfinite(x) and abs(x) < 2.0**63 else 0
    return int(x) & 0xFFFFFFFF


def to_int64(name: str, value: Any) -> int:
    """A 64-bit integer; true and false are no numbers here."""
    if isinstance(value, bool):
        raise type_error(name, "number", value)
    x = _number(name, value)
    if isinstance(x, float):
        return int(x) if math.isfinite(x) and abs(x) < 2.0**63 else -(2**63)
    return _signed(int(x), 64)


def to_float(name: str, value: Any) -> float:
    """A number rounded to single precision."""
    return f32(_number(name, value))


def to_bool(name: str, value: Any) -> bool:
    """True or false, nothing else."""
    if not isinstance(value, bool):
        raise type_error(name, "boolean", value)
    return value


def clamp(x: Number, low: Number, high: Number) -> Number:
    """x within [low, high], as std::max(low, std::min(high, x)) has it."""
    least = x if x < high else high
    return least if low < least else low


def in_limits(name: str, x: Number, low: Number, high: Number) -> Number:
    """x, where it lies within [low, high].

    Raises:
        Refusal: it does not.
    """
    if x < low or x > high:
        shown = [f"{each:f}" if isinstance(each, float) else str(each) for each in (low, high, x)]
        raise bad_field(name, f"Value must be between {shown[0]} <= value <= {shown[1]}, but got {shown[2]}", x)
    return x
