# SPDX-License-Identifier: MIT OR Apache-2.0
"""``bankml template``: exactly the prompt on standard output."""

import io
import json

import pytest

MESSAGES = [{"role": "user", "content": "Grüße"}]


@pytest.fixture
def feed(monkeypatch, bankml, smollm2):
    def run(text, *args):
        data = text if isinstance(text, bytes) else text.encode()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        return bankml("template", smollm2, *args)

    return run


def test_the_prompt_and_nothing_else(feed):
    answer = feed(json.dumps(MESSAGES))
    assert answer.code == 0
    assert answer.out.endswith("<|im_start|>user\nGrüße<|im_end|>\n<|im_start|>assistant\n")
    assert answer.err == ""


def test_a_whole_request(feed):
    answer = feed(json.dumps({"messages": MESSAGES, "add_generation_prompt": False}))
    assert answer.out.endswith("Grüße<|im_end|>\n")


def test_another_template_and_another_time(feed, tmp_path):
    file = tmp_path / "t.jinja"
    file.write_text("{{ bos_token }}{{ strftime_now('%Y') }}{{ messages[0].content }}\n\n", encoding="utf-8")
    answer = feed(json.dumps(MESSAGES), "--template-file", file, "--now", "1999-12-31T23:59:59")
    assert answer.out == "<|im_start|>1999Grüße\n"


def test_as_json(feed):
    told = json.loads(feed(json.dumps(MESSAGES), "--json").out)
    assert told["prompt"].endswith(told["generation_prompt"])
    assert told["stops"] == []


def test_capabilities(feed):
    caps = json.loads(feed("", "--caps").out)
    assert caps["supports_system_role"] is True
    assert list(caps) == sorted(caps)


def test_lines_of_requests(feed):
    lines = [{"messages": MESSAGES}, {"messages": 5}, MESSAGES]
    answer = feed("\n".join(map(json.dumps, lines)) + "\n\nno json\n", "--jsonl")
    told = [json.loads(line) for line in answer.out.splitlines()]
    assert answer.code == 0
    assert told[0]["prompt"] == told[2]["prompt"]
    assert told[1]["error"]["message"] == "Expected 'messages' to be an array"
    assert told[1]["error"]["status"] == 400
    assert told[3]["error"]["code"] == "template.json"
    assert told[3]["error"]["where"] == "line 5"


@pytest.mark.parametrize("text", ["", "{", "5", '"x"', "{}", '[{"role": "user"}]', b"\xff", "[" * 100000, "NaN"])
def test_bad_input_is_refused_in_one_line(feed, text):
    answer = feed(text)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("bankml: ")
    assert answer.err.count("\n") == 1


def test_bad_options(feed, tmp_path):
    assert feed("[]", "--now", "yesterday").code == 1
    assert feed("[]", "--template-file", tmp_path / "none").code == 1
    bad = tmp_path / "bad.jinja"
    bad.write_text("{% if %}")
    answer = feed("[]", "--template-file", bad)
    assert answer.code == 2
    assert "line 1" in answer.err
