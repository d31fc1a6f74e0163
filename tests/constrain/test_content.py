# SPDX-License-Identifier: MIT OR Apache-2.0
"""The content rule: the value alone, in pieces and at once, wherever it is cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bankml.core.answers.chat_grammar import ChatGrammar, chat_grammar
from bankml.core.answers.content import Content
from bankml.core.answers.json_scan import DONE, MORE, JsonScan
from bankml.core.chat.template import CHATML, ChatTemplate
from bankml.refusal import Refusal

CHAT = chat_grammar(ChatTemplate(CHATML), None)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def read(text: str, chat: ChatGrammar = CHAT) -> str:
    content = Content(chat)
    content.push(text.encode(), last=True)
    return content.said.content.decode()


@pytest.mark.parametrize(
    ("answer", "content"),
    [
        ('{"a": 1}', '{"a": 1}'),
        (' \n{"a": 1} \n', '{"a": 1}'),
        ('```json\n{"a": 1}\n```', '{"a": 1}'),
        ('```json{"a": 1}```', '{"a": 1}'),
        ("", ""),
        ("``", ""),
        ("```json\n", ""),
        ('{"a": "é\\u00', '{"a": "é'),
        ('{"a": "x\\', '{"a": "x'),
        ('{"a": 1.', '{"a": 1.'),
        ('```json\n{"a": [tr', '{"a": [tr'),
    ],
)
def test_the_value_alone(answer: str, content: str) -> None:
    assert read(answer) == content


def test_what_no_value_can_become_is_refused() -> None:
    with pytest.raises(Refusal, match="does not match the expected peg-native format") as refused:
        read('{"a": {} }\n``')
    assert refused.value.status == 500


@given(VALUES, st.booleans(), st.booleans(), st.data())
def test_pieces_make_the_whole(value: Any, fenced: bool, indented: bool, data: st.DataObject) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=1 if indented else None)
    answer = f"```json\n{text}\n```" if fenced else text
    cuts = sorted(data.draw(st.lists(st.integers(0, len(answer)), max_size=6)))
    content = Content(CHAT)
    told = b""
    for start, end in zip([0, *cuts], [*cuts, len(answer)], strict=True):
        told += content.push(answer[start:end].encode("utf-8", "surrogatepass")).content
        assert text.encode("utf-8", "surrogatepass").startswith(told)
    told += content.push(b"", last=True).content
    assert told.decode() == text


@given(VALUES, st.data())
def test_every_beginning_of_a_value_may_become_one(value: Any, data: st.DataObject) -> None:
    text = json.dumps(value).encode()
    cut = data.draw(st.integers(0, len(text)))
    scan = JsonScan(0)
    assert scan.run(text[:cut])[0] in (MORE, DONE)
    assert scan.run(text + b" ") == (DONE, len(text))


def test_a_value_may_be_nested_without_end() -> None:
    depth = 20_000
    assert JsonScan(0).run(b"[" * depth) == (MORE, depth)
    assert JsonScan(0).run(b"[" * depth + b"]" * depth) == (DONE, 2 * depth)
