# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is not honoured is refused by name, never passed over; what b11192 refuses too is in the oracle's record."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Served

TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}
UNSUPPORTED: list[tuple[str, Any]] = [
    ("tools", [TOOL]),
    ("tool_choice", "required"),
    ("tool_choice", TOOL),
    ("functions", [TOOL]),
    ("return_progress", True),
    ("t_max_predict_ms", 5),
    ("n_indent", 2),
    ("lora", [{"id": 0, "scale": 1.0}]),
    ("reasoning_budget_tokens", 5),
    ("thinking_budget_tokens", 5),
    ("modalities", ["text", "audio"]),
    ("audio", {"voice": "x"}),
]


@pytest.mark.parametrize(("name", "value"), UNSUPPORTED, ids=[f"{name}-{number}" for number, (name, _) in enumerate(UNSUPPORTED)])
def test_unsupported(served: Served, name: str, value: Any) -> None:
    for stream in (False, True):
        answer = served.chat(max_tokens=1, stream=stream, **{name: value})
        assert answer.status_code == 501
        error = answer.json()["error"]
        assert (error["type"], error["param"]) == ("not_supported_error", f"/{name}")
        assert name in error["message"]
    assert served.chat(max_tokens=1, **{name: None}).status_code == 200


@pytest.mark.parametrize("name", ["nonsense", "prompt", "best", "images", "a/b~c", "verbosity"])
def test_an_unknown_field_is_refused(served: Served, name: str) -> None:
    answer = served.chat(max_tokens=1, **{name: 1})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "/" + name.replace("~", "~0").replace("/", "~1")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("stop", 5),
        ("stop", {"a": 1}),
        ("continue_final_message", "x"),
        ("stream_options", 5),
        ("chat_template_kwargs", 5),
        ("reasoning_effort", 5),
        ("add_generation_prompt", 1),
    ],
)
def test_what_llama_server_passes_over_is_refused(served: Served, name: str, value: Any) -> None:
    answer = served.chat(**{"max_tokens": 1, name: value})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == f"/{name}"


def test_neutral_fields_change_nothing(served: Served) -> None:
    plain = served.chat(max_tokens=4, temperature=0).json()["choices"]
    members = {"user": "u", "metadata": {"a": "b"}, "store": True, "service_tier": "auto", "seed": None, "n": 1, "tools": []}
    assert served.chat(max_tokens=4, temperature=0, **members).json()["choices"] == plain


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/embeddings", "/infill", "/v1/messages", "/slots/0"])
def test_routes_of_llama_server_that_are_not_here(served: Served, path: str) -> None:
    answer = served.post(path, {})
    assert answer.status_code == 501
    assert answer.json()["error"]["type"] == "not_supported_error"


def test_deep_nesting_is_refused(served: Served) -> None:
    answer = served.post("/v1/chat/completions", b'{"messages":' + b"[" * 200 + b"]" * 200 + b"}")
    assert answer.status_code == 400
