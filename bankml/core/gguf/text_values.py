# SPDX-License-Identifier: MIT OR Apache-2.0
"""Metadata values as b11192 keeps them beside the typed ones: as text, from which some are read as numbers again.

Source: gguf_kv_to_str, src/llama-impl.cpp; common_init_sampler_from_model, common/common.cpp.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any, Final

INTEGER_BYTES: Final = 63
REAL_BYTES: Final = 127
"""Bytes of the text that are read for an integer and for a real."""

_SPACE: Final = r"[ \t\n\v\f\r]*"
_INTEGER: Final = re.compile(_SPACE + r"([+-]?[0-9]+)")
_REAL: Final = re.compile(
    _SPACE + r"([+-]?)(?:([0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?|(inf(?:inity)?|nan))", re.IGNORECASE
)
_HEX: Final = re.compile(
    _SPACE + r"([+-]?)0x(?:([0-9a-f]+)\.?([0-9a-f]*)|\.([0-9a-f]+))(?:p([+-]?[0-9]+))?",
    re.IGNORECASE,
)


def as_text(value: Any) -> str | None:
    """The scalar as text; None where there is none, as for an array."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        sign = "-" if math.isnan(value) and math.copysign(1.0, value) < 0 else ""
        return f"{sign}{value:f}"
    return str(value) if isinstance(value, int | str) else None


def read_integer(text: str | None) -> int | None:
    """The 32-bit integer that the text begins with, wrapped as C wraps a long; None where it begins with no digits."""
    found = _INTEGER.match(_cut(text, INTEGER_BYTES))
    if not found:
        return None
    low = max(-(2**63), min(2**63 - 1, int(found[1]))) & 0xFFFFFFFF
    return low - 2**32 if low >= 2**31 else low


def read_real(text: str | None) -> float | None:
    """The single-precision number that the text begins with; None where it begins with no number."""
    start = _cut(text, REAL_BYTES)
    found = _HEX.match(start)
    if found:
        digits, power = (found[2] or "") + (found[3] or found[4] or ""), int(found[5] or 0)
        return _nearest(found[1], int(digits, 16), 2, power - 4 * len(found[3] or found[4] or ""))
    found = _REAL.match(start)
    if not found:
        return None
    if found[4]:
        return float(found[1] + found[4])
    whole, _, part = found[2].partition(".")
    return _nearest(found[1], int(whole + part or "0"), 10, int(found[3] or 0) - len(part))


def _cut(text: str | None, size: int) -> str:
    return (text or "").encode("utf-8", "surrogateescape")[:size].decode("utf-8", "replace")


def _nearest(sign: str, digits: int, base: int, power: int) -> float:
    """digits * base^power in single precision, rounded once: over a double it would be rounded twice."""
    low, high = -400 - 40 * REAL_BYTES, 400
    if not digits or power < low:
        value = 0.0
    elif (power > high and base == 10) or power > 4 * high:
        value = math.inf
    else:
        value = _single(Fraction(digits) * Fraction(base) ** power)
    return -value if sign == "-" else value


def _single(exact: Fraction) -> float:
    """The nearest float32 of a positive number, ties to even; infinity past the largest."""
    scale = max(-149, exact.numerator.bit_length() - exact.denominator.bit_length() - 25)
    shifted = exact / Fraction(2) ** scale
    while shifted >= 1 << 24:
        scale += 1
        shifted /= 2
    rounded = round(shifted)
    return math.inf if rounded * Fraction(2) ** scale >= 1 << 128 else math.ldexp(rounded, scale)
