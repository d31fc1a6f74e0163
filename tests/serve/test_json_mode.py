# SPDX-License-Identifier: MIT OR Apache-2.0
"""JSON mode and schemas over HTTP: OpenAI's client reads every shape, finished answers fit, receipts name the grammar."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import jsonschema
import openai
import pydantic
import pytest

from .conftest import Served

ASK: list[Any] = [{"role": "user", "content": "Describe a city as JSON."}]


class City(pydantic.BaseModel):
    """What is asked for."""

    name: str = pydantic.Field(max_length=8)
    size: int = pydantic.Field(ge=10, le=99)
    old: bool


@pytest.fixture
def client(served: Served) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{served.base}/v1", api_key="x")


def test_the_client_parses_a_pydantic_model(client: openai.OpenAI) -> None:
    answer = client.chat.completions.parse(model="any", messages=ASK, response_format=City, temperature=0, max_tokens=64)
    city = answer.choices[0].message.parsed
    assert answer.choices[0].finish_reason == "stop"
    assert isinstance(city, City)
    assert 10 <= city.size <= 99
    with client.chat.completions.stream(model="any", messages=ASK, response_format=City, temperature=0, max_tokens=64) as stream:
        parts = [event.delta for event in stream if event.type == "content.delta"]
        assert stream.get_final_completion().choices[0].message.parsed == city
    assert "".join(parts) == answer.choices[0].message.content


def test_json_mode_whole_and_streamed(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"messages": ASK, "response_format": {"type": "json_object"}, "temperature": 0, "max_tokens": 24}
    whole = client.chat.completions.create(model="any", **asked)
    chunks = list(client.chat.completions.create(model="any", stream=True, **asked))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == whole.choices[0].message.content
    assert text.startswith("{")


SCHEMAS: list[dict[str, Any]] = [
    City.model_json_schema(),
    {"type": "array", "items": {"enum": ["red", 3, None, {"a": [1.5]}]}, "minItems": 1, "maxItems": 3},
    {"type": "object", "properties": {"a": {"type": "integer", "minimum": -3, "maximum": 40}}, "additionalProperties": False},
    {"anyOf": [{"type": "boolean"}, {"type": "string", "minLength": 2, "maxLength": 5}]},
    {"const": {"k": "é\n", "n": 1e2}},
    {
        "type": "object",
        "properties": {"d": {"$ref": "#/$defs/Day"}, "e": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2}},
        "required": ["d", "e"],
        "additionalProperties": False,
        "$defs": {"Day": {"type": "string", "pattern": "^[A-Z][a-z]{2}-[0-9]{2}$"}},
    },
    {"type": "array", "prefixItems": [{"type": "boolean"}, {"type": ["null", "boolean"]}], "minItems": 2},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=range(len(SCHEMAS)))
def test_a_finished_answer_fits_its_schema(served: Served, schema: dict[str, Any]) -> None:
    wrapped = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    jsonschema.Draft202012Validator.check_schema(schema)
    finished = 0
    for heat, seed in ((0, 1), (1.3, 2), (1.3, 3)):
        answer = served.post(
            "/v1/chat/completions",
            {"messages": ASK, "response_format": wrapped, "temperature": heat, "seed": seed, "max_tokens": 80},
        ).json()
        choice = answer["choices"][0]
        if choice["finish_reason"] == "stop":
            finished += 1
            jsonschema.validate(json.loads(choice["message"]["content"]), schema)
    assert finished


def test_a_receipt_names_the_grammar(served: Served) -> None:
    bound = served.chat(max_tokens=3, verbose=True, response_format={"type": "json_object"}).json()
    grammar = bound["__verbose"]["generation_settings"]["grammar"]
    assert "response-format" in grammar
    assert bound["bankml_receipt"]["grammar_sha256"] == hashlib.sha256(grammar.encode()).hexdigest()
    own = 'root ::= "a" | "b"'
    receipt = served.chat(max_tokens=3, grammar=own).json()["bankml_receipt"]
    assert receipt["grammar_sha256"] == hashlib.sha256(own.encode()).hexdigest()
    assert "grammar_sha256" not in served.chat(max_tokens=1).json()["bankml_receipt"]


def test_a_thought_goes_unsaid_where_the_template_has_no_marks_for_it(served: Served) -> None:
    grammar = "root ::= [a-z]{2,4}"
    messages = [*ASK, {"role": "assistant", "content": "So", "reasoning_content": "Hm"}]
    answer = served.post("/v1/chat/completions", {"messages": messages, "max_tokens": 4, "grammar": grammar}).json()
    message = answer["choices"][0]["message"]
    assert message["content"].startswith("So")
    assert "reasoning_content" not in message


def test_a_schema_without_a_grammar_is_refused(served: Served) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "what"}}}
    for stream in (False, True):
        refused = served.chat(response_format={"type": "json_schema", "json_schema": {"schema": schema}}, stream=stream)
        assert refused.status_code == 400
        assert "#/properties/a: unrecognized type what" in refused.json()["error"]["message"]
