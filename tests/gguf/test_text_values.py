# SPDX-License-Identifier: MIT OR Apache-2.0
"""Numbers read from metadata as text, against the C library's own reading."""

import ctypes
import math
import random
import struct

import pytest

from bankml.core.gguf.text_values import INTEGER_BYTES, REAL_BYTES, as_text, read_integer, read_real
from bankml.core.json.numbers import f32

LIBC = ctypes.CDLL(None)
LIBC.strtof.restype = ctypes.c_float
LIBC.strtof.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p)]
LIBC.strtol.restype = ctypes.c_long
LIBC.strtol.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p), ctypes.c_int]

REALS = [
    *(
        "0",
        "-0",
        "1e-45",
        "7e-46",
        "7.1e-46",
        "1e39",
        "3.4028235677973366e38",
        "3.4028235677973367e38",
        "1e999999999",
        "-1e-999999999",
    ),
    *("0x1p3", "0x.8p1", "0x1.fffffep127", "0x1.ffffffp127", "0x1p-149", "0x1p-150", "0x1.8p-150", "0x", "0xg", "0x1p99999999"),
    *("inf", "-infinity", "INF and more", "nan", "x", "", " \t\n5.", "  .5", "5e", "5e+", "1p5", "16777217", "16777219"),
    *("1.000000059604644775390625", "1.0000000596046447753906251", "1.0000000596046447753906249", "0.123457"),
]
INTEGERS = [
    "0",
    "-5",
    "+7x",
    "12.9",
    "0x10",
    " \t42",
    "x",
    "",
    "99999999999999999999",
    "-99999999999999999999",
    "4294967299",
    "2147483648",
]


def c_reads(function, text, *more):
    """What the function reads, or None where it reads nothing."""
    buffer = ctypes.create_string_buffer(text.encode())
    end = ctypes.c_char_p()
    value = function(ctypes.cast(buffer, ctypes.c_char_p), ctypes.byref(end), *more)
    return None if ctypes.cast(end, ctypes.c_void_p).value == ctypes.addressof(buffer) else value


def random_reals(n):
    roll = random.Random(5)
    for _ in range(n):
        yield f"{roll.uniform(-10, 10):f}"
        yield f"{roll.getrandbits(roll.randint(1, 90))}e{roll.randint(-60, 30)}"
        yield f"-0x{roll.getrandbits(roll.randint(1, 60)):x}.{roll.getrandbits(20):x}p{roll.randint(-180, 120)}"
        bits = roll.getrandbits(31)
        low, high = (struct.unpack("<f", struct.pack("<I", each))[0] for each in (bits, bits + 1))
        if math.isfinite(low) and math.isfinite(high):
            # Half way between two neighbours, where rounding twice would go wrong.
            yield f"{(low + high) / 2:.60e}1"


@pytest.mark.parametrize("text", REALS)
def test_reals(text):
    assert_same(text)


def test_random_reals():
    for text in random_reals(2000):
        assert_same(text)


def assert_same(text):
    mine, theirs = read_real(text), c_reads(LIBC.strtof, text)
    assert (mine is None) == (theirs is None), text
    if mine is not None and not (math.isnan(mine) and math.isnan(theirs)):
        assert struct.pack("<d", mine) == struct.pack("<d", theirs), text


@pytest.mark.parametrize("text", INTEGERS)
def test_integers(text):
    wanted = c_reads(LIBC.strtol, text, 10)
    assert read_integer(text) == (None if wanted is None else ctypes.c_int32(wanted).value)


def test_what_stands_behind_the_buffer_is_not_read():
    assert read_real(" " * (REAL_BYTES - 1) + "75") == 7.0
    assert read_real(" " * REAL_BYTES + "7") is None
    assert read_real("é" * 63 + " 5") is None
    assert read_integer(" " * (INTEGER_BYTES - 2) + "1234") == 12


def test_values_as_text():
    values = [True, False, 5, -7, 0.1234567, 1e-7, math.inf, math.nan, -math.nan, "text", [1], None]
    shown = ["true", "false", "5", "-7", "0.123457", "0.000000", "inf", "nan", "-nan", "text", None, None]
    assert [as_text(value) for value in values] == shown


def test_single_precision():
    assert f32(0.1) == struct.unpack("<f", struct.pack("<f", 0.1))[0]
    assert (f32(1e39), f32(-1e39), f32(1e-46)) == (math.inf, -math.inf, 0.0)
