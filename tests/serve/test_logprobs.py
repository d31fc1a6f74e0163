# SPDX-License-Identifier: MIT OR Apache-2.0
"""Logprobs over HTTP: hashes that a reader can compute from the bytes, limits, the official client."""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import Any

import openai
import pytest

from .conftest import Served

ASKED = {"max_tokens": 6, "temperature": 0, "logprobs": True, "top_logprobs": 3}
STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')


def lists(body: bytes) -> list[bytes]:
    """The lists of entries in the bytes of an answer, found by counting brackets outside of strings."""
    found = []
    for match in re.finditer(rb'"logprobs":\{"content":', body):
        depth, at = 0, match.end()
        while True:
            if body[at : at + 1] == b'"':
                text = STRING.match(body, at)
                assert text is not None
                at = text.end()
                continue
            depth += {b"[": 1, b"]": -1}.get(body[at : at + 1], 0)
            at += 1
            if depth == 0:
                break
        found.append(body[match.end() : at])
    return found


def test_the_hash_is_of_the_bytes(served: Served) -> None:
    answer = served.chat('Say: a "quoted" \\ word', **ASKED)
    (sent,) = lists(answer.content)
    receipt = answer.json()["bankml_receipt"]
    assert list(receipt)[-2:] == ["logprobs_sha256", "signed"]
    assert receipt["logprobs_sha256"] == hashlib.sha256(sent).hexdigest()
    assert json.loads(sent) == answer.json()["choices"][0]["logprobs"]["content"]


def test_the_hash_of_a_stream(served: Served) -> None:
    answer = served.chat('Say: a "quoted" \\ word', **ASKED, stream=True)
    sent = lists(answer.content)
    assert len(sent) > 3
    joined = b"[" + b", ".join(each[1:-1] for each in sent) + b"]"
    receipt = json.loads(answer.content.split(b"data: ")[-2])["bankml_receipt"]
    assert receipt["logprobs_sha256"] == hashlib.sha256(joined).hexdigest()
    whole = served.chat('Say: a "quoted" \\ word', **ASKED).json()["choices"][0]["logprobs"]["content"]
    streamed = json.loads(joined)
    assert [each["token"] for each in streamed] == [each["token"] for each in whole if each["token"]]


def test_an_answer_without_logprobs_has_no_hash(served: Served) -> None:
    for members in ({}, {"logprobs": False}, {"logprobs": True, "top_logprobs": 0}):
        answer = served.chat(max_tokens=1, **members).json()
        assert "logprobs" not in answer["choices"][0]
        assert "logprobs_sha256" not in answer["bankml_receipt"]


@pytest.mark.parametrize(
    ("members", "name"),
    [
        ({"logprobs": True, "top_logprobs": 257}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": "x"}, "top_logprobs"),
        ({"n_probs": 100000}, "n_probs"),
        ({"logprobs": 300}, "logprobs"),
    ],
)
def test_what_is_not_honoured_is_refused(served: Served, members: dict[str, Any], name: str) -> None:
    answer = served.chat(max_tokens=1, **members)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == f"/{name}"


def test_openai_client(served: Served) -> None:
    client = openai.OpenAI(base_url=served.base + "/v1", api_key="none", max_retries=0)
    asked: dict[str, Any] = {"model": "any", "messages": [{"role": "user", "content": "Repeat: 🍕 naïve"}], "temperature": 0}
    answer = client.chat.completions.create(**asked, max_tokens=12, logprobs=True, top_logprobs=5)
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None and logprobs.content is not None
    joined = b"".join(bytes(each.bytes or []) for each in logprobs.content)
    assert joined.decode() == answer.choices[0].message.content
    for each in logprobs.content:
        assert len(each.top_logprobs) == 5
        assert [top.logprob for top in each.top_logprobs] == sorted((top.logprob for top in each.top_logprobs), reverse=True)
        # Greedy: the token is the first of the most probable ones.
        assert each.logprob == each.top_logprobs[0].logprob
        assert sum(math.exp(top.logprob) for top in each.top_logprobs) <= 1.0001
    streamed = []
    with client.chat.completions.create(**asked, max_tokens=12, logprobs=True, top_logprobs=5, stream=True) as stream:
        for chunk in stream:
            for choice in chunk.choices:
                if choice.logprobs is not None:
                    streamed += choice.logprobs.content or []
    assert [each.logprob for each in streamed] == [each.logprob for each in logprobs.content if each.token]
