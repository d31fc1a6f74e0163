# SPDX-License-Identifier: MIT OR Apache-2.0
"""Texts continued over HTTP: receipts, refusals by name, the official client. Answers themselves are held to a record."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import openai
import pytest

from .conftest import Served

ASKED: dict[str, Any] = {"prompt": "Once upon a time", "temperature": 0, "n_predict": 8}


def sha256(data: str | bytes) -> str:
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def events(served: Served, path: str, body: dict[str, Any]) -> list[Any]:
    answer = served.post(path, {**body, "stream": True})
    assert answer.status_code == 200, answer.text
    data = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
    return [each if each == "[DONE]" else json.loads(each) for each in data]


def test_receipts_of_both_shapes_whole_and_streamed(served: Served) -> None:
    body = json.dumps({**ASKED, "n_probs": 1}).encode()
    own = served.post("/completion", body).json()
    older = served.post("/v1/completions", body).json()
    for answer, text, told in (
        (own, own["content"], own["completion_probabilities"]),
        (older, older["choices"][0]["text"], older["choices"][0]["logprobs"]["content"]),
    ):
        receipt = answer["bankml_receipt"]
        assert receipt["response_sha256"] == sha256(text)
        assert receipt["request_sha256"] == sha256(body)
        assert receipt["logprobs_sha256"] == sha256(json.dumps(told, ensure_ascii=False, separators=(",", ":")))
        assert "grammar_sha256" not in receipt
    *parts, last, receipt_event = events(served, "/completion", ASKED)
    assert "".join(each["content"] for each in parts) == own["content"]
    assert [each["tokens"][0] for each in parts] == served.post("/completion", {**ASKED, "return_tokens": True}).json()["tokens"]
    assert last["stop"] is True and last["stop_type"] == "limit"
    assert receipt_event["bankml_receipt"]["response_sha256"] == sha256(own["content"])
    assert receipt_event["content"] == ""
    *parts, last, receipt_event, done = events(served, "/v1/completions", ASKED)
    assert done == "[DONE]"
    assert "".join(each["choices"][0]["text"] for each in parts) == own["content"]
    assert receipt_event["bankml_receipt"]["response_sha256"] == sha256(own["content"])


def test_a_receipt_names_the_grammar(served: Served) -> None:
    grammar = 'root ::= "yes" | "no"'
    answer = served.post("/completion", {**ASKED, "grammar": grammar}).json()
    assert answer["content"] in ("yes", "no")
    assert answer["bankml_receipt"]["grammar_sha256"] == sha256(grammar)
    answer = served.post("/completion", {**ASKED, "json_schema": {"enum": ["red", 3]}}).json()
    assert json.loads(answer["content"]) in ("red", 3)
    assert answer["bankml_receipt"]["grammar_sha256"] == sha256(answer["generation_settings"]["grammar"])


def test_several_prompts_have_several_answers_and_receipts(served: Served) -> None:
    prompts = ["One, two,", "Red, green,"]
    alone = [served.post("/completion", {**ASKED, "prompt": prompt}).json()["content"] for prompt in prompts]
    several = served.post("/completion", {**ASKED, "prompt": prompts}).json()
    assert [each["content"] for each in several] == alone
    assert [each["bankml_receipt"]["response_sha256"] for each in several] == [sha256(text) for text in alone]
    older = served.post("/v1/completions", {**ASKED, "prompt": prompts}).json()
    assert [(each["index"], each["text"]) for each in older["choices"]] == list(enumerate(alone))
    assert [each["response_sha256"] for each in older["bankml_receipt"]] == [sha256(text) for text in alone]
    streamed = events(served, "/completion", {**ASKED, "prompt": prompts})
    assert ["".join(each["content"] for each in streamed if each["index"] == index) for index in (0, 1)] == alone


@pytest.mark.parametrize("path", ["/completion", "/v1/completions"])
@pytest.mark.parametrize(
    ("members", "status", "pointer"),
    [
        ({"echo": True}, 501, "/echo"),
        ({"suffix": "the end"}, 501, "/suffix"),
        ({"best_of": 2}, 501, "/best_of"),
        ({"t_max_predict_ms": 5}, 501, "/t_max_predict_ms"),
        ({"n_indent": 2}, 501, "/n_indent"),
        ({"return_progress": True}, 501, "/return_progress"),
        ({"lora": [{"id": 0, "scale": 1}]}, 501, "/lora"),
        ({"messages": []}, 400, "/messages"),
        ({"top_logprobs": 2}, 400, "/top_logprobs"),
        ({"n_probs": 257}, 400, "/n_probs"),
        ({"stop": 5}, 400, "/stop"),
        ({"response_fields": "content"}, 400, "/response_fields"),
        ({"grammar": 5}, 400, "/grammar"),
        # llama-server passes over the schema here.
        ({"json_schema": {"type": "object"}, "grammar": 'root ::= "a"'}, 400, "/json_schema"),
        ({"json_schema": {"type": "object"}, "grammar": None}, 400, "/json_schema"),
    ],
)
def test_what_is_not_honoured_is_refused_by_name(
    served: Served, path: str, members: dict[str, Any], status: int, pointer: str
) -> None:
    for stream in (False, True):
        answer = served.post(path, {**ASKED, **members, "stream": stream})
        assert answer.status_code == status
        assert answer.json()["error"]["param"] == pointer


def test_openai_client(served: Served) -> None:
    client = openai.OpenAI(base_url=served.base + "/v1", api_key="none", max_retries=0)
    asked: dict[str, Any] = {"model": "any", "prompt": "Once upon a time", "max_tokens": 8, "temperature": 0}
    whole = client.completions.create(**asked, logprobs=2)
    assert whole.choices[0].finish_reason == "length"
    assert whole.usage is not None and whole.usage.completion_tokens == 8
    assert whole.choices[0].logprobs is not None
    assert len(whole.choices[0].logprobs.model_extra["content"]) == 8  # type: ignore[index]
    streamed = client.completions.create(**asked, stream=True)
    assert "".join(chunk.choices[0].text for chunk in streamed) == whole.choices[0].text
    several = client.completions.create(**{**asked, "prompt": ["a", "b"]}, best_of=1)
    assert [choice.index for choice in several.choices] == [0, 1]
    chunks = list(client.completions.create(**{**asked, "prompt": ["a", "b"]}, stream=True))
    for index, choice in enumerate(several.choices):
        parts = [chunk.choices[0].text for chunk in chunks if chunk.choices[0].index == index]
        assert "".join(parts) == choice.text
    with pytest.raises(openai.InternalServerError):
        client.completions.create(**asked, echo=True)
    with pytest.raises(openai.BadRequestError):
        client.completions.create(**{**asked, "prompt": "x " * 5000})
