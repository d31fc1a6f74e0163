# SPDX-License-Identifier: MIT OR Apache-2.0
"""Answers under grammars and schemas, greedy and seeded, cut and whole."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bankml.oracle.ask.answers import OPTIONS, Step, compare_script, record_script
from bankml.oracle.cases.constrained import chats
from bankml.oracle.kind import Tally
from bankml.oracle.kinds.serve import LLAMA_THREADS, ask_app, asked_server
from bankml.oracle.options import POSITIVE, Option, Options, declared

if TYPE_CHECKING:
    from bankml.reference.build import Reference

_WET = [{"role": "user", "content": "Is water wet?"}]
_NAME = [{"role": "user", "content": "Name a city and its country."}]
_TEXT = "The three largest animals are"

_GRAMMARS = {
    "choice": 'root ::= "yes" | "no" | "perhaps"',
    "sentence": 'root ::= [A-Z] [a-z]+ (" " [a-z]+){2,6} "."',
    "list": 'root ::= ("- " [a-zé]+ "\\n"){2,4}',
    "letters": 'root ::= ([à-ÿ] | [а-я] | "日" | "🌍"){1,6} "!"',
    "control": "root ::= [a-z]{1,12} <|im_end|>",
    "never": "root ::= !<|im_start|>{1,8}",
    "pairs": 'root ::= "{" pair ("," pair)* "}"\npair ::= " "? [a-z]{1,8} ":" " "? [0-9]{1,3}\n',
    "bytes": "root ::= [^\\x00-\\x7F]+ [a-z]*",
}

_SCHEMAS: tuple[Any, ...] = (
    {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}, "year": {"type": "integer", "minimum": 1000}}},
    {"enum": ["red", "green", 3]},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 3},
    {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{2,4}$"},
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/d"}}, "required": ["a"], "$defs": {"d": {"format": "date"}}},
)


def script() -> list[Step]:
    """Every grammar greedy and seeded, as a chat and as a text; then schemas; then what is refused."""
    steps: list[Step] = []
    for number, grammar in enumerate(_GRAMMARS.values()):
        steps.append({"messages": _WET, "request": {"grammar": grammar, "temperature": 0, "seed": 1, "max_tokens": 16}})
        hot = {"grammar": grammar, "temperature": 1.4, "seed": 40 + number, "max_tokens": 12, "repeat_penalty": 1.1}
        steps.append({"messages": _NAME, "request": hot})
        steps.append({"prompt": _TEXT, "request": {"grammar": grammar, "top_k": 0, "min_p": 0, "seed": number, "n_predict": 10}})
    steps.append({"messages": _WET, "request": {"grammar": _GRAMMARS["sentence"], "temperature": 0, "max_tokens": 3}})
    steps.append({"prompt": _TEXT, "request": {"grammar": _GRAMMARS["list"], "temperature": 0, "n_predict": 8}, "stream": True})
    for number, schema in enumerate(_SCHEMAS):
        request = {"json_schema": schema, "seed": number, "n_predict": 40}
        steps += [{"prompt": _TEXT, "request": {**request, "temperature": heat}} for heat in (0, 1)]
    for bad in ("root ::= x", 'root ::= root "a"', "root", 'a ::= "b"'):
        steps.append({"messages": _WET, "request": {"grammar": bad, "max_tokens": 2}})
    return steps


class Constrained:
    """Kind ``constrained``."""

    name = "constrained"
    checks = "tokens, texts, endings and counts of answers under grammars and schemas; chats in JSON mode, whole and streamed"
    against = "llama-server's /v1/chat/completions and /completion"
    small = True
    options: Options = declared(OPTIONS, ctx=Option(POSITIVE, 1024))

    def record(self, model: Path | None, reference: Reference, options: dict[str, Any]) -> dict[str, Any]:
        """Put the script to one llama-server, and the chats to another."""
        found = record_script(script(), model, reference, options)
        assert model is not None
        with reference.server(model, ctx=found["ctx"], threads=LLAMA_THREADS) as server:
            return {**found, "chats": [asked_server(server, asked) for asked in chats()]}

    def compare(self, body: dict[str, Any], model: Path | None) -> Tally:
        """Put it to one engine, and the chats to bankml's app."""
        tally = compare_script(body, model)
        assert model is not None
        asyncio.run(ask_app(body["chats"], model, tally, body["ctx"]))
        return tally


KIND = Constrained()
