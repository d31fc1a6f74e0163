# SPDX-License-Identifier: MIT OR Apache-2.0
"""``bankml generate`` in this process, on the real default model."""

import hashlib
import io
import json
import subprocess
import sys

import pytest


@pytest.fixture(autouse=True)
def home(home_with_smollm2):
    return home_with_smollm2


@pytest.fixture(scope="module")
def loaded():
    engines = {}
    yield engines
    for engine in engines.values():
        engine.close()


@pytest.fixture(autouse=True)
def loaded_once(monkeypatch, loaded):
    """Each way to load the file is taken once for all tests here; every command verifies it, and begins with empty cells."""
    from bankml.core.engine import Engine

    load = Engine.open

    def opened(path, options, *, verified, progress):
        key = (path.resolve(), options)
        first = loaded[key] = loaded.get(key) or load(path, options, verified=verified, progress=progress)
        monkeypatch.setattr(Engine, "close", lambda _: None)
        return Engine(first.gguf, first.tokenizer, first.model, n_ctx=options.n_ctx, verified=verified, inexact=first.inexact)

    monkeypatch.setattr(Engine, "open", opened)


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
        (["hi", "--ctx", "9" * 30], b"", 1, "0 to 2147483647"),
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


def test_the_whole_chain_as_flags(bankml, stdin):
    flags = (
        *("--temp", 0.9, "--top-k", 0, "--top-p", 0.9, "--min-p", 0.1, "--top-nsigma", 2, "--typical", 0.9, "-s", 3),
        *("--xtc-probability", 0.5, "--xtc-threshold", 0.2, "--min-keep", 2, "--dynatemp-range", 0.3, "--dynatemp-exp", 1.5),
        *("--repeat-last-n", 32, "--repeat-penalty", 1.1, "--presence-penalty", 0.1, "--frequency-penalty", 0.2),
        *("--dry-multiplier", 0.8, "--dry-base", 2, "--dry-allowed-length", 1, "--dry-penalty-last-n", 16),
        *("--dry-sequence-breaker", "\n", "--dry-sequence-breaker", ",", "-l", "28+1.5", "-l", "17-inf", "--ignore-eos"),
        *("--adaptive-target", 0.4, "--adaptive-decay", 0.5, "--mirostat-ent", 4, "--mirostat-lr", 0.2),
        *("--samplers", "dry;top-k;temp;adaptive_p"),
    )
    answer = json.loads(bankml("generate", RIVERS, "--max", 3, "--json", *flags).out)
    told = answer["sampling"]
    assert told["samplers"] == ["dry", "top_k", "temperature", "adaptive_p"]
    assert told["logit_bias"][:2] == [[28, 1.5], [17, None]]
    assert len(told["logit_bias"]) > 2
    assert told["dry_sequence_breakers"] == ["\n", ","]
    assert (told["seed"], told["top_k"], told["min_keep"], told["repeat_last_n"], told["mirostat"]) == (3, 0, 2, 32, 0)
    for name, value in {
        **{"temperature": 0.9, "top_p": 0.9, "min_p": 0.1, "top_n_sigma": 2, "typical_p": 0.9, "adaptive_target": 0.4},
        **{"xtc_probability": 0.5, "xtc_threshold": 0.2, "dynatemp_range": 0.3, "dynatemp_exponent": 1.5, "dry_base": 2},
        **{"repeat_penalty": 1.1, "presence_penalty": 0.1, "frequency_penalty": 0.2, "dry_multiplier": 0.8},
        **{"adaptive_decay": 0.5, "mirostat_tau": 4, "mirostat_eta": 0.2},
    }.items():
        assert told[name] == pytest.approx(value)


def test_penalties_and_biases_leave_it_greedy(bankml, stdin):
    first = 19556
    answer = json.loads(bankml("generate", RIVERS, "--max", 2, "--json", "-l", f"{first}-inf", "--repeat-penalty", 1.2).out)
    assert answer["sampling"]["temperature"] == 0
    assert first not in answer["tokens"]


