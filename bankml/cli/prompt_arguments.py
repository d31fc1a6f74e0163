# SPDX-License-Identifier: MIT OR Apache-2.0
"""The prompt of a command: an argument, standard input, or a file of messages; and which model it is for."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from bankml.cli.inputs import read_named, read_stdin
from bankml.cli.values import argument_text, utf8


def model_and_prompt(words: tuple[str, ...], model: str | None, given: bool) -> tuple[str | None, str | None]:
    """Which of the arguments is the model and which the prompt; a prompt of None comes from stdin."""
    most = 2 - (model is not None) - given
    if len(words) > most:
        raise click.UsageError(f"expected at most {most} of [MODEL] [PROMPT] here, got {len(words)}: quote the prompt")
    if model is not None or not words:
        return model, words[0] if words else None
    if len(words) == 2 or given:
        return words[0], words[1] if len(words) == 2 else None
    # A lone argument: a model when it names one and the prompt comes by stdin.
    if not sys.stdin.isatty() and _names_model(words[0]):
        return words[0], None
    return None, words[0]


def _names_model(word: str) -> bool:
    from bankml.core.pins import resolve_model
    from bankml.core.refusal import Refusal

    try:
        return resolve_model(word).is_file()
    except (Refusal, OSError, ValueError):
        return False


def chat_of(path: Path | None, prompt: str | None, system: str | None, raw: bool) -> list[dict[str, Any]] | str:
    """The chat to answer, or the text to continue.

    Raises:
        Refusal: the file is not a list of messages, or a text is not UTF-8.
    """
    if path is not None:
        if raw or system is not None:
            raise click.UsageError("--messages holds the whole chat: it goes with neither --raw nor --system")
        return _read_messages(path)
    if prompt is None:
        if sys.stdin.isatty():
            raise click.UsageError("there is no prompt: give one as an argument, on stdin or with --messages")
        prompt = utf8(_piped(), "generate.utf8", "stdin")
    else:
        prompt = argument_text(prompt, "generate.utf8", "the prompt")
    if raw:
        if system is not None:
            raise click.UsageError("--raw has no system message")
        return prompt
    head = [{"role": "system", "content": system}] if system is not None else []
    return [*head, {"role": "user", "content": prompt}]


def _piped() -> bytes:
    """The prompt on standard input without one line end, as llama.cpp reads a prompt from a file.

    Source: the option --file of common/arg.cpp.
    """
    return read_stdin().removesuffix(b"\n")


def _read_messages(path: Path) -> list[dict[str, Any]]:
    from bankml.core.refusal import Refusal

    where = "stdin" if str(path) == "-" else str(path)
    text = utf8(read_named(path), "generate.utf8", where)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refusal("generate.messages", "the messages are not JSON", where=where, found=str(error)[:120]) from error
    if isinstance(value, dict) and "messages" in value:
        value = value["messages"]
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise Refusal(
            "generate.messages",
            "the messages are not a list of messages",
            where=where,
            allowed='[{"role": "user", "content": "…"}, …], or an object with that list as "messages"',
        )
    return value
