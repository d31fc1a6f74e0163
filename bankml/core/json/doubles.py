# SPDX-License-Identifier: MIT OR Apache-2.0
"""A double as nlohmann::json prints it: the digits of Grisu2, which are not always the shortest or the closest.

Source: Florian Loitsch, "Printing Floating-Point Numbers Quickly and Accurately with Integers", PLDI 2010; the choice of cached
powers and the layout are those of grisu2 and format_buffer in vendor/nlohmann/json.hpp.
"""

from __future__ import annotations

import functools
import math
import struct
from typing import Final

# Decimal exponents between which a double is written without an exponent.
_LEAST, _MOST = -4, 15
_ALPHA: Final = -60
_FIRST_POWER: Final = -300
_POWER_STEP: Final = 8

Scaled = tuple[int, int]
"""A 64-bit significand and a binary exponent."""


def number(value: float) -> str:
    """A finite double as JSON text."""
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if value == 0:
        return sign + "0.0"
    digits, exponent = _digits(abs(value))
    point = len(digits) + exponent
    if len(digits) <= point <= _MOST:
        return f"{sign}{digits}{'0' * exponent}.0"
    if 0 < point <= _MOST:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if _LEAST < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{point - 1:+03d}"


def _digits(value: float) -> tuple[str, int]:
    """Digits and the power of ten that they are to be taken by."""
    bits = struct.unpack("<Q", struct.pack("<d", value))[0]
    fraction, biased = bits & ((1 << 52) - 1), bits >> 52
    significand, exponent = (fraction | 1 << 52, biased - 1075) if biased else (fraction, -1074)
    upper = _normal(2 * significand + 1, exponent - 1)
    below = (4 * significand - 1, exponent - 2) if fraction == 0 and biased > 1 else (2 * significand - 1, exponent - 1)
    lower = (below[0] << (below[1] - upper[1]), upper[1])
    power = _power_for(upper[1])
    factor = _cached(power)
    middle, low, high = (_times(each, factor) for each in (_normal(significand, exponent), lower, upper))
    return _generate(low[0] + 1, middle[0], high[0] - 1, high[1], -power)


def _normal(significand: int, exponent: int) -> Scaled:
    shift = 64 - significand.bit_length()
    return significand << shift, exponent - shift


def _times(a: Scaled, b: Scaled) -> Scaled:
    return (a[0] * b[0] + (1 << 63)) >> 64, a[1] + b[1] + 64


def _power_for(exponent: int) -> int:
    """The power of ten that brings a binary exponent near enough to zero."""
    scaled = _ALPHA - exponent - 1
    product = scaled * 78913
    power = (abs(product) >> 18) * (1 if product >= 0 else -1) + (scaled > 0)
    return _FIRST_POWER + _POWER_STEP * ((-_FIRST_POWER + power + _POWER_STEP - 1) // _POWER_STEP)


@functools.cache
def _cached(power: int) -> Scaled:
    """A power of ten, rounded to 64 bits."""
    if power >= 0:
        whole, shift = 10**power, 0
    else:
        shift = 64 + (10**-power).bit_length() + 64
        whole = (1 << shift) // 10**-power
    exponent = whole.bit_length() - 64
    if exponent <= 0:
        return whole << -exponent, exponent - shift
    significand = (whole + (1 << (exponent - 1))) >> exponent
    return significand, exponent - shift


def _generate(low: int, middle: int, high: int, exponent: int, power: int) -> tuple[str, int]:
    """Digits of a number between ``low`` and ``high``, as near to ``middle`` as the last digit allows."""
    shift = -exponent
    delta, distance = high - low, high - middle
    whole, part = high >> shift, high & ((1 << shift) - 1)
    text = str(whole)
    for size in range(1, len(text) + 1):
        left = len(text) - size
        unit = 10**left
        rest = ((whole % unit) << shift) + part
        if rest <= delta:
            return _rounded(text[:size], distance, delta, rest, unit << shift), power + left
    while True:
        part *= 10
        text += str(part >> shift)
        part &= (1 << shift) - 1
        power -= 1
        delta *= 10
        distance *= 10
        if part <= delta:
            return _rounded(text, distance, delta, part, 1 << shift), power


def _rounded(text: str, distance: int, delta: int, rest: int, unit: int) -> str:
    """Make the last digit smaller while that comes nearer."""
    last = int(text[-1])
    while rest < distance and delta - rest >= unit and (rest + unit < distance or distance - rest > rest + unit - distance):
        last -= 1
        rest += unit
    return text[:-1] + str(last)
