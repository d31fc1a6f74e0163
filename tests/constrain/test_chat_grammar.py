# SPDX-License-Identifier: MIT OR Apache-2.0
"""Grammars of schemas on chat templates, and how answers under them are read."""

from __future__ import annotations

import pytest

from bankml.core.answers.chat_grammar import chat_grammar
from bankml.core.chat.template import CHATML, ChatTemplate
from bankml.oracle.cases.template_samples import SAMPLES
from bankml.refusal import Refusal

SCHEMA = '{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}'


def _root(text: str | None) -> str:
    assert text is not None
    return next(line for line in text.splitlines() if line.startswith("root ::= "))


def test_the_grammar_begins_with_what_the_prompt_ends_with() -> None:
    made = chat_grammar(ChatTemplate(CHATML), SCHEMA)
    assert made.prefill == b"<|im_start|>assistant\n"
    assert _root(made.text).startswith(r'root ::= "<|im_start|>assistant\n" space')
    assert made.warnings == []


def test_no_schema_is_json_mode() -> None:
    json_mode, empty = chat_grammar(ChatTemplate(CHATML), None), chat_grammar(ChatTemplate(CHATML), "{}")
    assert json_mode.text == empty.text
    assert json_mode.text is not None
    assert "response-format-schema ::= object\n" in json_mode.text


def test_what_the_reference_passes_over_is_refused() -> None:
    template = ChatTemplate("{{ '>>>all' }}{{ '>>>${recipient}' }}{{ messages[0].content }}")
    with pytest.raises(Refusal, match="Functionary") as refused:
        chat_grammar(template, SCHEMA)
    assert refused.value.code == "schema.template"
    with pytest.raises(Refusal, match="object"):
        chat_grammar(ChatTemplate(CHATML), "true")


def test_a_schema_is_refused_in_the_words_of_the_chat_endpoint() -> None:
    bad = '{"type": "object", "properties": {"a": {"type": "wrong"}}}'
    with pytest.raises(Refusal, match="Unable to generate parser for this template") as refused:
        chat_grammar(ChatTemplate(CHATML), bad)
    assert refused.value.status == 400


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_every_sample_makes_a_grammar_or_says_why_not(name: str) -> None:
    try:
        template = ChatTemplate(SAMPLES[name], "<s>", "</s>")
        made = chat_grammar(template, SCHEMA)
    except Refusal as refusal:
        assert refusal.code.startswith(("template.", "schema.template"))
    else:
        assert _root(made.text)
