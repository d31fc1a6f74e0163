# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whole characters only, however the bytes are cut; lenient reading of what is not UTF-8."""

import pytest

from bankml.core.tokenizer.utf8 import complete, decode_lenient
from bankml.oracle.cases.token_corpus import broken, drawn
from bankml.refusal import Refusal


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
