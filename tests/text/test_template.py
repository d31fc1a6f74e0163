# SPDX-License-Identifier: MIT OR Apache-2.0
"""Chat templates: the class that the engine uses, and what of a request reaches a template."""

import hashlib
from datetime import UTC, datetime, timedelta, timezone

import pytest

from bankml.core.chat.template import ChatTemplate
from bankml.core.chat.template_analysis import difference, segments
from bankml.core.chat.template_formats import find_format, gemma_messages
from bankml.core.gguf.reader import GgufFile
from bankml.core.gguf.types import ARRAY, BOOL, F32, STRING, U32
from bankml.core.gguf.writer import write_gguf
from bankml.core.tokenizer.tokenizer import Tokenizer
from bankml.oracle.cases.template_samples import SAMPLES
from bankml.refusal import Refusal

HELLO = [{"role": "user", "content": "Hello"}]
SHOW = "{% for m in messages %}{{ m | tojson }}\n{% endfor %}"


class NoEnds:
    """A tokenizer without a first and a last token."""

    bos = eos = None
    add_bos = add_eos = False


def refusal(template, body):
    with pytest.raises(Refusal) as caught:
        template.apply(body)
    return caught.value


def test_the_default_model_s_own_template(smollm2):
    with GgufFile.open(smollm2) as gguf:
        template = ChatTemplate.from_gguf(gguf)
        again = ChatTemplate.from_gguf(gguf, tokenizer=Tokenizer.from_gguf(gguf))
    text = template.render([{"role": "system", "content": "Be brief."}, *HELLO])
    assert text == "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    assert "named SmolLM" in template.render(HELLO)
    assert again.render(HELLO) == template.render(HELLO)
    prompt = template.apply({"messages": HELLO})
    assert prompt.raw == prompt.text.encode()
    assert prompt.generation_prompt == b"<|im_start|>assistant\n"
    assert prompt.stops == ()


def test_another_source_with_the_model_s_tokens(smollm2):
    with GgufFile.open(smollm2) as gguf:
        template = ChatTemplate.from_gguf(gguf, source="{{ bos_token }}{{ eos_token }}")
    assert template.render(HELLO) == "<|im_start|><|im_end|>"


def test_without_a_template_it_is_chatml():
    expected = "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    assert ChatTemplate("").render(HELLO) == ChatTemplate("chatml").render(HELLO) == expected


def test_chatml_is_the_reference_s_to_the_byte():
    source = ChatTemplate("").source.encode()
    assert len(source) == 208
    assert hashlib.sha256(source).hexdigest().startswith("cc145ac597328b60")


@pytest.mark.parametrize(
    ("pairs", "wanted"),
    [
        ([("tokenizer.chat_template", STRING, "x{{ 1 }}")], "x1"),
        ([("tokenizer.chat_template", U32, 5)], "5"),
        ([("tokenizer.chat_template", BOOL, True)], "true"),
        ([("tokenizer.chat_template", F32, 0.5)], "0.500000"),
        ([("tokenizer.chat_template", (ARRAY, STRING), ["x"])], "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"),
        ([("tokenizer.chat_template.tool_use", STRING, "y")], "y"),
        ([("tokenizer.ggml.pre", STRING, "tekken"), ("llama.block_count", U32, 40)], "mistral-v7-tekken"),
        (
            [("tokenizer.ggml.pre", STRING, "tekken"), ("llama.block_count", U32, 39)],
            "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n",
        ),
    ],
)
def test_what_a_file_has_for_a_template(tmp_path, pairs, wanted):
    write_gguf(tmp_path / "t.gguf", [("general.architecture", STRING, "llama"), *pairs], [])
    with GgufFile.open(tmp_path / "t.gguf") as gguf:
        assert ChatTemplate.from_gguf(gguf, tokenizer=NoEnds()).render(HELLO) == wanted


def test_what_the_tokenizer_adds_is_taken_off():
    source = "{{ bos_token }}{{ bos_token }}x{{ eos_token }}"
    assert ChatTemplate(source, "<s>", "</s>").render(HELLO) == "<s><s>x</s>"
    assert ChatTemplate(source, "<s>", "</s>", add_bos=True, add_eos=True).render(HELLO) == "<s>x"
    assert ChatTemplate(source, "", "", add_bos=True, add_eos=True).render(HELLO) == "x"


def test_the_template_for_tools_serves_requests_with_tools():
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    template = ChatTemplate("plain", tool_source="tools {{ tools[0].function.name }}")
    assert template.render(HELLO) == "plain"
    assert template.render(HELLO, tools=[]) == "plain"
    assert template.render(HELLO, tools=[tool]) == "tools f"


def test_the_clock_is_the_caller_s():
    template = ChatTemplate("{{ strftime_now('%Y-%m-%d %H:%M') }} {{ date_string }} {{ datetime }}")
    expected = "2025-02-03 04:05 03 Feb 2025 Feb 03 2025"
    assert template.render(HELLO, now=datetime(2025, 2, 3, 4, 5)) == expected
    assert template.render(HELLO, now=datetime(2025, 2, 3, 4, 5, tzinfo=UTC)) == expected
    assert template.render(HELLO, now=datetime(2025, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=9)))) == expected
    zoned = ChatTemplate("{{ strftime_now('%z') }}").render(HELLO, now=datetime(2025, 2, 3, tzinfo=timezone(timedelta(hours=9))))
    assert zoned == "+0900"


