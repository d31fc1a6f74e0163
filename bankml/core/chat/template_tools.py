# SPDX-License-Identifier: MIT OR Apache-2.0
"""The marks of tool calls in a template that no format claims, found by comparing what it renders.

Source: analyze_tools, common/chat-diff-analyzer.cpp.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any

from bankml.core.chat.template_analysis import ASSISTANT, MARKER, SPACES, TOOLS, USER, Reasoning, Render, S, Split, split

_FIRST, _SECOND = b"FFF_FIRST_FUN_F", b"SSS_SECOND_FUN_S"
_ARG, _OTHER_ARG = b"AA_ARG_FST_AA", b"BB_ARG_SND_BB"
_ID, _OTHER_ID = "call00001", "call99999"
_ID_START = b"call"
_X, _Y = "XXXX", "YYYY"


def _pattern(text: bytes) -> re.Pattern[bytes]:
    return re.compile(text, re.DOTALL)


_BARE = b"(?:(?!" + MARKER + b").)*"
_BARE_START = _pattern(_BARE)
_MARK = _pattern(MARKER)
_LAST = _pattern(b"(" + MARKER + b")" + _BARE + rb"\Z")
_UP_TO_MARK = _pattern(_BARE + MARKER + S)
_NO_JSON = _pattern(b"(?:" + MARKER + rb"|[^{\[])*")
_MARK_BEHIND = _pattern(_BARE + MARKER)
_ARG_START = MARKER + S + b"(?:" + _ARG + b"|" + _OTHER_ARG + b")"
_SEPARATOR = _pattern(b"((?:(?!" + _ARG_START + b").)*)" + _ARG_START)
_CLOSER = _pattern(S + MARKER + S + b"(.*)")
_IN_TAG = _pattern(
    b"(?P<pre><(?:(?!>|" + _FIRST + b").)*)" + _FIRST + b"(?P<post>(?!" + S + b"<)[^>]*>)" + S
    + rb"|(?P<open>\[(?:(?!\]|" + _FIRST + b").)*)" + _FIRST + b"(?!" + S + rb"\[[^\]]*\])" + S
)  # fmt: skip
_TWO_CLOSERS = _pattern(b"(" + MARKER + S + b")(" + MARKER + S + rb")\Z")
_ONE_CLOSER = _pattern(b"(" + MARKER + S + rb")\Z")
_ID_MARK = _pattern(b"(" + MARKER + b")(?:(?!" + MARKER + b"|" + _ID_START + b").)*" + _ID_START)
_BEFORE_ARGS = _pattern(b"(?:(?!" + MARKER + rb"|\{).)*(" + MARKER + b")")


def _quoted(name: bytes) -> re.Pattern[bytes]:
    return _pattern(b"[{:]" + S + b'"' + name + b'"')


_FIRST_QUOTED, _ARG_QUOTED = _quoted(_FIRST), _quoted(_ARG)


@dataclass
class ToolMarks:
    """The marks around calls, names, arguments and ids; empty where none were found."""

    section_start: bytes = b""
    section_end: bytes = b""
    call_start: bytes = b""
    call_end: bytes = b""
    name_prefix: bytes = b""
    name_suffix: bytes = b""
    separator: bytes = b""
    close: bytes = b""
    arg_prefix: bytes = b""
    arg_suffix: bytes = b""
    value_prefix: bytes = b""
    value_suffix: bytes = b""
    id_prefix: bytes = b""
    id_suffix: bytes = b""

    def all(self) -> set[bytes]:
        """Each of them without the blanks around it."""
        return {getattr(self, each.name).strip(SPACES) for each in fields(self)} - {b""}


def find_tool_marks(render: Render, reasoning: Reasoning, parallel: bool) -> ToolMarks:
    """The marks of a template that takes tool calls; ``parallel`` where it takes several at once."""
    return _Search(render, reasoning, parallel).run()


def _call(arguments: dict[bytes, str], name: bytes = _FIRST, call_id: str = _ID) -> dict[str, Any]:
    texts = {key.decode(): value for key, value in arguments.items()}
    return {"id": call_id, "type": "function", "function": {"name": name.decode(), "arguments": texts}}


_BOTH = {_ARG: _X, _OTHER_ARG: _Y}
_CALL = _call(_BOTH)
_ONE = _call({_ARG: _X})
_SECOND_CALL = _call(_BOTH, _SECOND, "call00002")


class _Search:
    def __init__(self, render: Render, reasoning: Reasoning, parallel: bool) -> None:
        self.render = render
        self.reasoning = reasoning
        self.parallel = parallel
        self.marks = ToolMarks()

    def run(self) -> ToolMarks:
        shown = self._between([], [_CALL])
        if shown is not None and shown.right:
            self._format(shown.right)
        return self.marks

    def _rendered(self, calls: list[dict[str, Any]]) -> bytes | None:
        answer = (
            {"role": "assistant", "content": "", "tool_calls": calls} if calls else {"role": "assistant", "content": ASSISTANT}
        )
        return self.render([{"role": "user", "content": USER}, answer], TOOLS, False, True)

    def _between(self, left: list[dict[str, Any]], right: list[dict[str, Any]]) -> Split | None:
        """What differs between an answer with these calls and one with those."""
        a, b = self._rendered(left), self._rendered(right)
        return None if a is None or b is None else split(a, b)

    def _format(self, shown: bytes) -> None:
        """Calls that are JSON, or whose names are, or neither."""
        marks = self.marks
        native, json_arguments = _FIRST_QUOTED.search(shown), _ARG_QUOTED.search(shown)
        for mark in (self.reasoning.start, self.reasoning.end):
            shown = shown.replace(mark, b"", 1) if mark else shown
        if native:
            self._native(shown)
        else:
            self._tagged(shown)
        marks.section_end, marks.call_end = marks.section_end.strip(SPACES), marks.call_end.strip(SPACES)
        if native:
            return
        if self.parallel:
            self._per_call()
        self._function(bool(json_arguments))
        if not json_arguments:
            self._argument_names()
            self._argument_values()
        self._ids()

    def _native(self, shown: bytes) -> None:
        marks = self.marks
        start, end = shown.find(b"{"), shown.rfind(b"}") + 1
        array = _pattern(rb"(\[" + S + b")" + re.escape(shown[start:end]) + b"(" + S + rb"\])").search(shown)
        if array:
            start, end = start - len(array[1]), end + len(array[2])
        marks.section_start, marks.section_end = shown[:start].lstrip(SPACES), shown[end:].strip(SPACES)
        if array and marks.section_end == b"]":
            marks.section_end = b""
        if self.parallel:
            more = self._between([_CALL], [_CALL, _SECOND_CALL])
            if more is not None and marks.section_start and marks.section_start in more.right:
                self._section_is_call()

    def _section_is_call(self) -> None:
        marks = self.marks
        marks.call_start, marks.call_end = marks.section_start, marks.section_end
        marks.section_start = marks.section_end = b""

    def _tagged(self, shown: bytes) -> None:
        marks = self.marks
        tag = _IN_TAG.search(shown)
        name = re.escape(tag[0] if tag else _FIRST)
        two = _pattern(b"(" + MARKER + S + b")(" + MARKER + S + b").*?" + name + b"(.*)").search(shown)
        if two:
            marks.section_start, marks.call_start = two[1], two[2]
            closers = _TWO_CLOSERS.search(two[3])
            if closers:
                marks.call_end, marks.section_end = closers[1], closers[2]
            marks.name_prefix = (tag["pre"] or tag["open"] or b"") if tag else b""
            return
        one = _pattern(b"(" + MARKER + S + b")" + name + b"(.*)").search(shown)
        if one:
            marks.section_start = one[1]
            closer = _ONE_CLOSER.search(one[2])
            marks.section_end = closer[1] if closer else b""

    def _per_call(self) -> None:
        """Whether what looks like a section stands around each call."""
        marks = self.marks
        one, two = self._rendered([_CALL]), self._rendered([_CALL, _SECOND_CALL])
        if one is None or two is None:
            return
        both = split(one, two)
        second = split(both.suffix, both.right).right.lstrip(SPACES)
        if marks.section_start and second.startswith(marks.section_start):
            self._section_is_call()
        if marks.call_end and 0 < one.count(marks.call_end) == two.count(marks.call_end):
            marks.section_end, marks.call_end = marks.call_end, b""

    def _function(self, json_arguments: bool) -> None:
        """What stands around a function's name, and what closes its call."""
        marks = self.marks
        found = self._between([_CALL], [_SECOND_CALL])
        if found is None or _FIRST not in found.left or _SECOND not in found.right:
            return
        before = marks.call_start or marks.section_start
        if before and before in found.prefix:
            marks.name_prefix = found.prefix.rpartition(before)[2]
        pre, _, post = found.left.partition(_FIRST)
        marks.name_prefix += pre
        marks.name_suffix = _start(_BARE_START, post)
        if json_arguments:
            extension = _start(_NO_JSON, found.suffix)
            if _MARK_BEHIND.match(found.suffix, len(extension)):
                marks.name_suffix += extension
        else:
            extension = _start(_BARE_START, found.suffix)
            marks.name_suffix += extension
            separator = _SEPARATOR.match(found.suffix, len(extension))
            marks.separator = separator[1].strip(SPACES) if separator else b""
        marks.close = self._closer(found.suffix, json_arguments).lstrip(SPACES)

    def _closer(self, suffix: bytes, json_arguments: bool) -> bytes:
        marks = self.marks
        after = marks.call_end or marks.section_end
        if after:
            text = suffix.partition(after)[0]
        else:
            plain = self._between([_CALL], [])
            if plain is None:
                return b""
            at = plain.left.find(_Y.encode())
            # Where the value is not found, the reference's position wraps around to the third byte.
            text = plain.left[at + 4 if at >= 0 else 3 :]
        _, found, rest = text.partition(_Y.encode())
        if not found:
            return b""
        if not json_arguments:
            closer = _CLOSER.match(rest)
            return closer[1] if closer else b""
        last = max(rest.rfind(b"}"), rest.rfind(b"]"))
        return rest[last + 1 :] if 0 <= last < len(rest) - 1 else b""

    def _argument_names(self) -> None:
        marks = self.marks
        found = self._between([_ONE], [_call({_OTHER_ARG: _Y})])
        if found is None or not found.left or not found.right:
            return
        left, right = _around(found.left, _ARG, b"X"), _around(found.right, _OTHER_ARG, b"Y")
        if left is not None and left == right and left[0]:
            marks.arg_prefix, marks.arg_suffix = left
        elif found.left.startswith(_ARG) and found.right.startswith(_OTHER_ARG):
            last = _LAST.search(found.prefix)
            marks.arg_prefix = last[0] if last else found.prefix
            behind = _UP_TO_MARK.match(found.left[len(_ARG) :] + found.suffix)
            marks.arg_suffix = behind[0] if behind else marks.arg_suffix

    def _argument_values(self) -> None:
        marks = self.marks
        found = self._between([_ONE], [_call({_ARG: _Y})])
        if found is None or (found.left, found.right) != (_X.encode(), _Y.encode()):
            return
        prefix = found.prefix.rpartition(_ARG + marks.arg_suffix)[2]
        if prefix:
            last = _LAST.search(prefix)
            marks.value_prefix = last[0] if last else prefix
        end = marks.close or marks.call_end or marks.section_end
        suffix = found.suffix.partition(end)[0] if end else found.suffix
        if suffix.strip(SPACES):
            marks.value_suffix = suffix

    def _ids(self) -> None:
        """Marks around the id of a call, where it is shown."""
        marks = self.marks
        found = self._between([_CALL], [_call(_BOTH, call_id=_OTHER_ID)])
        if found is None or not (found.left or found.right):
            return
        placed = True
        if _FIRST in found.prefix and _FIRST not in found.suffix:
            at = found.prefix.rfind(_FIRST)
            arguments = found.prefix.find(b"{", at)
            if arguments < 0 and b"{" in found.suffix:
                between = found.prefix[at + len(_FIRST) :]
                mark = _ID_MARK.search(between) or _LAST.search(between)
                behind = _BEFORE_ARGS.search(found.suffix)
                marks.id_prefix, marks.id_suffix = mark[1] if mark else b"", behind[1] if behind else b""
            elif arguments >= 0:
                after = found.prefix[arguments:]
                if b"}" in after:
                    marks.id_prefix = _last_mark(after.rpartition(b"}")[2])
                marks.id_suffix = _first_mark(found.suffix)
            else:
                placed = False
        elif _FIRST in found.suffix and _FIRST not in found.prefix:
            marks.id_prefix = _last_mark(found.prefix)
            marks.id_suffix = _first_mark(found.suffix.partition(_FIRST)[0])
        else:
            placed = False
        if placed and marks.id_suffix and marks.call_end.startswith(marks.id_suffix):
            marks.call_end = b""


def _start(pattern: re.Pattern[bytes], text: bytes) -> bytes:
    found = pattern.match(text)
    return found[0] if found else b""


def _around(text: bytes, name: bytes, value: bytes) -> tuple[bytes, bytes] | None:
    """What stands before a name, and behind it up to a quote or the value."""
    before, found, rest = text.partition(name)
    return (before, re.split(b'"|' + value, rest, maxsplit=1)[0]) if found else None


def _last_mark(text: bytes) -> bytes:
    found = _LAST.search(text)
    return found[1] if found else b""


def _first_mark(text: bytes) -> bytes:
    found = _MARK.search(text)
    return found[0] if found else b""
