# SPDX-License-Identifier: MIT OR Apache-2.0
# ruff: noqa: SIM905 - three hundred quoted words are harder to read than three paragraphs
"""Templates for holding bankml's engine to the reference's: every member of every type, and drawn programs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

VARIABLES: dict[str, Any] = {
    "a": "Hello wörld",
    "n": 5,
    "f": 1.5,
    "big": 2**53 + 1,
    "neg": -7,
    "t": True,
    "no": None,
    "l": [1, "two", 3.0, None, True, [1], {"k": 1}],
    "e": [],
    "o": {"b": 1, "a": "x'y", "items": 3, "get": 2},
    "eo": {},
    "s": "  pad \n",
    "u": "a,b,,c",
    "ls": ["b", "a", "C"],
    "ln": [3, 1, 2],
    "lo": [{"k": "z", "n": 2}, {"k": "a", "n": 1}, {"n": 3}],
    "q": 'it\'s "q" \\ \n\t\u0001 é🙂',
    "num": "42",
    "hx": "0x1F",
    "fl": "1.5e3z",
    "empty": "",
    "msgs": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y y"}, {"role": "tool", "content": None}],
}
_OPERANDS = [*VARIABLES, "undef", "range", "o.get", "l.pop", "loop", "(1,2)", "(1,)", "()", "{}", "{'a':1}", "[[1],2]"]
_FILTERS = """upper lower trim strip rstrip lstrip title capitalize length count string tojson safe list first last reverse sort
min max join join(',') join('-',attribute='k') unique map(attribute='k') map('upper') select select('string') select('odd')
selectattr('k') selectattr('n','odd') selectattr('n','eq',2) rejectattr('k') reject('none') items keys values dictsort
dictsort(reverse=true) dictsort(by='value') default('D') default('D',true) d('x',boolean=true) int int(default=3) int(base=16)
int(0,0) float float(2) abs indent indent(2) indent(2,true) indent(width='>>',first=true,blank=true) replace('l','LL')
replace('','-') replace('a','b',1) split split(',') split(',',1) rsplit(',',1) split('') startswith('H') endswith('d') format
format(1,'x') slice(1,2,1) slice(1,2) append(1) pop pop(0) tojson(indent=2) tojson(ensure_ascii=true)
tojson(separators=(',',':')) tojson(sort_keys=true) tojson(indent=0) wordcount truncate e xmlattr round get('a') get('zz','dd')
batch(2) sum upper() trim('l') strip(chars='Hd') sort(reverse=true) sort(attribute='n') sort(attribute='k') length() foo.bar
foo.bar() 'x' first.x""".split()
_TESTS = """defined undefined none string number integer float boolean mapping iterable sequence true false odd even
divisibleby(2) eq(5) ne(5) gt(3) lt('z') ge(true) in([5]) in('Hello') equalto('x') lower upper callable test sameas(1) escaped
filter nosuch eq 'x' in(o)""".split()
_MEMBERS = """.b .items .get .x [0] [-1] ['a'] [no] [undef] [f] [t] [[1]] [{}] [1:] [:2] [::-1] [::2] [-3:-1] [5:1:-2] ['x':]
[no:] [::0] [] [1:2:3:4] .0 .1.2 .length .keys() .items() () (1) .upper() .strip('H') .append(3) .get('a') .pop() [(1,2)]
.items.x ['items'] .'a'""".split()
_OPERATORS = ["+", "-", "~", "*", "/", "%", "<", ">", "<=", ">=", "==", "!=", "in", "not in", "and", "or", "is", "if"]
_SHAPES = (
    "{{ X }}|{{ [X]|tojson }}|{{ [X]|string }}",
    "{{ -X }}",
    "{{ +X }}",
    "{% if X %}Y{% else %}N{% endif %}{{ not X }}",
    "{% for x in X %}{{ loop.index }}{{ x }},{% else %}none{% endfor %}",
    "{% for x,y in X %}{{ x }}{{ y }},{% else %}none{% endfor %}",
    "{% for x in X if x %}{{ x }},{% else %}none{% endfor %}",
    "{% set x,y = X %}{{ x }}",
    "{% set x = namespace(v=X) %}{{ x.v }}{{ x }}{{ x|tojson }}",
    "{{ 'p' ~ X }}{{ X ~ 'q' }}",
    "{% filter upper %}x{{ X }}{% endfilter %}",
    "{{ {'k':X} }}{{ {X:1}|string }}",
    "{{ {X: 2}[X] }}",
    "{{ raise_exception(X) }}",
)


def members() -> Iterator[str]:
    """Every operand with every filter, test, member, operator and statement."""
    for operand in _OPERANDS:
        for name in _FILTERS:
            yield f"{{{{ ({operand})|{name} }}}}|{{{{ (({operand})|{name})|tojson }}}}"
        for name in _TESTS:
            yield f"{{{{ {operand} is {name} }}}}{{{{ {operand} is not {name} }}}}"
        for name in _MEMBERS:
            yield f"{{{{ ({operand}{name})|tojson }}}}"
        for other in _OPERANDS:
            for operator in _OPERATORS:
                # A long repetition would take the reference's machine down.
                if operator != "*" or "big" not in (operand, other):
                    yield f"{{{{ {operand} {operator} {other} }}}}"
        for shape in _SHAPES:
            yield shape.replace("X", operand)


class Programs:
    """Drawn programs: statements within statements, white space of every kind around them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def program(self) -> str:
        """One template."""
        text = "".join(self._statement(3) for _ in range(self.random.randint(1, 5)))
        if self.random.random() < 0.5:
            text = "{% set ns = namespace(v=1) %}{% macro m(p=1, q='z') %}<{{ p }}{{ q }}{{ x }}>{% endmacro %}" + text
        return text

    def _pick(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def _chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def _atom(self) -> str:
        names = "a n f t no l e o msgs s x y z ns.v loop.index loop.last undef caller true None loop.previtem msgs[0].role"
        literals = ["1", "2.5", "'q'", '"w\\n"', "[]", "{}", "[1,2]", "(1,2)", "-1", "+2", "'a' 'b'", "msgs[-1]['content']"]
        text: str = self.random.choice(names.split() + literals)
        return text

    def _expression(self, depth: int) -> str:
        if depth <= 0 or self._chance(0.35):
            return self._atom()
        one, two, three = (self._expression(depth - 1) for _ in range(3))
        operator = self._pick("+", "-", "~", "*", "/", "%", "==", "!=", "<", ">", "and", "or", "in", "not in", ">=", "<=")
        name = self._pick("trim", "upper", "length", "tojson", "default('d')", "first", "string", "title", "capitalize", "list")
        test = self._pick("defined", "none", "string", "not defined", "mapping", "not iterable", "eq(1)", "in([1])")
        text: str = self._pick(
            f"{one} {operator} {two}",
            f"({one})",
            f"not {one}",
            f"{one}|{name}",
            f"{one} is {test}",
            f"{one} if {two} else {three}",
            f"{one} if {two}",
            f"m({one}, {two})",
            f"m({one}, q={two})",
            f"[{one}, {two}]",
        )
        return text

    def _space(self) -> str:
        text: str = self._pick(
            "", " ", "\n", "  \n", "\n  ", "\t", "text ", "x", "\r\n", "{# c #}", "{#- c -#}\n", " {# d #} ", "é"
        )
        return text

    def _tag(self, inner: str) -> str:
        return f"{self._pick('{% ', '{%- ', '{%')}{inner}{self._pick(' %}', ' -%}', '%}', '-%}')}"

    def _body(self, depth: int) -> str:
        return "".join(self._space() + self._statement(depth) for _ in range(self.random.randint(0, 2))) + self._space()

    def _statement(self, depth: int) -> str:
        shown = f"{self._pick('{{ ', '{{- ', '{{')}{self._expression(2)}{self._pick(' }}', ' -}}', '}}')}"
        if depth <= 0 or self._chance(0.3):
            return self._space() + shown + self._space()
        made = self._pick(self._if, self._for, self._for, self._set, self._set, self._macro, self._call, self._filter, self._rest)
        text: str = made(depth - 1)
        return text

    def _if(self, depth: int) -> str:
        text = self._tag("if " + self._expression(2)) + self._body(depth)
        if self._chance(0.3):
            text += self._tag("elif " + self._expression(1)) + self._body(depth)
        if self._chance(0.5):
            text += self._tag("else") + self._body(depth)
        return text + self._tag("endif")

    def _for(self, depth: int) -> str:
        target = self._pick("x", "y", "x, y", "(x, y)", "m", "ns", "loop")
        values = self._pick(
            "l", "msgs", "o", "e", "undef", "range(3)", "o.items()", "[[1,2],[3,4]]", "a", "x", "msgs[1:]", "(1,2)"
        )
        condition = " if " + self._expression(1) if self._chance(0.25) else ""
        text = self._tag(f"for {target} in {values}{condition}") + self._body(depth)
        if self._chance(0.3):
            text += self._tag(self._pick("break", "continue"))
        if self._chance(0.3):
            text += self._tag("if loop.index == 2") + "in" + self._tag(self._pick("break", "continue")) + self._tag("endif")
        if self._chance(0.3):
            text += self._tag("else") + self._body(depth)
        return text + self._tag("endfor")

    def _set(self, depth: int) -> str:
        if self._chance(0.25):
            return self._tag("set " + self._pick("x", "y")) + self._body(depth) + self._tag("endset")
        target = self._pick("x", "y", "z", "ns.v", "x, y", "o.k", "o['k']", "ns", "msgs", "true", "l.0", "(x,y)", "3")
        one, two = self._expression(2), self._expression(1)
        return self._tag(f"set {target} = {self._pick(one, f'{one}, {two}', f'namespace(v={two})')}")

    def _macro(self, depth: int) -> str:
        head = self._pick("", "p", "p, q", "p, q=2", "p=1, q=x", "q=loop", "p, 3", "p='a' ~ x")
        tail = self._pick("", "{{ p }}{{ q }}", "{{ caller() if caller }}", "{{ caller(1) if caller }}")
        # Its own name is not called inside: the reference has no limit of depth and crashes.
        return self._tag(f"macro k({head})") + self._space() + tail + self._space() + self._tag("endmacro") + "{{ k(1, 2) }}"

    def _call(self, depth: int) -> str:
        head = self._pick("call", "call(u)", "call(u=1)")
        return self._tag(f"{head} m({self._expression(1)})") + self._space() + "{{ u }}" + self._tag("endcall")

    def _filter(self, depth: int) -> str:
        name = self._pick("upper", "trim", "replace('a','b')", "title", "nosuch", "indent(3)", "capitalize")
        return self._tag(f"filter {name}") + self._body(depth) + self._tag("endfilter")

    def _rest(self, depth: int) -> str:
        text: str = self._pick(self._tag("generation"), self._tag("endgeneration"), "{", "}}", "{{ 1 }}", self._tag("nosuch"))
        return text