def test_kwargs_reach_the_template_and_the_server_s_stand_under_them():
    template = ChatTemplate("{{ enable_thinking }}{{ preserve_thinking }}{{ custom }}{{ tools is defined }}")
    assert template.render(HELLO) == "FalseTrueFalse"
    kwargs = {"custom": "c", "enable_thinking": True, "preserve_reasoning": False}
    assert template.render(HELLO, kwargs=kwargs) == "TrueFalsecFalse"


def test_a_byte_that_is_no_text_stays_in_the_raw_prompt():
    prompt = ChatTemplate("{{ messages[0].content[:1] }}!").apply({"messages": [{"role": "user", "content": "é"}]})
    assert prompt.raw == b"\xc3!"
    assert prompt.text == "\ufffd!"


@pytest.mark.parametrize(
    ("source", "code", "where"),
    [
        ("a\n{% if x %}", "template.syntax", "line 2, column 9"),
        ("{{ 'x }}", "template.syntax", "line 1, column 4"),
        ("{% frobnicate %}", "template.syntax", "line 1, column 4"),
        ("{{ 1 ? 2 }}", "template.syntax", "line 1, column 6"),
        ("{{ raise_exception('no') }}", "template.load", None),
        (SAMPLES["calls-no-json"], "template.load", None),
    ],
)
def test_a_template_that_llama_server_would_not_start_with(source, code, where):
    with pytest.raises(Refusal) as caught:
        ChatTemplate(source)
    assert (caught.value.code, caught.value.where) == (code, where)


def test_the_template_s_own_refusal_is_a_bad_request():
    error = refusal(ChatTemplate(SAMPLES["raises-late"]), {"messages": [{"role": "user", "content": "Bye"}]})
    assert (error.status, error.kind, error.code) == (400, "invalid_request_error", "template.error")
    assert error.message.startswith("Unable to generate parser for this template.")
    assert error.message.endswith("Error: Jinja Exception: told to fail at 1 — é")


@pytest.mark.parametrize(
    ("body", "status", "where"),
    [
        ({}, 400, None),
        ({"messages": None}, 400, "/messages"),
        ({"messages": [None]}, 400, "/messages/0"),
        ({"messages": [{"role": "user", "content": 1}]}, 400, "/messages/0/content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 500, "/messages/0/content/0"),
        ({"messages": [{"content": "x"}]}, 500, "/messages/0"),
        ({"messages": [*HELLO, {"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}]}, 400, "/messages"),
        ({"messages": HELLO, "top_logprobs": 1}, 400, "/top_logprobs"),
    ],
)
def test_a_refused_request_says_where(body, status, where):
    error = refusal(ChatTemplate(SHOW), body)
    assert (error.code, error.status, error.where) == ("template.messages", status, where)


def test_half_a_surrogate_pair_is_refused():
    assert refusal(ChatTemplate(SHOW), {"messages": [{"role": "user", "content": "\ud800"}]}).code == "template.messages"


def test_a_request_is_not_changed_by_rendering():
    messages = [{"role": "developer", "content": "x"}, {"role": "user", "content": [{"type": "text", "text": "y"}]}]
    template = ChatTemplate(
        "{% set _ = messages[0] %}{% set _.role = 'z' %}{% for m in messages %}{{ m.role }}{{ m.content }}{% endfor %}"
    )
    first = template.render(messages)
    assert messages == [{"role": "developer", "content": "x"}, {"role": "user", "content": [{"type": "text", "text": "y"}]}]
    assert template.render(messages) == first


def test_a_last_assistant_message_is_continued():
    template = ChatTemplate(SAMPLES["thinking"])
    last = {"role": "assistant", "content": "The", "reasoning_content": "why"}
    prompt = template.apply({"messages": [*HELLO, last]})
    assert prompt.text.endswith("<|im_start|>assistant\n<think>\nwhy\n</think>\n\nThe")
    assert prompt.text.endswith(prompt.generation_prompt.decode())


def test_segments_and_differences():
    assert [s.value for s in segments(b"a<b>c[d]<e")] == [b"a", b"<b>", b"c", b"[d]", b"<e"]
    assert difference(b"<s>one</s>", b"<s>two</s>") == (b"one", b"two")
    assert difference(b"x", b"x<y>") == (b"", b"<y>")
    assert difference(b"", b"y") == (b"", b"y")


def test_formats_are_found_by_their_marks():
    found = find_format(SAMPLES["channels"].encode())
    assert found is not None and found.name == "GPT-OSS"
    assert find_format(SAMPLES["chatml"].encode()) is None
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": {}}}
    turn = gemma_messages(
        [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": '{"a": 1}', "tool_call_id": "1"},
            {"role": "assistant", "content": "done"},
        ]
    )
    assert turn == [
        {
            "role": "assistant",
            "tool_calls": [call],
            "tool_responses": [{"name": "f", "response": {"a": 1}}],
            "content": "done",
        }
    ]


def test_a_check_for_empty_messages_is_taken_out_of_a_template():
    check = (
        "{%- if (message['content'] is none or message['content'] == '' or message['content']|length == 0) and "
        "(message['tool_calls'] is not defined or message['tool_calls'] is none or message['tool_calls']|length == 0) %}"
    )
    source = (
        "{% for message in messages %}" + check + "{{ raise_exception('empty') }}{% endif %}<{{ message.content }}>{% endfor %}"
    )
    empty = {"messages": [*HELLO, {"role": "assistant", "content": ""}, *HELLO]}
    assert "empty" in refusal(ChatTemplate(source), empty).message
    assert ChatTemplate(source + "{# [TOOL_CALLS] #}").apply(empty).text == "<Hello><><Hello>"
