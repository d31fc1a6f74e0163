# SPDX-License-Identifier: MIT OR Apache-2.0
from __future__ import annotations

import contextlib
import json
import random
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis.strategies import integers, text

from bankml.core.json.lexer import double
from bankml.core.json.reader import _BRACKETS, FREE_BYTES, MAX_DEPTH, SHORT, read_json
from bankml.oracle.record import read_record
from bankml.refusal import Refusal
from testing.hostile_bodies import KINDS

pytestmark = pytest.mark.long

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


def test_a_long_bad_body_is_refused_in_the_same_words() -> None:
    for bad in (b"[1,2 3]", b'{"a":1,}', b'["\x01"]', b"[truth]", b"[1e400]"):
        long = b"[" + b"1," * SHORT + bad + b"]"
        short, found = refusal(bad).message, refusal(long).message
        assert found.partition(": ")[2].partition("; last read")[0] == short.partition(": ")[2].partition("; last read")[0]
    assert len(refusal(b'"' + b"a" * (2 << 20)).message) < 1000


def test_an_unclosed_string_is_one_match() -> None:
    body = b'"' + b'\\"' * 1000
    assert [found.span() for found in _BRACKETS.finditer(body)] == [(0, len(body))]
    assert len(list(_BRACKETS.finditer(b'"a" [ "b\\"]" ] "'))) == 5


def steps(body: bytes) -> int:
    """The calls that reading a body takes."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        with contextlib.suppress(Refusal):
            read_json(body)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("kind", KINDS)
def test_reading_takes_steps_in_proportion_to_the_length(kind: str) -> None:
    bodies = [KINDS[kind].make(random.Random(1), size) for size in (4 * SHORT, 8 * SHORT)]
    small, large = map(steps, bodies)
    assert large < 2.2 * small + 1000


@pytest.mark.parametrize("value", [b"[]", b"{}", b'{"a":1}', b'""', b"123456", b"1.5"])
def test_values_take_no_more_memory_than_their_length_allows(value: bytes) -> None:
    many = b"[" + b",".join([value] * (3 << 20)) + b"]"
    tracemalloc.start()
    try:
        found = refusal(many)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (found.code, found.status) == ("http.json-values", 413)
    assert peak < len(many) + FREE_BYTES


@pytest.mark.parametrize("mark", [b"1", b"true", b'"a"', b"{}", b"[[1],[2]]", b'{"b":[1,2,{"c":null}]}', "é€😀".encode()])
def test_long_bodies_read_as_short_ones(mark: bytes) -> None:
    value = mark if mark[:1] in b'1t"{[' else b'"' + mark + b'\\n\\u00e9"'
    body = b'{"first":' + value + b',"rest":[' + b",".join([value] * (SHORT // len(value) + 1)) + b"]}"
    assert read_json(body) == json.loads(body)


@given(digits=text("0123456789", min_size=1, max_size=1500), point=integers(0, 1500), power=integers(-400, 400))
def test_a_number_of_any_length_is_its_nearest_double(digits: str, point: int, power: int) -> None:
    whole, fraction = digits[:point].lstrip("0") or "0", digits[point:]
    written = f"{whole}{'.' + fraction if fraction else ''}e{power}"
    wanted = float(written)
    found = double(b"", whole.encode(), f".{fraction}".encode() if fraction else b"", f"e{power}".encode())
    assert found == wanted


def test_a_tie_behind_a_thousand_digits_is_seen() -> None:
    half = "9007199254740993." + "0" * 2000
    assert read_json(f"[{half}]".encode()) == [9007199254740992.0]
    assert read_json(f"[{half}1]".encode()) == [9007199254740994.0]
    assert read_json(b"[1e-" + b"9" * 5000 + b"]") == [0.0]
    assert "overflow" in refusal(b"[1e" + b"9" * 5000 + b"]").message
