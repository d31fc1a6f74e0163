# SPDX-License-Identifier: MIT OR Apache-2.0
"""``bankml tokenize``: text on standard input to token ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bankml.cli.inputs import read_file, read_stdin
from bankml.cli.output import to_json
from bankml.cli.values import FILE, MODEL


@click.command("tokenize")
@click.argument("model", type=MODEL, required=False)
@click.option("--add-special", is_flag=True, help="Add the tokens that the vocabulary puts before and after a text.")
@click.option("--no-special", is_flag=True, help="Take the text of control tokens for plain text.")
@click.option("--pieces", is_flag=True, help="Give each token with its piece; a list of bytes where it is not UTF-8.")
@click.option("--file", "file", metavar="FILE", type=FILE, help="Read FILE instead of standard input.")
@click.option("--json", is_flag=True, expose_value=False, help="Print JSON, as it does in any case.")
def command(model: str | None, add_special: bool, no_special: bool, pieces: bool, file: Path | None) -> None:
    """Print the token ids of the text on standard input, as JSON.

    MODEL is a name from `bankml list` or a path; none means the default model. Only the file's header is read. The answer
    is llama-server's: {"tokens": [...]}, control tokens parsed, none added.
    """
    from bankml.core.gguf.reader import GgufFile
    from bankml.core.pins import resolve_model
    from bankml.core.tokenizer.tokenizer import Tokenizer

    with GgufFile.open(resolve_model(model)) as gguf:
        tokenizer = Tokenizer.from_gguf(gguf)
    text = read_stdin() if file is None else read_file(file)
    tokens: list[Any] = tokenizer.encode(text, add_special, not no_special)
    if pieces:
        tokens = [{"id": token, "piece": _shown(tokenizer.piece(token, special=True))} for token in tokens]
    click.echo(to_json({"tokens": tokens}))


def _shown(piece: bytes) -> str | list[int]:
    try:
        return piece.decode("utf-8")
    except UnicodeDecodeError:
        return list(piece)
