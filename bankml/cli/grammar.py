# SPDX-License-Identifier: MIT OR Apache-2.0
"""``bankml grammar``: whether a grammar parses, and the grammar of a JSON schema."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bankml.cli.inputs import read_named
from bankml.cli.output import to_json
from bankml.cli.values import FILE, MODEL, TEXT

if TYPE_CHECKING:
    from bankml.core.answers.chat_grammar import ChatGrammar


@click.group("grammar")
def command() -> None:
    """Check a GBNF grammar, or make one from a JSON schema."""


@command.command("check")
@click.argument("file", metavar="FILE", type=FILE)
@click.option(
    "--model", metavar="MODEL", type=MODEL, help="Read terminals such as <think> with this model's vocabulary, and count tokens."
)
@click.option("--root", metavar="NAME", type=TEXT, default="root", show_default=True, help="The rule that the text begins with.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check(file: Path, model: str | None, root: str, as_json: bool) -> None:
    """Parse FILE ("-" is standard input) as llama.cpp b11192 would; exit 2 with the parser's reason where it refuses.

    With --model, say too how many of its tokens an answer may begin with.
    """
    from bankml.core.constrain.grammar import Grammar

    text = read_named(file)
    if model is None:
        grammar = Grammar.parse(text, root)
    else:
        from bankml.core.constrain.trie import VocabularyTrie
        from bankml.core.gguf.reader import GgufFile
        from bankml.core.pins import resolve_model
        from bankml.core.tokenizer.tokenizer import Tokenizer

        with GgufFile.open(resolve_model(model)) as gguf:
            tokenizer = Tokenizer.from_gguf(gguf)
        grammar = Grammar.parse(text, root, tokenizer, VocabularyTrie.of(tokenizer))
    facts: dict[str, object] = {
        "verdict": "parsed",
        "rules": len(grammar.rules.rules),
        "elements": sum(len(rule) for rule in grammar.rules.rules),
        "may_be_empty": grammar.may_end,
    }
    if model is not None:
        facts["first_tokens"] = int(grammar.mask().sum())
    if as_json:
        click.echo(json.dumps(facts))
    else:
        click.echo(", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in facts.items()))


@command.command("from-schema")
@click.argument("file", metavar="FILE", type=FILE)
@click.option("--model", metavar="MODEL", type=MODEL, help="The grammar that binds a chat of this model, on its own template.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the grammar and the warnings.")
def from_schema(file: Path, model: str | None, as_json: bool) -> None:
    """Print the grammar that llama.cpp b11192 makes of the JSON schema in FILE ("-" is standard input), byte for byte.

    With --model it is the grammar of a chat: what the template opens the answer with and what may stand around the value are
    part of it. --json then tells too the text over which the grammar goes before the answer.

    What of the schema the grammar does not hold to is said on stderr. A schema that b11192 refuses is refused, with its message
    and the path; exit code 2.
    """
    from bankml.core.constrain.schema import grammar_of_text

    if model is None:
        made = grammar_of_text(read_named(file))
        text, warnings, more = made.text, made.warnings, {}
    else:
        chat = _on_template(model, read_named(file))
        text, warnings = (chat.text or "").encode("utf-8", "surrogateescape"), chat.warnings
        more = {"prefill": chat.prefill.decode("utf-8", "replace")}
    if as_json:
        members = {"grammar": text.decode("utf-8", "replace"), "warnings": warnings, **more}
        click.echo(to_json(members))
        return
    for warning in warnings:
        click.echo(f"bankml: {warning}", err=True)
    sys.stdout.flush()
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()


def _on_template(model: str, schema: bytes) -> ChatGrammar:
    from bankml.core.answers.chat_grammar import chat_grammar
    from bankml.core.chat.template import ChatTemplate
    from bankml.core.gguf.reader import GgufFile
    from bankml.core.pins import resolve_model

    with GgufFile.open(resolve_model(model)) as gguf:
        return chat_grammar(ChatTemplate.from_gguf(gguf), schema)
