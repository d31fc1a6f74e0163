# SPDX-License-Identifier: MIT OR Apache-2.0
"""Answers over HTTP: whole and streamed say the same, receipts can be recomputed, OpenAI's client reads every shape."""

from __future__ import annotations

import hashlib
import json
import subprocess
import threading
from pathlib import Path
from typing import Any

import openai
import pytest

from .conftest import Served

HI = [{"role": "user", "content": "Hi"}]
ORDER = [
    *("bankml", "engine", "model_sha256", "guard", "prompt_tokens", "completion_tokens", "ttft_ms", "wall_ms"),
    *(
        "response_sha256",
        "request_sha256",
        "pinned",
        "reference",
        "exact",
        "llama_threads",
        "cache_type",
        "ctx",
        "cache_ram",
        "cache_n",
        "sampling",
        "signed",
    ),
]
TIMINGS = [
    *("cache_n", "prompt_n", "prompt_ms", "prompt_per_token_ms", "prompt_per_second"),
    *("predicted_n", "predicted_ms", "predicted_per_token_ms", "predicted_per_second"),
]


def sha256(data: bytes | str) -> str:
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def test_a_whole_answer(served: Served, smollm2: Path) -> None:
    body = json.dumps({"messages": HI, "temperature": 0, "max_tokens": 8}).encode()
    answer = served.post("/v1/chat/completions", body).json()
    assert answer["choices"] == [
        {"finish_reason": "length", "index": 0, "message": {"role": "assistant", "content": "Hello! How can I assist you today"}}
    ]
    assert answer["usage"]["completion_tokens"] == 8
    assert answer["usage"]["prompt_tokens"] == 31
    assert list(answer["timings"]) == TIMINGS
    receipt = answer["bankml_receipt"]
    assert list(receipt) == ORDER
    assert receipt["request_sha256"] == sha256(body)
    assert receipt["response_sha256"] == sha256(answer["choices"][0]["message"]["content"])
    assert receipt["model_sha256"] == sha256(smollm2.read_bytes())
    assert receipt["signed"] is False
    assert receipt["pinned"] is True
    assert receipt["guard"] == "play"
    assert receipt["reference"] == "llama.cpp b11192 haswell"
    assert (receipt["ctx"], receipt["llama_threads"], receipt["cache_ram"]) == (4096, 3, 8192)
    assert receipt["cache_n"] == answer["timings"]["cache_n"] == answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def test_a_stream_says_what_the_whole_answer_says(served: Served) -> None:
    request = {"messages": HI, "temperature": 0, "max_tokens": 12}
    whole = served.post("/v1/chat/completions", request).json()
    body = json.dumps({**request, "stream": True, "stream_options": {"include_usage": True}}).encode()
    events = served.events(body)
    assert events[-1] == "[DONE]"
    assert next(iter(events[-2])) == "bankml_receipt"
    assert events[-2]["choices"] == [{"finish_reason": "stop", "index": 0, "delta": {}}]
    text = "".join(each["choices"][0]["delta"].get("content") or "" for each in events[:-3])
    assert text == whole["choices"][0]["message"]["content"]
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": None}
    assert events[-4]["choices"][0]["finish_reason"] == "stop"
    assert events[-3]["choices"] == []
    assert events[-3]["usage"]["completion_tokens"] == 10
    receipt = events[-2]["bankml_receipt"]
    assert receipt["response_sha256"] == sha256(text)
    assert receipt["request_sha256"] == sha256(body)
    assert receipt["cache_n"] == events[-3]["timings"]["cache_n"] == 30


def test_a_drawn_seed_gives_the_same_answer_again(served: Served) -> None:
    first = served.chat("Tell me a story.", max_tokens=24).json()
    sampling = first["bankml_receipt"]["sampling"]
    assert sampling["seed"] != 0xFFFFFFFF
    again = served.chat("Tell me a story.", max_tokens=24, seed=sampling["seed"], cache_prompt=False).json()
    assert again["choices"] == first["choices"]
    assert again["bankml_receipt"]["sampling"] == sampling


def test_the_receipt_names_the_sampling_as_resolved(served: Served) -> None:
    sampling = served.chat(max_tokens=1, temperature=-1, top_k=3, seed=7).json()["bankml_receipt"]["sampling"]
    assert (sampling["temperature"], sampling["top_k"], sampling["seed"]) == (0.0, 3, 7)


def test_openai_client(served: Served) -> None:
    client = openai.OpenAI(base_url=served.base + "/v1", api_key="none", max_retries=0)
    whole = client.chat.completions.create(model="any", messages=HI, temperature=0, max_tokens=8)
    assert whole.choices[0].message.content == "Hello! How can I assist you today"
    assert whole.usage is not None
    assert whole.usage.total_tokens == 39
    text = ""
    usage: Any = None
    for chunk in client.chat.completions.create(
        model="any", messages=HI, temperature=0, max_tokens=8, stream=True, stream_options={"include_usage": True}
    ):
        for choice in chunk.choices:
            text += choice.delta.content or ""
        usage = chunk.usage or usage
    assert text == whole.choices[0].message.content
    assert usage.completion_tokens == 8
    with client.chat.completions.stream(model="any", messages=HI, temperature=0, stop=["How"]) as stream:
        assert stream.get_final_completion().choices[0].message.content == "Hello! "
    said = client.chat.completions.create(model="any", messages=HI, temperature=0, max_tokens=8, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in said) == text
    assert client.models.list().data[0].object == "model"
    for wrong, kind in (({"stop": 5}, openai.BadRequestError), ({"tools": [{"type": "function"}]}, openai.InternalServerError)):
        with pytest.raises(kind) as caught:
            client.chat.completions.create(model="any", messages=HI, extra_body=wrong)
        assert caught.value.body


def test_curl(served: Served) -> None:
    command = ["curl", "-sS", "--noproxy", "*", f"{served.base}/v1/chat/completions", "-H", "Content-Type: application/json"]
    done = subprocess.run([*command, "-d", json.dumps({"messages": HI, "max_tokens": 2})], capture_output=True, check=True)
    assert json.loads(done.stdout)["bankml_receipt"]["completion_tokens"] == 2
    assert done.stderr == b""


def test_many_at_once_are_answered_in_turn(served: Served) -> None:
    answers: dict[int, Any] = {}

    def ask(number: int) -> None:
        answers[number] = served.post("/v1/chat/completions", {"messages": HI, "temperature": 0, "max_tokens": 8}).json()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer["choices"][0]["message"]["content"] for answer in answers.values()} == {"Hello! How can I assist you today"}


def test_health_answers_while_a_long_answer_runs(served: Served) -> None:
    with served.post(
        "/v1/chat/completions", {"messages": HI, "max_tokens": 200, "stream": True, "ignore_eos": True}, stream=True
    ) as answer:
        lines = answer.iter_lines()
        next(lines)
        assert served.get("/health").elapsed.total_seconds() < 1
        assert served.post("/tokenize", {"content": "hi"}).json() == {"tokens": [6004]}


def test_head_and_models(served: Served) -> None:
    head = served.session.head(served.base + "/health")
    assert (head.status_code, head.text) == (200, "")
    models = served.get("/v1/models").json()
    assert models["data"][0]["meta"]["n_vocab"] == 49152
    record = served.get("/bankml").json()
    assert record["verdict"] == "verified"
    assert record["resident"] is True
    assert record["hashed_at"] > 0
    assert record["exact"] is True
    assert "inexact" not in record
