# SPDX-License-Identifier: MIT OR Apache-2.0
"""bankml tokenize and bankml detokenize."""

import io
import json
import sys

import pytest


@pytest.fixture
def stdin(monkeypatch):
    def give(data):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return give


def test_tokenize(bankml, smollm2, stdin):
    stdin(b"Hello<|im_end|>")
    answer = bankml("tokenize", smollm2)
    assert (answer.code, json.loads(answer.out)) == (0, {"tokens": [19556, 2]})


def test_no_special(bankml, smollm2, stdin):
    stdin(b"<|im_end|>")
    assert json.loads(bankml("tokenize", smollm2, "--no-special").out)["tokens"] == [44, 108, 306, 79, 486, 108, 46]


def test_pieces(bankml, smollm2, stdin):
    stdin("é😀<|im_end|>".encode())
    rows = json.loads(bankml("tokenize", smollm2, "--pieces").out)["tokens"]
    assert [row["piece"] for row in rows if isinstance(row["piece"], list)] == [[240, 159], [152], [128]]
    assert rows[-1] == {"id": 2, "piece": "<|im_end|>"}


def test_file(bankml, smollm2, tmp_path):
    (tmp_path / "text").write_bytes(b"\xffHello")
    assert json.loads(bankml("tokenize", smollm2, "--file", tmp_path / "text").out)["tokens"][-1] == 19556


def test_round_trip(bankml, smollm2, stdin):
    text = "Grüße, 世界! <|im_start|>\n\n  x"
    stdin(text.encode())
    out = bankml("tokenize", smollm2).out
    stdin(out.encode())
    assert bankml("detokenize", smollm2).out == text


def test_detokenize_arguments_and_options(bankml, smollm2):
    assert bankml("detokenize", smollm2, 19556, 2).out == "Hello<|im_end|>"
    assert bankml("detokenize", smollm2, 19556, 2, "--no-special").out == "Hello"
    assert bankml("detokenize", smollm2, 19556, 2, "--clean").out == "Hello<|im_end|>"
    assert json.loads(bankml("detokenize", smollm2, 19556, 242, "--json").out) == {"content": "Hello\ufffd"}


@pytest.mark.parametrize(
    ("arguments", "data", "code", "said"),
    [
        (["49152"], b"", 2, "no such token"),
        (["-1"], b"", 2, "no such token"),
        (["x"], b"", 1, "no token ids"),
        ([], b"", 1, "no token ids"),
        ([], b"{}", 1, "no token ids"),
        ([], b"[1, true]", 1, "no token ids"),
        ([], b"[" * 100_000, 1, "no token ids"),
        ([], b"\xff", 1, "no token ids"),
    ],
)
def test_bad_ids(bankml, smollm2, stdin, arguments, data, code, said):
    stdin(data)
    answer = bankml("detokenize", smollm2, *arguments)
    assert answer.code == code
    assert said in answer.err
    assert answer.out == ""


def test_bad_model(bankml, tmp_path, stdin):
    stdin(b"x")
    (tmp_path / "x.gguf").write_bytes(b"no model")
    for path in (tmp_path, tmp_path / "x.gguf", tmp_path / "none.gguf"):
        answer = bankml("tokenize", path)
        assert answer.code in (1, 2, 3)
        assert answer.err.startswith("bankml: ")
