# SPDX-License-Identifier: MIT OR Apache-2.0
"""Parts of the server that no model is needed for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

import pytest

from bankml.core.gguf.types import TYPES
from bankml.core.http import sse
from bankml.core.http.responses import EventStream
from bankml.core.json.writer import dump
from bankml.core.receipts.receipt import text_sha256
from bankml.core.serve.llama import fields, shapes
from bankml.core.serve.llama.props import file_type
from bankml.core.serve.llama.request import read_chat
from bankml.core.serve.worker import Counts
from bankml.refusal import Refusal

HI: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}]


def test_a_silent_stream_is_pinged() -> None:
    pinged = asyncio.Event()

    async def slow() -> AsyncGenerator[bytes]:
        yield sse.event({"a": 1})
        await pinged.wait()
        yield shapes.DONE

    sent: list[bytes] = []

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))
        if sent.count(sse.PING) == 2:
            pinged.set()

    async def receive() -> dict[str, Any]:
        raise AssertionError("a stream reads nothing")

    stream = EventStream(slow(), ping_seconds=1)
    stream._ping = 0.001
    asyncio.run(stream({}, receive, send))
    assert [data for data in sent if data != sse.PING] == [b"", b'data: {"a":1}\n\n', b"data: [DONE]\n\n", b""]
    assert sent[2] == sent[3] == sse.PING


def test_timings_of_one_token_and_of_none() -> None:
    one = shapes.timings(Counts(prompt=3, cached=2, completion=1, prompt_ms=4.0, predicted_ms=0.0))
    assert one["predicted_ms"] == 0.001
    assert one["predicted_per_token_ms"] == one["predicted_per_second"] == 0.0
    assert (one["cache_n"], one["prompt_n"], one["prompt_per_second"]) == (2, 1, 250.0)
    none = shapes.timings(Counts(prompt=0, cached=0, completion=0, prompt_ms=0.0, predicted_ms=0.0))
    assert all(value == 0 for value in none.values())


def test_json_is_written_as_llama_server_writes_it() -> None:
    assert dump({"a": [1, 0.5, None, True], "b": 'é"\n\x7f\x01'}) == '{"a":[1,0.5,null,true],"b":"é\\"\\n\x7f\\u0001"}'.encode()


def test_half_a_surrogate_pair_is_hashed_as_the_replacement_character() -> None:
    assert text_sha256("a\ud83cb") == text_sha256("a\ufffdb")


def test_no_name_is_in_two_tables() -> None:
    tables = [fields.CHAT, fields.SAMPLING, fields.NEUTRAL, frozenset(fields._ONLY_OFF)]
    assert len(frozenset().union(*tables)) == sum(len(table) for table in tables)


@pytest.mark.parametrize(
    ("members", "wanted"),
    [
        ({}, None),
        ({"max_tokens": 5}, 5),
        ({"max_tokens": -1}, None),
        ({"n_predict": 0, "max_tokens": 9}, 0),
        ({"max_tokens": 2.9}, 2),
    ],
)
def test_max_tokens(members: dict[str, Any], wanted: int | None) -> None:
    assert read_chat({"messages": HI, **members}).max_tokens == wanted


@pytest.mark.parametrize(
    ("stop", "wanted"), [("a", ["a"]), (["a", "b"], ["a", "b"]), ([None, [], {}], []), ("", [""]), ([""], [""]), (None, [])]
)
def test_stop(stop: Any, wanted: list[str]) -> None:
    assert read_chat({"messages": HI, "stop": stop}).stop == wanted


def test_a_continued_message_is_told_again_unless_it_was_asked_to_go_on() -> None:
    messages = [*HI, {"role": "assistant", "content": "One,"}]
    assert not read_chat({"messages": messages}).silent_prefill
    goes_on = {"messages": messages, "continue_final_message": True, "add_generation_prompt": False}
    assert read_chat(goes_on).silent_prefill
    assert not read_chat({**goes_on, "echo": True}).silent_prefill


OBJECT = {"type": "object"}


@pytest.mark.parametrize(
    ("members", "source"),
    [
        ({}, ""),
        ({"response_format": {"type": "text"}}, ""),
        ({"response_format": None, "json_schema": None}, ""),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"response_format": {"type": "json_object", "schema": None}}, "response_format"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": OBJECT}}}, "response_format"),
        ({"json_schema": OBJECT}, "json_schema"),
        ({"json_schema": OBJECT, "response_format": {"type": "text"}}, "json_schema"),
        ({"json_schema": OBJECT, "response_format": {"type": "json_object"}}, "json_schema"),
    ],
)
def test_where_the_schema_stands(members: dict[str, Any], source: str) -> None:
    assert read_chat({"messages": HI, **members}).schema_from == source


JSON_OBJECT = {"type": "json_object"}


@pytest.mark.parametrize(
    ("members", "status", "param"),
    [
        ({"response_format": JSON_OBJECT, "grammar": 'root ::= "a"'}, 501, "/grammar"),
        ({"response_format": {**JSON_OBJECT, "schema": OBJECT}, "json_schema": OBJECT}, 501, "/json_schema"),
        ({"response_format": {"type": "json_schema"}, "json_schema": OBJECT}, 501, "/json_schema"),
        ({"response_format": 5}, 400, "/response_format"),
        ({"response_format": {}}, 400, "/response_format"),
        ({"response_format": {"type": 5}}, 400, "/response_format"),
        ({"response_format": {**JSON_OBJECT, "schema": True}}, 400, "/response_format"),
        ({"response_format": {**JSON_OBJECT, "json_schema": OBJECT}}, 400, "/response_format"),
        ({"response_format": {"type": "text", "schema": OBJECT}}, 400, "/response_format"),
        ({"response_format": {"type": "json_schema", "json_schema": []}}, 400, "/response_format"),
        ({"response_format": {"type": "json_schema", "json_schema": {"scheme": OBJECT}}}, 400, "/response_format"),
    ],
)
def test_a_constraint_that_would_not_be_applied_is_refused(members: dict[str, Any], status: int, param: str) -> None:
    with pytest.raises(Refusal) as caught:
        read_chat({"messages": HI, **members})
    assert caught.value.status == status
    assert caught.value.extra["param"] == param


@pytest.mark.parametrize(
    ("most", "guess"),
    [("TQ1_0", "TQ1_0 - 1.69 bpw ternary"), ("NVFP4", "NVFP4"), ("Q4_K", "Q4_K - Medium"), ("MXFP4", "all F32")],
)
def test_a_file_type_is_guessed_as_the_reference_does(most: str, guess: str) -> None:
    ids = {kind.name: kind.id for kind in TYPES.values()}
    tensors = {name: SimpleNamespace(type_id=ids[kind]) for name, kind in (("a", "F32"), ("b", most), ("c", most))}
    gguf: Any = SimpleNamespace(get=lambda key: None, tensors=tensors)
    assert file_type(gguf) == f"(guessed) {guess}"
