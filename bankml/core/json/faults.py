# SPDX-License-Identifier: MIT OR Apache-2.0
"""The words in which llama-server's JSON library objects to a value."""

from __future__ import annotations

from typing import Any

from bankml.core.refusal import Refusal


def type_name(value: Any) -> str:
    """The JSON type of a value, in the words of llama-server's messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def type_error(expected: str, value: Any) -> str:
    """llama-server's sentence for a value of a wrong JSON type. Source: type_error 302 of nlohmann::json."""
    return f"[json.exception.type_error.302] type must be {expected}, but is {type_name(value)}"


def server_error(message: str) -> Refusal:
    """A refusal in the form of llama-server's uncaught exceptions: status 500, whatever the cause.

    Source: ex_wrapper, tools/server/server.cpp.
    """
    return Refusal("http.request", message, status=500, kind="server_error")
