# SPDX-License-Identifier: MIT OR Apache-2.0
"""``bankml template``: a message list on standard input to the prompt that a model would read."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bankml.cli.inputs import read_file, read_stdin, stdin_lines
from bankml.cli.output import to_json
from bankml.cli.values import FILE, MODEL, TEXT

if TYPE_CHECKING:
    from bankml.core.chat.template import ChatTemplate


@click.command("template")
@click.argument("model", type=MODEL, required=False)
@click.option("--template-file", "file", metavar="FILE", type=FILE, help="Run FILE instead of the model's own template.")
@click.option(
    "--now",
    metavar="ISO",
    type=TEXT,
    help="The time that the template sees, e.g. 2026-01-31T12:00:00.  [default: the local time]",
)
@click.option("--jsonl", is_flag=True, help="One request a line in, one prompt or error a line out.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the prompt and what it ends with.")
@click.option("--caps", is_flag=True, help="Print what the template can take, as JSON; reads no messages.")
def command(model: str | None, file: Path | None, now: str | None, jsonl: bool, as_json: bool, caps: bool) -> None:
    """Print the prompt that the messages on standard input become, byte by byte what llama-server would make.

    MODEL is a name from `bankml list` or a path; none means the default model. Only the file's header is read. The input is
    a JSON list of messages, or an object with the members of a chat request: messages, tools, add_generation_prompt,
    continue_final_message, chat_template_kwargs, reasoning_effort. Nothing is printed after the prompt, not even a line end.
    """
    clock = _clock(now)
    template = _template(model, file, clock)
    if caps:
        click.echo(json.dumps(template.caps))
    elif jsonl:
        for answer in _answers(template, clock):
            print(to_json(answer), flush=True)
    else:
        prompt = template.apply(_body(_parse(read_stdin(), "/")), clock)
        if as_json:
            opening = prompt.generation_prompt.decode("utf-8", "replace")
            members = {"prompt": prompt.text, "generation_prompt": opening, "stops": list(prompt.stops)}
            click.echo(to_json(members))
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(prompt.raw)
            sys.stdout.buffer.flush()


def _clock(now: str | None) -> datetime | None:
    if now is None:
        return None
    try:
        return datetime.fromisoformat(now)
    except ValueError:
        raise click.BadParameter("no ISO 8601 time", param_hint="--now") from None


def _template(model: str | None, file: Path | None, now: datetime | None) -> ChatTemplate:
    from bankml.core.chat.template import ChatTemplate
    from bankml.core.gguf.reader import GgufFile
    from bankml.core.pins import resolve_model

    source = read_file(file) if file is not None else None
    with GgufFile.open(resolve_model(model)) as gguf:
        return ChatTemplate.from_gguf(gguf, source=source, now=now)


def _answers(template: ChatTemplate, now: datetime | None) -> Iterator[dict[str, Any]]:
    from bankml.refusal import Refusal

    for number, line in enumerate(stdin_lines(), 1):
        if not line.strip():
            continue
        try:
            prompt = template.apply(_body(_parse(line, f"line {number}")), now)
        except Refusal as refusal:
            yield {"error": {**refusal.as_dict(), "status": refusal.status}}
        else:
            yield {"prompt": prompt.text}


def _parse(text: bytes, where: str) -> Any:
    from bankml.core.chat.messages import loads
    from bankml.refusal import Refusal

    try:
        return loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Refusal("template.json", "the input is no JSON", where=where, found=str(error)) from None


def _body(value: Any) -> dict[str, Any]:
    """The request: a list stands for its messages; anything else that is no object is refused as one without messages."""
    if isinstance(value, dict):
        return value
    return {"messages": value} if isinstance(value, list) else {}
