# SPDX-License-Identifier: MIT OR Apache-2.0
"""``bankml generate`` in this process, on the real default model."""

import io
import json
import sys

import pytest


@pytest.fixture(autouse=True)
def home(home_with_smollm2):
    return home_with_smollm2


@pytest.fixture
def stdin(monkeypatch):
    def set_to(data: bytes, tty: bool = False):
        stream = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")
        stream.isatty = lambda: tty
        monkeypatch.setattr(sys, "stdin", stream)

    set_to(b"")
    return set_to


RIVERS = "Say hi."
SAID = "Hello there, welcome to my world! I'm here to"
"""What llama-server answers to it, greedily, in 12 tokens (greedy-short.json.gz has the same answer, longer)."""


def test_prompt_as_argument(bankml, stdin):
    answer = bankml("generate", RIVERS, "--max", 12)
    assert (answer.code, answer.out) == (0, SAID + "\n")
    assert answer.err == ""


def test_model_and_prompt(bankml, stdin, home):
    by_name = bankml("generate", "smollm2-135m-instruct", RIVERS, "--max", 12)
    by_path = bankml("generate", home / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf", RIVERS, "--max", 12)
    by_option = bankml("generate", "--model", "smollm2-135m-instruct.q4_1", RIVERS, "--max", 12)
    assert by_name.out == by_path.out == by_option.out == SAID + "\n"


def test_prompt_on_stdin(bankml, stdin):
    stdin(RIVERS.encode())
    assert bankml("generate", "--max", 12).out == SAID + "\n"
    stdin(RIVERS.encode())
    assert bankml("generate", "smollm2-135m-instruct", "--max", 12).out == SAID + "\n"


def test_messages(bankml, stdin, tmp_path):
    chat = [{"role": "user", "content": RIVERS}]
    file = tmp_path / "chat.json"
    file.write_text(json.dumps(chat))
    assert bankml("generate", "--messages", file, "--max", 12).out == SAID + "\n"
    stdin(json.dumps({"messages": chat}).encode())
    assert bankml("generate", "smollm2-135m-instruct", "--messages", "-", "--max", 12).out == SAID + "\n"


def test_logprobs(bankml, stdin):
    asked = ("generate", RIVERS, "--max", 4, "--logprobs", 3)
    answer = json.loads(bankml(*asked, "--json").out)
    assert [each["id"] for each in answer["logprobs"]] == answer["tokens"]
    assert all(each["logprob"] == each["top_logprobs"][0]["logprob"] for each in answer["logprobs"])
    assert [len(each["top_logprobs"]) for each in answer["logprobs"]] == [3] * 4
    assert "--json" in bankml(*asked).err


def test_json(bankml, stdin):
    answer = json.loads(bankml("generate", RIVERS, "--max", 12, "--json").out)
    assert answer["text"] == SAID
    assert answer["tokens"] == [19556, 665, 28, 10668, 288, 957, 905, 17, 339, 5248, 1535, 288]
    assert (answer["prompt_tokens"], answer["completion_tokens"], answer["finish_reason"]) == (33, 12, "length")
    assert answer["model_sha256"] == "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
    assert answer["pinned"] is True
    assert answer["timings"]["ttft_ms"] > 0


def test_raw_and_stop(bankml, stdin):
    answer = bankml("generate", "--raw", "1, 2, 3,", "--max", 20, "--stop", " 7")
    assert answer.out == " 4, 5, 6,\n"


def test_drawn_with_a_seed(bankml, stdin):
    asked = ("generate", RIVERS, "--max", 12, "--json")
    first, again, other = (json.loads(bankml(*asked, "--seed", seed).out) for seed in (7, 7, 8))
    assert first["tokens"] == again["tokens"] != other["tokens"]
    assert (first["seed"], other["seed"]) == (7, 8)
    assert json.loads(bankml(*asked, "--top-k", 1, "--seed", 3).out)["text"] == SAID


def test_unpinned_file(bankml, stdin, home):
    (home / "forks" / "SmolLM2-135M-Instruct.Q4_1.gguf.FORK.json").unlink()
    refused = bankml("generate", RIVERS)
    assert (refused.code, refused.out) == (2, "")
    assert "unpinned" in refused.err
    allowed = bankml("generate", RIVERS, "--max", 12, "--allow-unpinned", "--json")
    assert allowed.code == 0
    assert json.loads(allowed.out)["pinned"] is False
    assert "unpinned: no record vouches for sha256 b179c9523d0e6a0f" in allowed.err


@pytest.mark.parametrize(
    ("arguments", "data", "code", "word"),
    [
        (["a", "b", "c"], b"", 1, "quote the prompt"),
        (["no-such-model", "hi"], b"", 1, "no-such-model"),
        (["--messages", "missing.json"], b"", 1, "missing.json"),
        (["--messages", "-"], b"{", 2, "not JSON"),
        (["--messages", "-"], b"[1]", 2, "list of messages"),
        (["--messages", "-"], b'{"a": 1}', 2, "list of messages"),
        (["--messages", "-"], b"\xff", 2, "UTF-8"),
        (["--messages", "-"], b'[{"role": "user"}]', 2, "content"),
        (["--messages", "-", "--raw"], b"[]", 1, "--raw"),
        ([], b"a\xffb", 2, "byte 1"),
        (["hi", "--max", "-2"], b"", 1, "--max"),
        (["hi", "--top-p", "x"], b"", 1, "--top-p"),
        (["hi", "--ctx", "256", "--raw", "--system", "x"], b"", 1, "--raw"),
    ],
)
def test_bad_input(bankml, stdin, arguments, data, code, word):
    stdin(data)
    answer = bankml("generate", *arguments)
    assert answer.code == code
    assert word in answer.err
    assert answer.out == ""
    assert "Traceback" not in answer.err


def test_prompt_past_the_context(bankml, stdin):
    answer = bankml("generate", "word " * 400, "--ctx", 256)
    assert answer.code == 2
    assert "exceeds the available context size (256 tokens)" in answer.err


def test_no_prompt_at_a_terminal(bankml, stdin):
    stdin(b"", tty=True)
    answer = bankml("generate")
    assert answer.code == 1
    assert "there is no prompt" in answer.err


def test_control_characters_are_shown_where_a_terminal_would_obey():
    from bankml.cli.generate import _harmless

    assert _harmless("a\x1b[31m\tb\n\x07é") == "a\\x1b[31m\tb\n\\x07é"


def test_grammar(bankml, stdin, tmp_path):
    file = tmp_path / "answer.gbnf"
    file.write_text('root ::= "maybe" | "never"\n')
    answer = bankml("generate", RIVERS, "--grammar", file)
    assert answer.out.strip() in ("maybe", "never")
    file.write_text("root ::= x\n")
    answer = bankml("generate", RIVERS, "--grammar", file)
    assert (answer.code, answer.out) == (2, "")
    assert "Undefined rule identifier 'x'" in answer.err
