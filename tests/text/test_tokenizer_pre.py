# SPDX-License-Identifier: MIT OR Apache-2.0
"""Pre-tokenizers: names, where words end, and that the oracle would see a wrong one."""

import gzip
import json
from pathlib import Path

import pytest

from bankml.core.tokenizer.pretokenizer import Pretokenizer
from bankml.core.tokenizer.pretokenizer_classes import collapse, collapse_han, widen
from bankml.core.tokenizer.pretokenizer_patterns import PRE, STEPS, UNPLAYED
from bankml.oracle.cases.token_corpus import drawn, written
from bankml.oracle.kinds.tokenizer import KIND
from bankml.refusal import Refusal

RECORDS = Path(__file__).parent.parent / "records"


@pytest.mark.parametrize("name", sorted(PRE))
def test_words_joined_are_the_text(name):
    cut = Pretokenizer(name)
    for text in [*written()[:80], *drawn(1, 60)]:
        words = [*cut.words(text)]
        assert "".join(words) == text
        assert all(words)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("smollm", "it's 12  x", ["it", "'s", " ", "1", "2", " ", " x"]),
        ("gpt-2", "it'S 12  x", ["it", "'", "S", " 12", " ", " x"]),
        ("qwen2", "it'S 12\r\n\n x", ["it", "'S", " ", "1", "2", "\r\n\n", " x"]),
        ("llama-bpe", "(ab) 12345;\n\n", ["(ab", ")", " ", "123", "45", ";\n\n"]),
        ("qwen35", "e\u0301te\u0301", ["e\u0301te\u0301"]),
        ("qwen2", "e\u0301te\u0301", ["e", "\u0301te", "\u0301"]),
        ("gpt-2", "a\x85b\u3000\u3000c", ["a", "\x85", "b", "\u3000", "\u3000", "c"]),
        ("superbpe", "1234567", ["1", "234", "567"]),
        ("tiny_aya", "ab1234567", ["ab", "1", "234", "567"]),
        ("kimi-k2", "ab你好cd", ["ab", "你好", "cd"]),
    ],
)
def test_words(name, text, words):
    assert [*Pretokenizer(name).words(text)] == words


@pytest.mark.parametrize("name", [None, "", "no-such-thing", "Qwen2", *UNPLAYED])
def test_unknown_or_missing_is_refused_by_name(name):
    with pytest.raises(Refusal) as refusal:
        Pretokenizer(name)
    assert refusal.value.code == "text.pre"
    assert refusal.value.where == "tokenizer.ggml.pre"
    assert not name or refusal.value.found == name


def test_every_step_is_used():
    assert {pre.steps for pre in PRE.values()} == set(STEPS)


def test_classes():
    assert collapse("aé1٣\u0301—€\xa0\ue000") == b"a\xd21\xd1\xd4\xd3\xd5\x0b\xd0"
    assert collapse_han("a你\ufa6e〇") == b"a\xd6\xd7\xd1"
    assert widen("a\u3000\x85b é") == "a\x0b\x0bb é"
    # CJK Extension I is Unicode 15.1, which the reference's tables know and older ones do not.
    assert collapse("\U0002ebf0") == b"\xd2"


def test_a_wrong_pretokenizer_is_seen():
    body = json.loads(gzip.decompress((RECORDS / "tokenizer-qwen2.json.gz").read_bytes()))["body"]
    wrong = KIND.compare({**body, "pre": "gpt-2"}, None)
    assert wrong.total - wrong.identical > 500
