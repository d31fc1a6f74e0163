# SPDX-License-Identifier: MIT OR Apache-2.0
"""Answers bound by a grammar, over HTTP."""

from __future__ import annotations

from .conftest import Served


def test_an_answer_fits_its_grammar(served: Served) -> None:
    answer = served.chat(max_tokens=8, temperature=0, grammar='root ::= "maybe" | "never"', verbose=True)
    assert answer.status_code == 200
    said = answer.json()
    assert said["choices"][0]["message"]["content"] in ("maybe", "never")
    assert said["choices"][0]["finish_reason"] == "stop"
    assert said["__verbose"]["generation_settings"]["grammar"] == 'root ::= "maybe" | "never"'


def test_a_stream_fits_its_grammar(served: Served) -> None:
    answer = served.chat(max_tokens=6, temperature=0, grammar='root ::= ("x" | "y"){3}', stream=True)
    assert answer.status_code == 200
    assert "content" in answer.text


def test_what_is_no_grammar_is_refused_in_the_servers_words(served: Served) -> None:
    for grammar in ("root ::= x", 'root ::= root "a"', "root", 'a ::= "b"', 'root ::= "a"{5,2}', "(" * 5000):
        for stream in (False, True):
            answer = served.chat(max_tokens=2, grammar=grammar, stream=stream)
            error = answer.json()["error"]
            assert answer.status_code == 400
            assert (error["message"], error["type"]) == (
                "Failed to initialize samplers: failed to parse grammar",
                "invalid_request_error",
            )


def test_a_grammar_that_is_no_text_is_refused(served: Served) -> None:
    answer = served.chat(max_tokens=2, grammar=5)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "/grammar"


def test_where_nothing_fits_the_answer_ends_with_an_error(served: Served) -> None:
    # No token spells this code point.
    answer = served.chat(max_tokens=4, grammar='root ::= "a" [\\U003FFFFF]')
    assert answer.status_code == 500
    assert served.chat(max_tokens=1).status_code == 200
