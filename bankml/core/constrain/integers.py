# SPDX-License-Identifier: MIT OR Apache-2.0
"""GBNF for the integers between two bounds.

Source: build_min_max_int, common/json-schema-to-grammar.cpp.
"""

from __future__ import annotations

from typing import Final

LOWEST: Final = -(1 << 63)
HIGHEST: Final = (1 << 63) - 1
"""The bounds that stand for none."""


class UnboundedError(Exception):
    """No bound is left: the reference negates its lowest integer, and that stays as it is."""


def integer_range(low: int, high: int, digits_left: int = 16, outermost: bool = True) -> str:
    """Alternatives for the integers from ``low`` to ``high``.

    Raises:
        UnboundedError: neither is a bound.
    """
    if low != LOWEST and high != HIGHEST:
        return _between(low, high, digits_left)
    if low != LOWEST:
        return _from(low, digits_left, outermost)
    if high == HIGHEST:
        raise UnboundedError("At least one of min_value or max_value must be set")
    if high >= 0:
        negative = f'"-" [1-9] {_digits(0, max(digits_left - 1, 1))} | ' if outermost else ""
        return negative + integer_range(0, high, digits_left)
    return f'"-" ({integer_range(_negated(high), HIGHEST, digits_left, False)})'


def _between(low: int, high: int, digits_left: int) -> str:
    if low < 0 and high < 0:
        return f'"-" ({integer_range(_negated(high), -low, digits_left)})'
    parts = []
    if low < 0:
        parts.append(f'"-" ({integer_range(0, -low, digits_left)})')
        low = 0
    first, last = str(low), str(high)
    for size in range(len(first), len(last)):
        parts.append(_uniform(first, "9" * size))
        first = "1" + "0" * size
    parts.append(_uniform(first, last))
    return " | ".join(parts)


def _from(low: int, digits_left: int, outermost: bool) -> str:
    fewer = max(digits_left - 1, 1)
    if low < 0:
        return f'"-" ({integer_range(LOWEST, _negated(low), digits_left, False)}) | [0] | [1-9] {_digits(0, digits_left - 1)}'
    if low == 0:
        return f"[0] | [1-9] {_digits(0, fewer)}" if outermost else _digits(1, digits_left)
    least = "1" if outermost else "0"
    if low <= 9:
        digit = str(low)
        longer = f"{_class(least, chr(ord(digit) - 1))} {_digits(1, fewer)} | " if digit > least else ""
        return f"{longer}{_class(digit, '9')} {_digits(0, fewer)}"
    text = str(low)
    digit, size = text[0], len(text)
    longer = f"{_class(least, chr(ord(digit) - 1))} {_digits(size, fewer)} | " if digit > "1" else ""
    same = f"{_class(digit, digit)} ({integer_range(int(text[1:]), HIGHEST, fewer, False)})"
    larger = f" | {_class(chr(ord(digit) + 1), '9')} {_digits(size - 1, fewer)}" if digit < "9" else ""
    return longer + same + larger


def _uniform(low: str, high: str) -> str:
    """The numbers between two of as many digits. What comes of a lower bound above the upper one is the reference's."""
    same = 0
    while same < len(low) and same < len(high) and low[same] == high[same]:
        same += 1
    out = f'"{low[:same]}"' if same else ""
    if same == len(low) or same == len(high):
        return out
    if same:
        out += " "
    first, last = low[same], high[same]
    rest = len(low) - same - 1
    if rest == 0:
        return f"{out}[{first}-{last}]"
    low_rest, high_rest = low[same + 1 :], high[same + 1 :]
    zeros, nines = "0" * rest, "9" * rest
    reached = False
    if low_rest == zeros:
        inner = f"{_class(first, chr(ord(last) - 1))} {_digits(rest, rest)}"
    else:
        inner = f"[{first}] ({_uniform(low_rest, nines)})"
        if ord(first) < ord(last) - 1:
            reached = high_rest == nines
            middle = _class(chr(ord(first) + 1), last if reached else chr(ord(last) - 1))
            inner += f" | {middle} {_digits(rest, rest)}"
    if not reached:
        inner += f" | {_class(last, last)} {_uniform(zeros, high_rest)}"
    return f"{out}({inner})"


def _negated(bound: int) -> int:
    return LOWEST if bound == LOWEST else -bound


def _class(first: str, last: str) -> str:
    return f"[{first}]" if first == last else f"[{first}-{last}]"


def _digits(least: int, most: int) -> str:
    if least == most == 1:
        return "[0-9]"
    return f"[0-9]{{{least}}}" if least == most else f"[0-9]{{{least},{most}}}"
