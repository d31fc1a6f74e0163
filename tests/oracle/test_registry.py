# SPDX-License-Identifier: MIT OR Apache-2.0
from pathlib import Path

import pytest

from bankml.oracle.cases.serve import odd_fields
from bankml.oracle.kinds import serve
from bankml.oracle.kinds.grammar import KIND as GRAMMAR
from bankml.oracle.options import NUMBER, Option, declared, refuse_idle, resolved
from bankml.oracle.record import read_record
from bankml.oracle.registry import KINDS, load_kind
from bankml.refusal import Refusal

ROOT = Path(__file__).parent.parent.parent
RECORDS = sorted((ROOT / "tests" / "records").rglob("*.json.gz"))


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_says_what_it_checks_and_against_what(name):
    kind = load_kind(name)
    assert kind.name == name
    assert kind.checks
    assert kind.against
    assert "\n" not in kind.checks + kind.against
    assert isinstance(kind.small, bool)


@pytest.mark.parametrize(
    ("kind", "given", "says"),
    [
        ("operations", {"sed": 5}, "no such option"),
        ("guard", {"seed": 5}, "no option"),
        ("greedy", {"script": "shrt"}, "short, long"),
        ("greedy", {"first": 0}, "from 1"),
        ("logprobs", {"cache_type": "q4_0"}, "f16, q8_0"),
        ("attention", {"shapes": [[64, 1], 5]}, "lists of whole numbers"),
        ("model", {"scripts": {"3": ["x"]}}, "lists of whole numbers"),
        ("kernels", {"types": ["Q4_0", 1]}, "list of names"),
        ("libm", {"every": 2}, "true or false"),
    ],
)
def test_options_that_a_kind_cannot_read(kind, given, says):
    with pytest.raises(Refusal) as refused:
        resolved(kind, load_kind(kind).options, given)
    assert says in refused.value.line()
    assert refused.value.code == "oracle.option"


@pytest.mark.parametrize("path", RECORDS, ids=[path.name for path in RECORDS])
def test_the_options_of_every_record_can_be_asked_again(path):
    record = read_record(path)
    values = resolved(record.kind, load_kind(record.kind).options, record.options)
    assert values | record.options == values


def test_an_option_that_would_change_nothing_is_refused():
    options = declared(seed=Option(NUMBER, 1))
    refuse_idle(options, {"seed": 1}, ("seed",), "here")
    with pytest.raises(Refusal, match="means nothing here"):
        refuse_idle(options, {"seed": 2}, ("seed",), "here")


def test_an_unknown_kind_is_refused_with_the_known_ones():
    with pytest.raises(Refusal) as refused:
        load_kind("taste")
    assert "tokenizer" in refused.value.line()


def test_odd_requests_go_to_the_chat_route():
    asked = odd_fields()
    assert len(asked) > 300
    assert {each["path"] for each in asked} == {"/v1/chat/completions"}


def test_the_page_names_all_that_answers_are_not_compared_by():
    page = (ROOT / "docs" / "oracles" / "serve.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    answer = dict.fromkeys(serve.LEFT_OUT | serve.VARY | serve.CLOCKS, 5)
    kept = serve.normal(answer)
    for row, gone in zip(rows[1:], (True, True, False, False), strict=True):
        names = row.split("|")[2].replace("`", "").replace(" ", "").split(",")
        for name in names:
            assert (name in kept) is not gone
            del answer[name]
    assert not answer


def test_a_reason_that_differs_where_it_is_no_longer_shown_is_a_difference(smollm2):
    text = 'root := "' + "x" * 200 + '"'
    reason = "expecting ::= at " + text.removeprefix("root ")
    for recorded, same in (
        (reason, True),
        (reason[:-1], False),
        (reason + "x", False),
        (reason[:95], False),
        ("expecting", False),
    ):
        tally = GRAMMAR.compare({"grammars": [], "refusals": [{"text": text, "reason": recorded}]}, smollm2)
        assert tally.passed is same, recorded
