# SPDX-License-Identifier: MIT OR Apache-2.0
"""JSON schemas as grammars: what the record does not show."""

import json

import pytest

from bankml.core.constrain.grammar import Grammar
from bankml.core.constrain.schema import grammar_of, grammar_of_text
from bankml.core.constrain.trie import VocabularyTrie
from bankml.core.json.doubles import number
from bankml.refusal import Refusal
from tests.steps import calls

pytestmark = pytest.mark.long

PERSON = """{"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}, "age": {"type": "integer", "minimum": 0,
"maximum": 130}, "tag": {"enum": ["a", 1.50]}}, "required": ["name", "age"]}"""


# A token is a byte.
BYTES = VocabularyTrie([bytes([byte]) for byte in range(256)], frozenset())


def fits(grammar, text):
    for byte in text.encode():
        if not grammar.allows(byte):
            return False
        grammar.accept(byte)
    return grammar.may_end


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"name": "Ada", "age": 36}', True),
        ('{"name":"Ada","age":130,"tag":1.5}', True),
        ('{"name": "Ada", "age": 131}', False),
        ('{"name": "Ada", "age": 036}', False),
        ('{"age": 36, "name": "Ada"}', False),
        ('{"name": "Augusta", "age": 36}', False),
    ],
)
def test_the_grammar_takes_what_the_schema_takes(text, expected):
    grammar = Grammar.parse(grammar_of_text(PERSON.encode()).text, vocabulary=BYTES)
    assert fits(grammar, text) is expected


def test_warnings_say_what_is_not_held_to():
    made = grammar_of({"type": "string", "pattern": "^\\d$"})
    assert made.warnings == ["pattern ^\\d$ is not supported (unsupported escape: \\d), accepting any string"]


@pytest.mark.parametrize(
    ("schema", "where"),
    [({"properties": {"a": {"type": "what"}}}, "#/properties/a"), ({"anyOf": [{}, {"enum": []}]}, "#/anyOf/1")],
)
def test_refusals_have_paths(schema, where):
    with pytest.raises(Refusal) as caught:
        grammar_of(schema)
    assert caught.value.where == where
    assert caught.value.message.startswith(f"JSON schema conversion failed:\nJSON schema error at {where}: ")


@pytest.mark.parametrize("text", [b"", b"{", b'{"a": NaN}', b'{"const": 1e999}', b'{"const": "\\ud800"}', b"\xff"])
def test_what_is_no_json_is_refused(text):
    with pytest.raises(Refusal) as caught:
        grammar_of_text(text)
    assert caught.value.code == "schema.json"


def nested(levels):
    return '{"items": ' * levels + '{"type": "null"}' + "}" * levels


def doubled(levels):
    schema = {"type": "null"}
    for _ in range(levels):
        schema = {"type": ["object", "object"], "properties": {"a": schema}}
    return json.dumps(schema)


HARD = {
    "nested": nested(5000),
    "types": doubled(40),
    "names": json.dumps({"properties": {"_" * (i + 1): {"const": i} for i in range(3000)}}),
    "optional": json.dumps({"properties": {f"p{i}": {"type": "string"} for i in range(3000)}}),
    "references": json.dumps({"$ref": "#/r/0", "r": [{"$ref": f"#/r/{i + 1}"} for i in range(3000)] + [{}]}),
    "loop": json.dumps({"allOf": [{"$ref": "#/r"}], "r": {"$ref": "#/r"}}),
    "values": json.dumps({"enum": list(range(100_000))}),
    "long name": json.dumps({"properties": {"x" * 20_000: {}}, "additionalProperties": True}),
    "pattern": json.dumps({"type": "string", "pattern": "^" + "(" * 100_000 + "$"}),
    "counts": json.dumps({"type": "string", "pattern": "^((((a{1000}){1000}){1000}){1000}){1000}$"}),
    "patterns": json.dumps({"properties": {f"p{i}": {"pattern": "^[a-z]{3}$"} for i in range(3000)}}),
}


@pytest.mark.parametrize("name", HARD)
def test_crafted_schemas_cost_little(name):
    def use():
        try:
            Grammar.parse(grammar_of_text(HARD[name].encode()).text)
        except Refusal as refusal:
            assert refusal.code in ("schema.limit", "grammar.limit", "grammar.syntax")

    assert calls(use) < 10_000 + 128 * len(HARD[name])


def test_a_hundred_rules_take_little_work():
    schema = {
        "properties": {f"p{i}": {"type": "integer", "minimum": i, "maximum": 9 * i + 7} for i in range(50)},
        "type": "object",
    }
    assert grammar_of(schema).text.count(b"\n") >= 100
    assert calls(lambda: grammar_of(schema)) < 10_000


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1e15, "1e+15"),
        (1e14, "100000000000000.0"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (5e-324, "5e-324"),
    ],
)
def test_doubles(value, text):
    assert number(value) == text


def test_from_schema_command(bankml, tmp_path):
    file = tmp_path / "schema.json"
    file.write_text('{"type": "boolean"}')
    answer = bankml("grammar", "from-schema", file, "--json")
    assert answer.code == 0
    assert json.loads(answer.out)["grammar"].startswith('root ::= ("true" | "false")\nspace ::= ')
    file.write_text('{"type": "yes"}')
    assert bankml("grammar", "from-schema", file).code == 2
