# SPDX-License-Identifier: MIT OR Apache-2.0
"""What can go wrong inside a template, as the reference reports it."""

from __future__ import annotations

ARROW = "↵".encode()


class TemplateError(Exception):
    """An error that has no place in the source yet; the statement that runs gives it one."""

    def __init__(self, message: bytes) -> None:
        super().__init__(message)
        self.message = message


class LocatedError(Exception):
    """An error with its place in the source; passes through every outer statement as it is."""

    def __init__(self, message: bytes) -> None:
        super().__init__(message)
        self.message = message


class UnsupportedError(LocatedError):
    """Something the reference's engine names but does not do; it is reported without a place."""

    def __init__(self, message: bytes) -> None:
        super().__init__(b"NotImplemented: " + message)


class SourceError(Exception):
    """The source is not a template of this dialect."""

    def __init__(self, message: str, pos: int) -> None:
        super().__init__(message)
        self.message = message
        self.pos = pos


class LimitError(Exception):
    """A limit of the sandbox was reached: ``what`` names it."""

    def __init__(self, what: str, allowed: str) -> None:
        super().__init__(what)
        self.what = what
        self.allowed = allowed


class BreakSignal(Exception):
    """``{% break %}`` on its way to the loop."""

    message = b"Break statement executed"


class ContinueSignal(Exception):
    """``{% continue %}`` on its way to the loop."""

    message = b"Continue statement executed"


def line_and_column(source: bytes, pos: int) -> tuple[int, int]:
    """The 1-based line and byte column of an offset."""
    before = source[:pos]
    return before.count(b"\n") + 1, len(before) - (before.rfind(b"\n") + 1) + 1


def excerpt(source: bytes, pos: int, reach: int = 40) -> bytes:
    """The bytes around an offset with a caret under it. Source: peak_source, common/jinja/utils.h."""
    if not source:
        return b"(no source available)"
    start = max(pos - reach, 0)
    around = source[start : pos + reach].replace(b"\n", ARROW)
    return b"..." + around + b"...\n" + b" " * (pos - start + 3) + b"^"


def locate(error: TemplateError, kind: str, pos: int, source: bytes) -> LocatedError:
    """The reference's report of an error in one statement. Source: statement::execute, common/jinja/runtime.cpp."""
    if not source:
        return LocatedError(b"\nError executing %b at position %d: %b" % (kind.encode(), pos, error.message))
    line, column = line_and_column(source, pos)
    place = b"While executing %b at line %d, column %d in source:\n" % (kind.encode(), line, column)
    return LocatedError(b"\n------------\n" + place + excerpt(source, pos) + b"\nError: " + error.message)
