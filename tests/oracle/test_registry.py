# SPDX-License-Identifier: MIT OR Apache-2.0
import pytest

from bankml.core.oracle.kinds._serve_requests import odd_fields
from bankml.core.oracle.registry import KINDS, load_kind
from bankml.core.refusal import Refusal


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_says_what_it_checks_and_against_what(name):
    kind = load_kind(name)
    assert kind.name == name
    assert kind.checks
    assert kind.against
    assert "\n" not in kind.checks + kind.against
    assert isinstance(kind.small, bool)


def test_an_unknown_kind_is_refused_with_the_known_ones():
    with pytest.raises(Refusal) as refused:
        load_kind("taste")
    assert "tokenizer" in refused.value.line()


def test_odd_requests_go_to_the_chat_route():
    asked = odd_fields()
    assert len(asked) > 300
    assert {each["path"] for each in asked} == {"/v1/chat/completions"}
