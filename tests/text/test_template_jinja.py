# SPDX-License-Identifier: MIT OR Apache-2.0
"""The template engine against what the reference's own engine answered, and against templates that mean harm."""

import gzip
import json
import random
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bankml.core.chat.template import ChatTemplate
from bankml.core.jinja.errors import LimitError, LocatedError, SourceError
from bankml.core.jinja.program import Program
from bankml.core.jinja.values import from_python
from bankml.oracle.record import read_record
from bankml.refusal import Refusal
from testing.jinja.cases import VARIABLES, Programs
from tests.steps import calls

pytestmark = pytest.mark.long

RECORD = json.loads(gzip.decompress((Path(__file__).parent / "records" / "jinja.json.gz").read_bytes()))
TEMPLATES = Path(__file__).parents[1] / "records" / "template.json.gz"
NOW = time.struct_time((2026, 1, 31, 12, 0, 0, 5, 31, 0))


def run(template, variables=None):
    return Program(template.encode()).run(from_python(variables or {}), NOW).decode("utf-8", "replace")


def test_every_recorded_template_gives_the_reference_s_text_or_error():
    wrong = []
    for template, answer in RECORD["cases"]:
        try:
            mine = {"text": run(template, RECORD["variables"])}
        except LocatedError as error:
            mine = {"error": error.message.decode("utf-8", "replace")}
        except SourceError:
            # What the reference says of a source that does not parse is never shown to anyone.
            mine = answer if "error" in answer and "While executing" not in answer["error"] else {"error": ""}
        if mine != answer:
            wrong.append((template, answer, mine))
    assert not wrong[:3]
    assert len(RECORD["cases"]) > 1500


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{% for x in [1, 2] %}{% set y = x %}{% endfor %}[{{ y }}]", "[]"),
        ("{% for x in [1, 2] %}{{ y }}{% set y = x %}{% endfor %}", "1"),
        ("{% for x in [1, 2] %}a{% if x == 1 %}b{% continue %}{% endif %}{% endfor %}", "aa"),
        ("{% for x in [1] %}{% continue %}{% else %}none{% endfor %}", "none"),
        ("{% macro m() %}{{ x }}{% endmacro %}{% for x in [1, 2] %}{{ m() }}{% endfor %}", "12"),
        ("{% macro m(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ m(1, c=3) }}", "1"),
        ("{{ 'é' | length }}{{ 'é' | upper }}{{ 'ab'[-1] }}", "2é"),
        ("{{ none }}{{ {'a': 1} }}{{ [1, [none, 'x'], true] }}", "1xTrue"),
        ("{{ ('a b' ~ 'c') | title }}", "A BC"),
        ("a {% if true %}b{% endif %}", "b"),
        ("{{ 'ab'[-2] }}|{{ 'ab'[0] }}", "|a"),
        ("{{ true is integer }}{{ 1 is integer }}", "FalseTrue"),
        ("{{ range(-9223372036854775807, 9223372036854775807, 9223372036854775807) }}", "-92233720368547758070"),
        ("{{ 7 % 0 }}", "-9223372036854775808"),
        ("{{ strftime_now('%d %b %Y') }}", "31 Jan 2026"),
        ("{% generation %}x{% endgeneration %}", "x"),
    ],
)
def test_rules_that_are_the_reference_s_own(template, text):
    assert run(template) == text


