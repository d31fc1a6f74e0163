# SPDX-License-Identifier: MIT OR Apache-2.0
"""Standard streams and arguments as the commands rely on them: open, and UTF-8 whatever the locale is."""

from __future__ import annotations

import contextlib
import io
import os
import sys


def prepare() -> None:
    """Make this process's streams and arguments what every command relies on; called once, before a command line is read."""
    _use_utf8()
    _open_closed()
    _write_utf8()


def finish_stdout() -> None:
    """Write what is still held for stdout; what cannot be written goes nowhere, for Python would fail at it again at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)


def _use_utf8() -> None:
    """Start again in Python's UTF-8 mode where the locale has another encoding.

    Arguments and paths are bytes to us. In another encoding a path would be printed as other bytes than those it has.
    """
    if sys.getfilesystemencoding() == "utf-8" or os.environ.get("PYTHONUTF8") == "1" or not sys.executable:
        return
    os.environ["PYTHONUTF8"] = "1"
    with contextlib.suppress(OSError):
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - this very program


def _open_closed() -> None:
    """Open the null device in the place of each standard stream that was closed.

    Python has None there, and the next file that is opened would take the stream's number and pass for it in a child process.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        mode = os.O_WRONLY if number else os.O_RDONLY
        handle = os.open(os.devnull, mode)
        if handle != number and not _is_open(number):
            os.dup2(handle, number)
            os.close(handle)
            handle = number
        os.set_inheritable(handle, True)
        stream = open(handle, "w" if number else "r", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _write_utf8() -> None:
    """Let text be UTF-8 on stdin and stdout; the bytes of a path that are not UTF-8 pass through as they are."""
    for stream in (sys.stdin, sys.stdout):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")
