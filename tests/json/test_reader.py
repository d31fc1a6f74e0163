# SPDX-License-Identifier: MIT OR Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pytest

from bankml.core.json.reader import MAX_DEPTH, read_json
from bankml.core.oracle.record import read_record
from bankml.core.refusal import Refusal

RECORD = Path(__file__).parent.parent / "records" / "serve.json.gz"


def refusal(body: bytes) -> Refusal:
    with pytest.raises(Refusal) as caught:
        read_json(body)
    return caught.value


def cases() -> list[tuple[bytes, str | None]]:
    return [(bytes.fromhex(body), message) for body, message in read_record(RECORD).body["bodies"]]


def test_every_recorded_body_is_read_or_refused_in_the_words_of_b11192() -> None:
    wrong = []
    for body, wanted in cases():
        try:
            read_json(body)
            got = None
        except Refusal as caught:
            got = caught.message
        if got != wanted:
            wrong.append((body, wanted, got))
    assert not wrong, wrong[:3]
    assert len(cases()) > 1500


def test_a_bad_body_has_the_status_of_b11192() -> None:
    found = refusal(b"{")
    assert (found.status, found.kind) == (500, "server_error")


@pytest.mark.parametrize(
    ("body", "value"), [(b'{"a":1,"a":2}', {"a": 2}), (b"\xef\xbb\xbf[1]", [1]), (b"18446744073709551616", 2.0**64)]
)
def test_accepted(body: bytes, value: object) -> None:
    got = read_json(body)
    assert got == value
    assert type(got) is type(value)


def test_the_depth_is_limited_to_128() -> None:
    assert read_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
    assert refusal(b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1)).status == 400
    assert refusal(b"[" * 1_000_000).code == "http.json-depth"
    assert read_json(json.dumps("[" * 1000).encode()) == "[" * 1000


def test_a_nul_byte_does_not_end_a_body() -> None:
    assert "NUL" in refusal(b'{"a":1}\x00').message


def test_a_long_bad_body_is_refused_quickly() -> None:
    assert "parse_error" in refusal(b"[" + b"1," * (4 << 20)).message
    assert len(refusal(b'"' + b"a" * (2 << 20)).message) < 1000
