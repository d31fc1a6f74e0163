# SPDX-License-Identifier: MIT OR Apache-2.0
"""Vocabularies that no model has, against what the reference made of them (testing/record_odd_vocabularies.py)."""

import gzip
import json
from pathlib import Path

import pytest

from bankml.core.gguf.reader import GgufFile
from bankml.core.gguf.types import ARRAY, BOOL, I32, STRING, U32
from bankml.core.gguf.writer import write_gguf
from bankml.core.tokenizer import tokenizer as module
from bankml.core.tokenizer.tokenizer import Tokenizer

CASES = json.loads(gzip.decompress((Path(__file__).parent / "records" / "odd-vocabularies.json.gz").read_bytes()))["vocabularies"]


def open_tokenizer(path, given):
    write_gguf(
        path,
        [
            ("general.architecture", STRING, "llama"),
            ("general.name", STRING, given["name"]),
            ("tokenizer.ggml.model", STRING, "gpt2"),
            ("tokenizer.ggml.pre", STRING, given["pre"]),
            ("tokenizer.ggml.tokens", (ARRAY, STRING), given["tokens"]),
            ("tokenizer.ggml.token_type", (ARRAY, I32), given["types"]),
            ("tokenizer.ggml.merges", (ARRAY, STRING), given["merges"]),
            *((f"tokenizer.ggml.{key}_token_id", U32, value) for key, value in given["ids"].items()),
            *((f"tokenizer.ggml.{key}", BOOL, value) for key, value in given["flags"].items()),
        ],
        [],
    )
    with GgufFile.open(path) as gguf:
        return Tokenizer.from_gguf(gguf)


@pytest.mark.parametrize("given", CASES, ids=range(len(CASES)))
def test_as_the_reference(tmp_path, given):
    ours = open_tokenizer(tmp_path / "v.gguf", given)
    answers = given["answers"]
    assert {role: ours.vocab.roles.get(role, -1) for role in answers["roles"]} == answers["roles"]
    assert sorted(ours.eog) == answers["eog"]
    assert [token for token in range(ours.n_vocab) if ours.is_control(token)] == answers["control"]
    pieces = [[ours.piece(token, special).decode("latin-1") for special in (False, True)] for token in range(ours.n_vocab)]
    assert pieces == answers["pieces"]
    for text, add_special, parse_special, ids, decoded in answers["texts"]:
        assert ours.encode(text, add_special, parse_special) == ids
        assert ours.encode(text.encode(), add_special, parse_special) == ids
        assert ours.decode(ids, add_special, parse_special).decode("latin-1") == decoded


def test_native_merging_gives_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_NATIVE_LENGTH", 1)
    for number, given in enumerate(CASES):
        ours = open_tokenizer(tmp_path / f"{number}.gguf", given)
        for text, add_special, parse_special, ids, _ in given["answers"]["texts"]:
            ours._words.clear()
            assert ours.encode(text, add_special, parse_special) == ids


def test_long_merging_gives_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr("bankml.core.tokenizer.bpe._LONG", 2)
    for number, given in enumerate(CASES):
        ours = open_tokenizer(tmp_path / f"{number}.gguf", given)
        for text, add_special, parse_special, ids, _ in given["answers"]["texts"]:
            assert ours.encode(text, add_special, parse_special) == ids
