# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whole characters only, however the bytes are cut; lenient reading of what is not UTF-8."""

import pytest

from bankml.core.oracle.kinds._token_corpus import broken, drawn
from bankml.core.text.utf8 import Utf8Buffer, complete, decode_lenient
from bankml.refusal import Refusal


def test_every_cut_of_every_character():
    text = "aé€😀\u0301👩‍👩‍👧 z"
    data = text.encode()
    for size in range(1, 6):
        buffer = Utf8Buffer()
        given = [buffer.push(data[at : at + size]) for at in range(0, len(data), size)]
        assert "".join(given) == text
        assert "\ufffd" not in "".join(given)
        assert buffer.pending == b""


def test_nothing_is_given_while_a_character_is_cut_off():
    buffer = Utf8Buffer()
    assert buffer.push(b"ab\xf0\x9f") == ""
    assert buffer.pending == b"ab\xf0\x9f"
    assert buffer.push(b"\x98") == ""
    assert buffer.push(b"\x80c") == "ab😀c"


def test_the_end_gives_what_is_left():
    buffer = Utf8Buffer()
    assert buffer.push(b"a\xe2\x82") == ""
    assert buffer.flush() == "a\ufffd"
    assert (buffer.flush(), buffer.pending) == ("", b"")


def test_bytes_that_are_no_character():
    buffer = Utf8Buffer()
    assert buffer.push(b"\xff\x80a") == "\ufffd\ufffda"


@pytest.mark.parametrize(
    ("data", "whole"),
    [
        (b"", 0),
        (b"abc", 3),
        (b"ab\xc3", 2),
        (b"\xe2\x82", 0),
        (b"a\xe2\x82\xac", 4),
        (b"\xf0\x9f\x98", 0),
        (b"x\xf0AB", 1),
        (b"x\xf0ABC", 5),
        (b"\x80\x80\x80\x80", 4),
    ],
)
def test_complete(data, whole):
    assert complete(data) == whole


def test_lenient_is_strict_on_utf8():
    for text in drawn(2, 300):
        assert decode_lenient(text.encode()) == text


def test_lenient():
    assert decode_lenient(b"\xc0\x80\xc1\x81\xe0\x80\xaf") == "\0A/"
    assert decode_lenient(b"\xed\xa0\x80") == "\ud800"
    assert decode_lenient(b"\xe2\x82a\xff") == "\ufffd\ufffda\ufffd"
    for data in broken(2, 300):
        assert isinstance(decode_lenient(data), str)
    with pytest.raises(Refusal):
        decode_lenient(b"\xf4\x90\x80\x80")
