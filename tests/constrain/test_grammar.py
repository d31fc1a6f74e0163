# SPDX-License-Identifier: MIT OR Apache-2.0
"""Grammars: masks, UTF-8 across tokens, what is refused, what is too large."""

from pathlib import Path

import numpy as np
import pytest

from bankml.core.constrain.gbnf import MAX_ELEMENTS
from bankml.core.constrain.grammar import Grammar
from bankml.core.constrain.trie import VocabularyTrie
from bankml.oracle.record import read_record
from bankml.oracle.run import compare_record
from bankml.refusal import Refusal
from tests.steps import calls

RECORD = Path(__file__).parent / "records" / "grammar-qwen3.json.gz"
PIECES = [
    b"",
    b"a",
    b"b",
    b"ab",
    b"abc",
    b"\xc3",
    b"\xa9",
    b"\xc3\xa9",
    b"a\xc3",
    b"\xa9b",
    b"\x00",
    b"</s>",
    b"\xff",
    b"\xc0\x80",
]
END = 11


@pytest.fixture(scope="module")
def vocabulary():
    return VocabularyTrie(PIECES, frozenset({END}))


def passing(grammar):
    mask = grammar.mask()
    assert [grammar.allows(i) for i in range(len(PIECES))] == mask.tolist()
    return [PIECES[i] for i in np.flatnonzero(mask)]


def test_masks_and_steps(vocabulary):
    grammar = Grammar.parse('root ::= "a"+ "b"', vocabulary=vocabulary)
    # The reference's masks let a code point 0 pass anywhere.
    assert passing(grammar) == [b"a", b"ab", b"\xc0\x80"]
    grammar.accept(1)
    assert passing(grammar) == [b"a", b"b", b"ab", b"\xc0\x80"]
    grammar.accept(3)
    assert grammar.may_end
    assert passing(grammar) == [b"</s>", b"\xc0\x80"]


def test_a_character_may_be_cut_between_tokens(vocabulary):
    grammar = Grammar.parse('root ::= "aé" "b"?', vocabulary=vocabulary)
    grammar.accept(8)
    assert passing(grammar) == [b"\xa9", b"\xa9b"]
    grammar.accept(6)
    assert grammar.may_end
    assert passing(grammar) == [b"b", b"</s>", b"\xc0\x80"]


def test_token_terminals(vocabulary):
    grammar = Grammar.parse('root ::= !<[3]> <[4]> "b"', vocabulary=vocabulary)
    assert b"ab" not in passing(grammar)
    grammar.accept(1)
    assert passing(grammar) == [b"abc", b"\xc0\x80"]


def test_a_token_that_does_not_pass_changes_nothing(vocabulary):
    grammar = Grammar.parse('root ::= "a"', vocabulary=vocabulary)
    with pytest.raises(Refusal):
        grammar.accept(2)
    with pytest.raises(Refusal):
        grammar.accept(END)
    grammar.accept(1)
    assert passing(grammar) == [b"</s>", b"\xc0\x80"]


def test_forgetting_keeps_the_state(vocabulary):
    grammar = Grammar.parse('root ::= ("a" | "b" root "ab")+', vocabulary=vocabulary)
    for token in (2, 2, 1):
        grammar.accept(token)
    before = grammar.mask()
    grammar._state = grammar._machine.restart(grammar._state)
    assert (grammar.mask() == before).all()
    for token in (3, 3):
        grammar.accept(token)
    assert grammar.may_end


@pytest.mark.parametrize(
    ("text", "code", "where"),
    [
        ('root ::= "a"\nb ::= [x', "grammar.syntax", None),
        ('root ::= "a"\nb ::= ? ', "grammar.syntax", "line 2, column 9"),
        ('root ::= "a"{5,2}', "grammar.syntax", "line 1, column 18"),
        ("root ::= root", "grammar.left-recursion", None),
        ('a ::= "a"', "grammar.root", None),
        ("root ::= " + "(" * 300 + '"a"' + ")" * 300, "grammar.limit", None),
        ('root ::= "' + "x" * 1000 + '"{1000}', "grammar.limit", None),
    ],
)
def test_refusals(text, code, where):
    with pytest.raises(Refusal) as caught:
        Grammar.parse(text)
    assert (caught.value.code, caught.value.where) == (code, where)


HARD = {
    "repetitions": 'root ::= ((("a"{1000}){1000}){1000}){1000}',
    "optional": 'root ::= a a a a a a a a\na ::= ("a"? "b"?){600}',
    "growing": 'root ::= a root "x" | "y"\na ::= b\nb ::= "" | "z"',
    "chain": "\n".join(f"{f'r{i}' if i else 'root'} ::= r{i + 1} | r{i + 1} [a]" for i in range(5000)) + '\nr5000 ::= "q"',
    "doubling": "\n".join(f"{f'r{i}' if i else 'root'} ::= r{i + 1} r{i + 1}" for i in range(40)) + '\nr40 ::= "q" | ""',
    "alternatives": "root ::= (" + " | ".join(f'"w{i}"' for i in range(MAX_ELEMENTS // 5)) + ")*",
    "classes": "root ::= " + "a " * 20 + "\na ::= (x?){1000}\nx ::= [" + "".join(chr(0x4E00 + 2 * i) for i in range(15000)) + "]",
    "ambiguous": 'root ::= s\ns ::= [a-z] s s | [a-z] s | [a-z] | "b" s "c" s s',
}


@pytest.mark.parametrize("name", HARD)
def test_crafted_grammars_cost_little(name, vocabulary):
    Grammar.parse('root ::= "a"', vocabulary=vocabulary).mask()

    def use():
        try:
            grammar = Grammar.parse(HARD[name], vocabulary=vocabulary)
            grammar.mask()
            for _ in range(8):
                grammar.accept(1)
                grammar.mask()
        except Refusal as refusal:
            assert refusal.code in ("grammar.limit", "grammar.syntax", "grammar.rejected")

    assert calls(use) < 10_000 + 64 * len(HARD[name])


def test_qwen3(qwen3_vocabulary):
    tally = compare_record(read_record(RECORD), qwen3_vocabulary)
    assert tally.passed, f"{tally.identical} of {tally.total}\n" + "\n".join(tally.differences)


def test_check_command(bankml, tmp_path):
    file = tmp_path / "a.gbnf"
    file.write_text('root ::= "yes" | "no"\n')
    answer = bankml("grammar", "check", file, "--json")
    assert (answer.code, answer.out) == (0, '{"verdict": "parsed", "rules": 1, "elements": 7, "may_be_empty": false}\n')
    file.write_text("root ::= yes\n")
    answer = bankml("grammar", "check", file)
    assert (answer.code, answer.out) == (2, "")
    assert "Undefined rule identifier 'yes'" in answer.err
