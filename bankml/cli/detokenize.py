# SPDX-License-Identifier: MIT OR Apache-2.0
"""``bankml detokenize``: token ids to text."""

from __future__ import annotations

import json
import sys

import click

from bankml.cli.inputs import read_stdin
from bankml.cli.output import to_json
from bankml.cli.values import MODEL, TEXT
from bankml.refusal import EXIT_OTHER, Refusal


@click.command("detokenize", context_settings={"ignore_unknown_options": True})
@click.argument("model", type=MODEL, required=False)
@click.argument("ids", type=TEXT, nargs=-1)
@click.option("--no-special", is_flag=True, help="Leave control tokens out.")
@click.option("--clean", is_flag=True, help="Drop added tokens and clean up spaces, as llama_detokenize does.")
@click.option("--json", "as_json", is_flag=True, help='Print {"content": ...}; bytes that are not UTF-8 become U+FFFD.')
def command(model: str | None, ids: tuple[str, ...], no_special: bool, clean: bool, as_json: bool) -> None:
    """Print the text of token ids.

    MODEL is a name from `bankml list` or a path; none means the default model. The ids are given as arguments, or as JSON
    on standard input: a list, or an object with "tokens", as `bankml tokenize` prints it. The bytes are written as they
    are, nothing added.
    """
    from bankml.core.gguf.reader import GgufFile
    from bankml.core.pins import resolve_model
    from bankml.core.tokenizer.tokenizer import Tokenizer

    with GgufFile.open(resolve_model(model)) as gguf:
        tokenizer = Tokenizer.from_gguf(gguf)
    tokens = [_number(text) for text in ids] if ids else _read(read_stdin())
    text = tokenizer.decode(tokens, not no_special, remove=True) if clean else tokenizer.join(tokens, not no_special)
    if as_json:
        click.echo(to_json({"content": text.decode("utf-8", "replace")}))
    else:
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise _not_ids(text) from None


def _read(data: bytes) -> list[int]:
    try:
        given = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _not_ids(str(error)) from None
    if isinstance(given, dict):
        given = given.get("tokens")
    if not isinstance(given, list):
        raise _not_ids(type(given).__name__)
    tokens = []
    for place, item in enumerate(given):
        token = item.get("id") if isinstance(item, dict) else item
        if type(token) is not int:
            raise _not_ids(f"{json.dumps(item)[:40]} at place {place}")
        tokens.append(token)
    return tokens


def _not_ids(found: str) -> Refusal:
    return Refusal(
        "text.ids",
        "these are no token ids",
        found=found[:120],
        allowed='numbers as arguments, or JSON on standard input: [1, 2] or {"tokens": [1, 2]}',
        exit_code=EXIT_OTHER,
    )
