# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a template can take, found by running it on small conversations and watching what it does with them.

Source: caps_get, common/jinja/caps.cpp.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from bankml.core.jinja.errors import LocatedError
from bankml.core.jinja.program import CONSTANTS, Program
from bankml.core.jinja.run import SMALL
from bankml.core.jinja.trace import Traced, traced
from bankml.core.jinja.values import from_python

_ARRAY_USES = frozenset({b"selectattr", b"array_access"})
_MARKER = "STRING_MARKER"
_REASONING = "<REASONING_CONTENT_PLACEHOLDER>"
_TOOL = {
    "name": "tool",
    "type": "function",
    "function": {
        "name": "tool1",
        "description": "Tool description",
        "parameters": {
            "type": "object",
            "properties": {"arg": {"type": "string", "description": "Arg description"}},
            "required": ["arg"],
        },
    },
}


@dataclass
class Caps:
    """What a template can take; the names are those that ``/props`` reports."""

    supports_object_arguments: bool = False
    supports_parallel_tool_calls: bool = True
    supports_preserve_reasoning: bool = False
    supports_reasoning_effort: bool = False
    supports_string_content: bool = True
    supports_system_role: bool = True
    supports_tool_calls: bool = True
    supports_tools: bool = True
    supports_typed_content: bool = False

    def as_dict(self) -> dict[str, bool]:
        """The capabilities by name, in the reference's order."""
        return asdict(self)


def preserve_reasoning(enabled: bool) -> dict[bytes, Any]:
    """The variables that say whether the reasoning of earlier turns is kept."""
    return {
        b"preserve_thinking": enabled,
        b"clear_thinking": not enabled,
        b"truncate_history_thinking": not enabled,
        b"drop_thinking": not enabled,
    }


def reasoning_effort(effort: Any) -> dict[bytes, Any]:
    """The variables that set how much a model reasons."""
    return {b"reasoning_effort": effort, b"reasoning_strength": effort}


@dataclass
class _Probe:
    """One conversation and what the template did with it."""

    variables: dict[bytes, Any]
    scope: dict[bytes, Any]
    text: bytes | None

    def at(self, name: bytes, *path: Any) -> Any:
        value = self.variables[name]
        for key in path:
            value = value[key]
        return value


class _Prober:
    """Runs all probes of one template on one budget."""

    def __init__(self, program: Program, now: time.struct_time) -> None:
        self.program = program
        self.now = now
        self.budget = SMALL

    def run(self, messages: list[Any], tools: list[Any] | None = None, more: dict[bytes, Any] | None = None) -> _Probe:
        variables = {
            b"messages": traced(from_python(messages)),
            b"tools": traced(from_python(tools or [])),
            b"bos_token": b"",
            b"eos_token": b"",
            b"add_generation_prompt": True,
            **(more or {}),
        }
        scope = {**CONSTANTS, **variables}
        run = self.program.begin(self.now, self.budget)
        try:
            text: bytes | None = self.program.run_in(scope, run)
        except LocatedError:
            text = None
        self.budget = run.rest
        return _Probe(variables, scope, text)


def _message(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def _used(value: Any) -> bool:
    return isinstance(value, Traced) and value.used


def _ops(value: Any) -> set[bytes]:
    return value.ops if isinstance(value, Traced) else set()


def _tool_dialogue(arguments: Callable[[], Any], calls: int) -> list[dict[str, Any]]:
    tool_calls = [
        {"id": f"call0000{i + 1}", "type": "function", "function": {"name": "tool1", "arguments": arguments()}}
        for i in range(calls)
    ]
    return [
        _message("user", "User message"),
        _message("assistant", "", tool_calls=tool_calls),
        _message("tool", "Tool response", tool_call_id="call00001"),
        _message("assistant", "The tool response was 'tool response'"),
        _message("user", "User message"),
    ]


def _as_object() -> Any:
    return {"arg": "value"}


def _as_string() -> Any:
    return '{"arg": "value"}'


def find_caps(source: bytes, now: time.struct_time) -> Caps:
    """The capabilities of a template.

    Raises:
        SourceError, LimitError: as Program does.
    """
    prober = _Prober(Program(source, trace=True), now)
    caps = Caps()
    _content(prober, caps)
    _tools(prober, caps)
    _reasoning(prober, caps)
    return caps


def _content(prober: _Prober, caps: Caps) -> None:
    probe = prober.run([_message("user", _MARKER)])
    ops = _ops(probe.at(b"messages", 0, b"content"))
    as_array = bool(ops & _ARRAY_USES)
    caps.supports_typed_content = as_array
    if probe.text is None or (as_array and _MARKER.encode() not in probe.text):
        caps.supports_string_content = False
    if b"test_is_string" in ops:
        probe = prober.run([_message("user", [])])
        if probe.text is not None and _ops(probe.at(b"messages", 0, b"content")) & _ARRAY_USES:
            caps.supports_typed_content = True
    probe = prober.run([_message("system", "System message"), _message("user", "User message")])
    caps.supports_system_role = _used(probe.at(b"messages", 0, b"content"))


def _tools(prober: _Prober, caps: Caps) -> None:
    probe = prober.run(_tool_dialogue(_as_object, 1), [_TOOL])
    if probe.text is not None:
        _uses_tools(probe, caps)
        if caps.supports_tool_calls:
            argument = probe.at(b"messages", 1, b"tool_calls", 0, b"function", b"arguments", b"arg")
            caps.supports_object_arguments = _used(argument)
    if not caps.supports_object_arguments:
        probe = prober.run(_tool_dialogue(_as_string, 1), [_TOOL])
        if probe.text is None:
            caps.supports_tool_calls = caps.supports_tools = False
        else:
            _uses_tools(probe, caps)
    arguments = _as_object if caps.supports_object_arguments else _as_string
    probe = prober.run(_tool_dialogue(arguments, 2), [_TOOL])
    if probe.text is None or not _used(probe.at(b"messages", 1, b"tool_calls", 1, b"function")):
        caps.supports_parallel_tool_calls = False


def _uses_tools(probe: _Probe, caps: Caps) -> None:
    if not _used(probe.at(b"tools", 0, b"function", b"name")):
        caps.supports_tools = False
    if not _used(probe.at(b"messages", 1, b"tool_calls")):
        caps.supports_tool_calls = False


def _reasoning(prober: _Prober, caps: Caps) -> None:
    probe = prober.run(
        [
            _message("user", "User message"),
            _message("assistant", "Assistant message", reasoning_content=_REASONING),
            _message("user", "User message"),
            _message("assistant", "Assistant message", reasoning_content="Reasoning content"),
            _message("user", "User message"),
        ],
        more={b"enable_thinking": True, **preserve_reasoning(True)},
    )
    caps.supports_preserve_reasoning = probe.text is not None and _REASONING.encode() in probe.text
    effort = traced(b"low")
    probe = prober.run([_message("user", "User message")], more={b"enable_thinking": True, **reasoning_effort(effort)})
    caps.supports_reasoning_effort = _used(probe.scope[b"reasoning_effort"])