LIMITS = {
    "loops": "{% for a in range(300) %}" * 3 + "{{ a }}" + "{% endfor %}" * 3,
    "empty loops": "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}",
    "range": "{{ range(1000000000) | length }}",
    "range down": "{{ range(0, -1000000000000, -1) | length }}",
    "repetition": "{{ 'x' * 200000000 }}",
    "repetition of nothing": "{{ '' * 9000000000000000000 }}",
    "doubling": "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    "doubling a list": "{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
    "replace": "{{ ('x' * 100000) | replace('x', 'y' * 100000) | length }}",
    "replace nothing": "{{ ('x' * 1000000) | replace('', 'y' * 1000) | length }}",
    "join": "{{ range(100000) | join('x' * 100000) | length }}",
    "indent": "{{ 'a' | indent(200000000) }}",
    "indent of lines": "{{ ('a\\n' * 100000) | indent(10000) | length }}",
    "json": "{{ [[[1]]] | tojson(indent=100000000) }}",
    "json separators": "{{ range(100000) | tojson(separators=('x' * 100000, ':')) | length }}",
    "text of copies": "{% set s = 'x' * 9000000 %}{{ [s, s, s, s, s, s, s, s, s, s] | string | length }}",
    "output": "{% set s = 'x' * 1000000 %}{% for i in range(100000) %}{{ s }}{% endfor %}",
    "copies": "{% set l = range(1000000) %}{% for i in range(300) %}{% set ns = l | list %}{% endfor %}",
    "pieces": "{{ ('a ' * 5000000).split(' ') | length }}",
    "reverse search": "{{ ('a' * 1000000).rsplit('b' ~ 'a' * 5000) | length }}",
    "recursion": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "branching": "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}",
    "parentheses": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "brackets": "{{ " + "[" * 5000 + "]" * 5000 + " }}",
    "negations": "{{ " + "not " * 5000 + "1 }}",
    "signs": "{{ " + "- " * 5000 + "1 }}",
    "ifs": "{% if 1 %}" * 3000 + "{% endif %}" * 3000,
    "or": "{{ 0" + " or 0" * 9000 + " }}",
    "filters": "{{ 'a'" + "|upper" * 9000 + " }}",
    "tokens": "{{ 1" + "+1" * 50000 + " }}",
    "source": "x" * 2000000,
    "cycle": "{% set l = [] %}{% set x = l.append(l) %}{{ l }}",
    "cycle as json": "{% set l = [] %}{% set x = l.append(l) %}{{ l | tojson }}",
    "shared": "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
    "deep list": "{% set ns = namespace(x=[1]) %}{% for i in range(50000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
    "equal strings": "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{% if s ~ 'b' == s ~ 'c' %}{% endif %}{% endfor %}",
    "time format": "{{ strftime_now('%Y' * 3000) }}",
    "division": "{{ 5 is divisibleby(0) }}",
}


@pytest.mark.parametrize("template", LIMITS.values(), ids=LIMITS)
def test_a_template_beyond_the_limits_is_refused_after_few_steps(template):
    def refused():
        with pytest.raises(Refusal) as caught:
            ChatTemplate(template)
        assert caught.value.code == "template.limit"

    # The budget of probes is 2,000,000 steps, each a few calls at most.
    assert calls(refused) < 7_000_000


@pytest.mark.parametrize("seed", range(4))
def test_nothing_but_an_error_of_the_template_or_a_limit_leaves_a_drawn_program(seed):
    programs, variables = Programs(100 + seed), from_python(VARIABLES)
    outcomes = set()
    for _ in range(500):
        source = programs.program().encode()
        try:
            Program(source).run(variables, NOW)
            outcomes.add("text")
        except (LocatedError, SourceError, LimitError) as error:
            outcomes.add(type(error).__name__)
    assert {"text", "LocatedError"} <= outcomes


# The last is a byte that is not UTF-8, as a file's template is read.
SIGNS = ("{{", "}}", "{%", "%}", "-", "[", ")", "'", "1e999", "~", "|", "\udcff")


def mutated(source, draw):
    """A template with a piece of it left out, doubled, moved or written over, a few times."""
    for _ in range(draw.randint(1, 4)):
        start, at = draw.randrange(len(source) + 1), draw.randrange(len(source) + 1)
        piece = source[start : start + draw.choice((1, 3, 20, 200))]
        kind = draw.randrange(4)
        if kind == 0:
            source = source[:start] + source[start + len(piece) :]
        elif kind == 1:
            source = source[:at] + piece + source[at:]
        elif kind == 2:
            source = source[:at] + piece + source[at + len(piece) :]
        else:
            source = source[:at] + draw.choice(SIGNS) + source[at:]
    return source


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_template_is_refused_or_renders(seed):
    draw = random.Random(seed)
    sources = [each["source"] for each in read_record(TEMPLATES).body["templates"]]
    outcomes = set()
    for _ in range(60):
        try:
            ChatTemplate(mutated(draw.choice(sources), draw)).render([{"role": "user", "content": "Hello"}])
            outcomes.add("prompt")
        except Refusal as refusal:
            outcomes.add(refusal.code)
    assert {"prompt", "template.syntax"} <= outcomes


def test_limits_hold_memory_too():
    tracemalloc.start()
    try:
        for name in ("doubling", "doubling a list", "copies", "pieces", "text of copies"):
            with pytest.raises(LimitError):
                run(LIMITS[name])
        assert tracemalloc.get_traced_memory()[1] < 256 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__ }}{{ [].__class__.__mro__ }}{{ messages.__init__ }}{{ range.__globals__ }}",
        "{{ ''['__class__'] }}{{ {}['__class__'] }}{{ x.__class__.__base__.__subclasses__ is defined }}",
        "{{ '' | attr('__class__') }}",
        "{{ '{0.__class__}'.format(1) }}",
        "{{ namespace.__class__ }}{{ loop }}{{ self }}{{ cycler is defined }}{{ config is defined }}",
    ],
)
def test_no_python_object_can_be_reached(template):
    try:
        text = run(template, {"messages": [{"role": "user"}]})
    except LocatedError as error:
        assert b"class '" not in error.message
    else:
        assert set(text) <= set("FalseTrue")


def test_one_template_runs_in_many_threads():
    program = Program(b"{% for m in messages %}{{ loop.index }}{{ m.x }}{% set y = m.x %}{{ y }};{% endfor %}")

    def one(number):
        values = [{"x": f"v{number}"}] * 50
        return program.run(from_python({"messages": values}), NOW)

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(one, range(64)))
    assert results == [b"".join(b"%dv%dv%d;" % (i + 1, n, n) for i in range(50)) for n in range(64)]
