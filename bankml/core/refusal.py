# SPDX-License-Identifier: MIT OR Apache-2.0
"""The one error that a user can cause."""

from __future__ import annotations

from typing import Any

EXIT_OTHER = 1
EXIT_REFUSED = 2
EXIT_TRUNCATED = 3


def printable(text: str) -> str:
    """Text for a line on a terminal: control characters, line ends and bytes that are not UTF-8 are escaped."""
    return text.translate({ord(c): c.encode("unicode_escape").decode("ascii") for c in set(text) if not c.isprintable()})


class Refusal(Exception):
    """A request or a file that bankml does not honour, and why.

    The same object makes the command line's last line and exit code, the HTTP status and body, and the log row.

    Args:
        code: stable dotted machine word, e.g. ``gguf.magic`` or ``pin.mismatch``.
        message: one sentence for a person; it names what was refused.
        where: the place: a file offset, a JSON pointer, a line and column, a key or tensor name.
        found: what stands there, printed short.
        allowed: what would have been accepted.
        hint: what to do next.
        status: HTTP status of the answer.
        exit_code: exit code of the command.
        kind: ``error.type`` of the HTTP body, in llama-server's words.
        extra: further members of the HTTP ``error`` object.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        where: str | None = None,
        found: str | None = None,
        allowed: str | None = None,
        hint: str | None = None,
        status: int = 400,
        exit_code: int = EXIT_REFUSED,
        kind: str = "invalid_request_error",
        extra: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.where = where
        self.found = found
        self.allowed = allowed
        self.hint = hint
        self.status = status
        self.exit_code = exit_code
        self.kind = kind
        self.extra = extra or {}

    def line(self) -> str:
        """One line for a terminal: message, place, found, allowed, hint; control characters escaped."""
        parts = [self.message]
        details = [
            f"{word} {value}"
            for word, value in (("at", self.where), ("found", self.found), ("allowed:", self.allowed))
            if value is not None
        ]
        if details:
            parts.append(f"({', '.join(details)})")
        if self.hint:
            parts.append(f"- {self.hint}")
        return printable(" ".join(parts))

    def as_dict(self) -> dict[str, Any]:
        """For ``--json`` and logs: only the members that are set."""
        members = {
            "code": self.code,
            "message": self.message,
            "where": self.where,
            "found": self.found,
            "allowed": self.allowed,
            "hint": self.hint,
        }
        return {name: value for name, value in members.items() if value is not None}

    def http_body(self) -> dict[str, Any]:
        """llama-server's error object. Source: format_error_response, tools/server/server-common.cpp."""
        return {"error": {"code": self.status, "message": self.message, "type": self.kind, **self.extra}}
