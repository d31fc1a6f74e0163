# SPDX-License-Identifier: MIT OR Apache-2.0
"""The tokenizer on the real model, and what it costs."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from bankml.core.gguf.reader import GgufFile
from bankml.core.tokenizer import tokenizer as module
from bankml.core.tokenizer.tokenizer import Tokenizer
from bankml.kernels import bpe
from bankml.oracle.cases.token_corpus import broken, drawn, written
from bankml.refusal import Refusal
from tests.steps import lines


@pytest.fixture(scope="module")
def ours(smollm2):
    with GgufFile.open(smollm2) as gguf:
        return Tokenizer.from_gguf(gguf)


def test_the_ids_of_the_real_vocabulary(ours):
    assert ours.encode("<|im_start|>user\nHello<|im_end|>\n") == [1, 4093, 198, 19556, 2, 198]
    assert (ours.bos, ours.eos, ours.n_vocab, ours.add_bos, ours.add_eos) == (1, 2, 49152, False, False)
    assert ours.eog == {0, 2, 4}


def test_text_and_its_bytes_give_the_same(ours):
    for text in [*written(), *drawn(3, 200)]:
        assert ours.encode(text) == ours.encode(text.encode())


def test_text_comes_back_but_for_bytes_without_a_token(ours):
    missing = {byte for byte in range(256) if module.spell(chr(byte))[-1] not in ours.vocab.ids and byte < 128}
    for text in [*written(), *drawn(4, 200)]:
        data = text.encode()
        back = ours.join(ours.encode(data, add_special=False), special=True)
        if not missing & set(data) and len(back) == len(data):
            assert back == data
        assert ours.decode(ours.encode(text, parse_special=False), special=True) == ours.join(
            ours.encode(text, parse_special=False)
        )


def test_twenty_one_bytes_have_no_token(ours):
    from bankml.core.tokenizer.bpe import BYTE_CHARS

    assert sum(char not in ours.vocab.ids for char in BYTE_CHARS.values()) == 21


def test_broken_bytes_are_read_not_refused(ours):
    for data in broken(5, 200):
        assert isinstance(ours.encode(data), list)
    assert ours.encode(b"\xc1\x81") == ours.encode("A")
    assert ours.encode(b"a\xff<|im_end|>") == [*ours.encode("a\ufffd"), 2]


@pytest.mark.parametrize("data", [b"a\xf4\x90\x80\x80", b"\xf7\xbf\xbf\xbf"])
def test_past_the_last_code_point(ours, data):
    with pytest.raises(Refusal, match="past the last code point"):
        ours.encode(data)


def test_lone_surrogates_are_taken_as_the_reference_takes_their_bytes(ours):
    assert ours.encode("a\ud800b") == ours.encode(b"a\xed\xa0\x80b")


def test_the_cache_changes_nothing(ours, monkeypatch):
    monkeypatch.setattr(module, "_CACHED_WORDS", 3)
    text = "one two three four five six one two three " * 3
    assert ours.encode(text) == ours.encode(text)


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("unit", ["abcdefghij", "a", "中文字符", "qxzjkvwpyf"])
def test_work_grows_with_length_not_with_its_square(ours, monkeypatch, unit, native):
    monkeypatch.setattr(module, "_NATIVE_LENGTH", 1 if native else 1 << 40)
    ours.encode(unit * 30)
    if native:
        # The Python that is compiled runs as it is, so that its steps can be counted.
        for name in ("merge", "_rank", "_push", "_pop", "_slot"):
            monkeypatch.setattr(bpe, name, getattr(bpe, name).function)
    short, long = unit * (400 // len(unit)), unit * (3200 // len(unit))
    ours._words.clear()
    with np.errstate(over="ignore"):
        assert lines(lambda: ours.encode(long)) < 8 * 1.5 * lines(lambda: ours.encode(short))


def test_where_no_kernels_run_long_texts_are_merged_all_the_same(smollm2):
    text = "x" * module._NATIVE_LENGTH
    command = [sys.executable, "-m", "bankml", "tokenize", smollm2]
    tokens = [
        json.loads(subprocess.run(command, input=text, env=os.environ | more, capture_output=True, text=True, check=True).stdout)
        for more in ({}, {"BANKML_ISA": "none"})
    ]
    assert tokens[0] == tokens[1]


def test_native_and_plain_merging_agree(ours, monkeypatch):
    texts = ["".join(drawn(8, 60)), "x" * 3000, "thequickbrownfox" * 300, "漢字かな交じり文" * 200]
    plain = [ours.encode(text) for text in texts]
    monkeypatch.setattr(module, "_NATIVE_LENGTH", 1)
    ours._words.clear()
    assert [ours.encode(text) for text in texts] == plain