def test_probabilities_after_sampling(bankml, stdin):
    asked = ("generate", RIVERS, "--max", 2, "--logprobs", 2, "--json", "--temp", 1, "--seed", 1)
    answer = json.loads(bankml(*asked, "--post-sampling-probs").out)
    assert all(0 < each["prob"] <= 1 for each in answer["logprobs"])


@pytest.mark.parametrize(
    ("flags", "code", "word"),
    [
        (("-l", "28"), 1, "28-1.5"),
        (("-l", "x+1"), 1, "28-1.5"),
        (("-l", "99999+1"), 2, "99999"),
        (("--samplers", "top_k;nope"), 1, "'nope'"),
        (("--sampler-seq", "k7"), 1, "'7'"),
        (("--samplers", "infill"), 2, "infill"),
        (("--mirostat", 3), 1, "--mirostat"),
        (("--repeat-penalty", 0), 2, "penalty_repeat"),
        (("--dry-sequence-breaker", "none"), 1, "breakers"),
        (("--post-sampling-probs",), 1, "--logprobs"),
        (("--min-keep", -1), 2, "min_keep"),
    ],
)
def test_flags_that_cannot_be_honoured(bankml, stdin, flags, code, word):
    answer = bankml("generate", RIVERS, "--max", 1, *flags)
    assert (answer.code, answer.out) == (code, "")
    assert word in answer.err


CITY = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12}, "year": {"type": "integer", "minimum": 1000}},
    "required": ["city", "year"],
}
ASK = "Name a city and a year."


def test_schema(bankml, stdin, tmp_path):
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(CITY))
    told = bankml("generate", ASK, "--schema", file, "--max", 60)
    value = json.loads(told.out)
    assert isinstance(value["city"], str) and len(value["city"]) <= 12 and value["year"] >= 1000
    answer = json.loads(bankml("generate", ASK, "--schema", file, "--max", 60, "--json").out)
    assert json.loads(answer["text"]) == value
    grammar = bankml("grammar", "from-schema", file, "--model", "smollm2-135m-instruct").out
    assert answer["grammar_sha256"] == hashlib.sha256(grammar.encode()).hexdigest()
    members = json.loads(bankml("grammar", "from-schema", file, "--model", "smollm2-135m-instruct", "--json").out)
    assert (members["grammar"], members["prefill"]) == (grammar, "<|im_start|>assistant\n")


def test_schema_of_a_text_that_is_continued(bankml, stdin, tmp_path):
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(CITY))
    answer = json.loads(bankml("generate", "--raw", "A city: ", "--schema", file, "--max", 60, "--json").out)
    assert json.loads(answer["text"])["year"] >= 1000
    grammar = bankml("grammar", "from-schema", file).out
    assert answer["grammar_sha256"] == hashlib.sha256(grammar.encode()).hexdigest()


def test_json_mode(bankml, stdin):
    answer = bankml("generate", RIVERS, "--json-mode", "--max", 12)
    assert answer.out.startswith("{")
    assert not answer.out.startswith(SAID)


@pytest.mark.parametrize(
    ("schema", "flags", "code", "word"),
    [
        ("[]", (), 2, "an object"),
        ("{", (), 2, "no JSON"),
        ('{"type": "what"}', (), 2, "what"),
        ("{}", ("--json-mode",), 1, "give one"),
    ],
)
def test_schemas_that_bind_nothing(bankml, stdin, tmp_path, schema, flags, code, word):
    file = tmp_path / "schema.json"
    file.write_text(schema)
    answer = bankml("generate", ASK, "--max", 1, "--schema", file, *flags)
    assert (answer.code, answer.out) == (code, "")
    assert word in answer.err


def test_an_answer_with_samplers_is_given_without_the_compiler(home, tmp_path):
    grammar = tmp_path / "letters.gbnf"
    grammar.write_text("root ::= [a-z ]+")
    # The first start compiles what is missing, in other processes.
    code = f"""
import sys
from bankml.cli.main import main
flags = ["--max", "2", "--seed", "1", "--dry-multiplier", "0.5", "--xtc-probability", "0.5", "--grammar", {str(grammar)!r}]
for _ in range(2):
    assert main(["generate", "Say hi.", *flags]) == 0
print("numba" in sys.modules, "llvmlite" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False True"
