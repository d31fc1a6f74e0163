# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where a template puts reasoning: the marks before and after it, found by comparing what it renders.

They decide the prompt only where a last assistant message is continued: its reasoning and content are then written
behind the generation prompt between these marks.

Source: analyze_reasoning and the list of workarounds, common/chat-diff-analyzer.cpp; common/chat-auto-parser-helpers.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from bankml.core.chat.messages import loads

Render = Callable[[list[dict[str, Any]], "list[dict[str, Any]] | None", bool, bool], "bytes | None"]
"""Messages, tools, add_generation_prompt, enable_thinking; None when the template refuses."""

USER = "U_USER_MSG Hello END_U"
ASSISTANT = "A_ASST_MSG I can help END_A"
THOUGHT = "REASON_PART I am thinking END_R"
SPACES = b" \t\n\v\f\r"
MARKER = rb"(?:<[^>]*>|\[[^\]]*\])"
S = rb"[ \t\n\v\f\r]*"
_LITERAL = re.escape(THOUGHT.encode())
_WRAPPED = re.compile(b"(" + MARKER + S + b")" + _LITERAL + b"(" + S + MARKER + S + b")")
_DELIMITED = re.compile(_LITERAL + S + b"(" + MARKER + S + b")?")
_WRAPPED_TOOLS = re.compile(b"(" + MARKER + S + b")" + _LITERAL + S + b"(" + MARKER + S + b")")
_TAIL = 64

_PROPERTIES = {
    "AA_ARG_FST_AA": {"type": "string", "description": "First argument"},
    "BB_ARG_SND_BB": {"type": "string", "description": "Second argument"},
}


def _tool(name: str, description: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": _PROPERTIES, "required": []}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS = [_tool("FFF_FIRST_FUN_F", "Test function foo"), _tool("SSS_SECOND_FUN_S", "Test function bar")]
_CALL_FUNCTION = {"name": "FFF_FIRST_FUN_F", "arguments": {"AA_ARG_FST_AA": "VVVV", "BB_ARG_SND_BB": "XXXX"}}
_CALL = {"id": "call00001", "type": "function", "function": _CALL_FUNCTION}
_QUOTED_NAME = re.compile(b"[{:]" + S + b'"FFF_FIRST_FUN_F"')


@dataclass
class Reasoning:
    """The marks around reasoning; both empty when none were found."""

    start: bytes = b""
    end: bytes = b""
    found: bool = False


@dataclass(frozen=True)
class Segment:
    """A mark, ``<...>`` or ``[...]``, or the text between two."""

    is_marker: bool
    value: bytes


def segments(text: bytes) -> list[Segment]:
    """The text cut at its marks; an open mark without an end is text."""
    result = []
    start = 0
    while match := re.compile(rb"[<\[]").search(text, start):
        if start < match.start():
            result.append(Segment(False, text[start : match.start()]))
        start = match.start()
        end = text.find(b">" if match.group() == b"<" else b"]", start + 1)
        if end < 0:
            break
        result.append(Segment(True, text[start : end + 1]))
        start = end + 1
    if start < len(text):
        result.append(Segment(False, text[start:]))
    return result


def _visible(text: bytes) -> list[Segment]:
    return [segment for segment in segments(text) if segment.value.strip(SPACES)]


class Split(NamedTuple):
    """Two texts as what they share at both ends and what is only in the left and only in the right one."""

    prefix: bytes = b""
    suffix: bytes = b""
    left: bytes = b""
    right: bytes = b""


def difference(left: bytes, right: bytes) -> tuple[bytes, bytes]:
    """What is only in the left and only in the right text."""
    found = split(left, right)
    return found.left, found.right


def split(left: bytes, right: bytes) -> Split:
    """Compare two texts mark by mark from both ends, then character by character where both have text there.

    Source: calculate_diff_split, common/chat-auto-parser-helpers.cpp.
    """
    a, b = segments(left), segments(right)
    if not a or not b:
        return Split(left=left if a else b"", right=right)
    before, behind = b"", b""
    a_first, a_last, b_first, b_last = 0, len(a) - 1, 0, len(b) - 1
    a_used = b_used = False
    while a_first != a_last and b_first != b_last:
        advanced = False
        if a[a_first] == b[b_first]:
            before += a[a_first].value
            a_first, b_first, advanced = a_first + 1, b_first + 1, True
        if a[a_last] == b[b_last]:
            behind = a[a_last].value + behind
            advanced = True
            if a_first != a_last:
                a_last -= 1
            else:
                a_used = True
            if b_first != b_last:
                b_last -= 1
            else:
                b_used = True
        if not advanced:
            break
    if a_first == a_last and b_first != b_last:
        if a[a_first] == b[b_last]:
            behind = b[b_last].value + behind
            b_last, a_used = b_last - 1, True
        elif a[a_first] == b[b_first]:
            before += b[b_first].value
            b_first, a_used = b_first + 1, True
    elif b_first == b_last and a_first != a_last:
        if a[a_last] == b[b_first]:
            behind = a[a_last].value + behind
            a_last, b_used = a_last - 1, True
        elif a[a_first] == b[b_first]:
            before += a[a_first].value
            a_first, b_used = a_first + 1, True
    elif a_first == a_last and b_first == b_last and a[a_first] == b[b_first] and a[a_first].is_marker:
        before += b[b_first].value
        a_used = b_used = True
    text_behind = not a[a_last].is_marker and not b[b_last].is_marker
    text_before = not a[a_first].is_marker and not b[b_first].is_marker
    rest_a = b"".join(s.value for s in a[a_first : a_last + (not a_used)])
    rest_b = b"".join(s.value for s in b[b_first : b_last + (not b_used)])
    suffix = common_prefix(rest_a[::-1], rest_b[::-1]) if text_behind else 0
    cut_a, cut_b = rest_a[: len(rest_a) - suffix], rest_b[: len(rest_b) - suffix]
    prefix = common_prefix(cut_a, cut_b) if text_before else 0
    found = Split(before + cut_a[:prefix], rest_a[len(rest_a) - suffix :] + behind, cut_a[prefix:], cut_b[prefix:])
    if not found.left and not found.right:
        return Split(prefix=left)
    if not found.left and right.startswith(left):
        return Split(prefix=left, right=right[len(left) :])
    return found


def common_prefix(a: bytes, b: bytes) -> int:
    """How many bytes two texts share from the start."""
    length = min(len(a), len(b))
    if a[:length] == b[:length]:
        return length
    return next(i for i in range(length) if a[i] != b[i])


def find_reasoning(render: Render, supports_tool_calls: bool) -> Reasoning:
    """The marks around reasoning in what a template renders that no format claims."""
    result = Reasoning()
    _presence(render, result)
    _thinking_enabled(render, result)
    if supports_tool_calls:
        _with_tools(render, result)
    return result


def calls_are_readable(render: Render, reasoning: Reasoning) -> bool:
    """False for a template whose tool calls look like JSON and are none: llama-server does not start with it.

    Source: analyze_tool_calls, analyze_tool_call_format and analyze_tool_call_format_json_native.
    """
    call = {**_CALL, "function": {**_CALL_FUNCTION, "arguments": {"AA_ARG_FST_AA": "XXXX", "BB_ARG_SND_BB": "YYYY"}}}
    without = render([_user(), _assistant()], TOOLS, False, True)
    with_ = render([_user(), {"role": "assistant", "content": "", "tool_calls": [call]}], TOOLS, False, True)
    if without is None or with_ is None:
        return True
    shown = difference(without, with_)[1]
    if not _QUOTED_NAME.search(shown):
        return True
    for mark in (reasoning.start, reasoning.end):
        if mark:
            shown = shown.replace(mark, b"", 1)
    start, end = shown.find(b"{"), shown.rfind(b"}")
    if start < 0:
        return False
    try:
        loads(shown[start : end + 1 if end >= start - 1 else None].decode())
    except ValueError:
        return False
    return True


def _user() -> dict[str, Any]:
    return {"role": "user", "content": USER}


def _assistant(**more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": ASSISTANT, **more}


def _presence(render: Render, result: Reasoning) -> None:
    """Marks around the reasoning of an assistant message."""
    without = render([_user(), _assistant()], None, False, True)
    with_ = render([_user(), _assistant(reasoning_content=THOUGHT)], None, False, True)
    if without is None or with_ is None:
        return
    if THOUGHT.encode() not in difference(without, with_)[1]:
        return
    wrapped = _WRAPPED.search(with_)
    if wrapped:
        result.found, result.start, result.end = True, wrapped.group(1), wrapped.group(2)
        return
    delimited = _DELIMITED.search(with_)
    if delimited and delimited.group(1):
        result.found, result.end = True, delimited.group(1)


def _thinking_enabled(render: Render, result: Reasoning) -> None:
    """Marks that come or go with ``enable_thinking``."""
    off, on = render([_user()], None, True, False), render([_user()], None, True, True)
    if off is None or on is None:
        return
    only_off, only_on = difference(off, on)
    off_text, on_text = only_off.strip(SPACES), only_on.strip(SPACES)
    if not off_text and only_on:
        if on_text and on.endswith(on_text) and not result.start:
            result.found, result.start = True, only_on
    elif not on_text and only_off:
        if off_text and off.endswith(off_text) and not result.end:
            seen = _visible(off)
            if len(seen) >= 2 and seen[-1].value == off_text and seen[-2].is_marker:
                result.start = seen[-2].value
            result.found, result.end = True, only_off
    elif off_text and on_text:
        _from_tails(off, on, result)
    if not result.start and result.end:
        result.found = True


def _from_tails(off: bytes, on: bytes, result: Reasoning) -> None:
    """Two marks that one output has behind the other's end."""
    for base, extended in ((on, off), (off, on)):
        tail = base[-_TAIL:]
        at = extended.rfind(tail)
        if at < 0 or at + len(tail) >= len(extended):
            continue
        seen = _visible(extended[at + len(tail) :].strip(SPACES))
        if len(seen) == 2 and seen[0].is_marker and seen[1].is_marker:
            result.start = result.start or seen[0].value
            result.end = result.end or seen[1].value
            result.found = True
            return


def _with_tools(render: Render, result: Reasoning) -> None:
    """Marks of a template that shows reasoning only next to tool calls."""
    plain = render([_user(), _assistant(reasoning_content=THOUGHT)], TOOLS, False, True)
    calling = {"role": "assistant", "content": None, "reasoning_content": THOUGHT, "tool_calls": [_CALL]}
    called = render([_user(), calling], TOOLS, False, True)
    thought = THOUGHT.encode()
    if plain is None or called is None or thought in plain or thought not in called:
        return
    wrapped = _WRAPPED_TOOLS.search(called)
    if wrapped:
        result.found, result.start, result.end = True, wrapped.group(1), wrapped.group(2)
        return
    delimited = _DELIMITED.search(called)
    result.found = delimited is not None
    result.end = (delimited.group(1) or b"") if delimited else result.end


GRANITE = b"Write your thoughts between <think></think> and write your response between <response></response>"
NEMOTRON = (b"<SPECIAL_10>", b"<SPECIAL_11>", b"<SPECIAL_12>", b"<TOOL_RESPONSE>")


def patch_reasoning(source: bytes, result: Reasoning) -> None:
    """Set what the reference sets by the look of the source."""
    old_split = b"content.split('</think>')" in source and b"reasoning_content" not in source
    if (old_split and b"<SPECIAL_12>" not in source and not result.found) or GRANITE in source:
        result.found, result.start, result.end = True, b"<think>", b"</think>"
    if all(mark in source for mark in NEMOTRON):
        result.found, result.start, result.end = True, b"<think>\n", b"</think>"
    if b"laguna_glm_thinking" in source:
        result.start, result.end = result.start.strip(SPACES), result.end.strip(SPACES)
