# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where bankml keeps its files. ``BANKML_HOME`` moves all of it."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from bankml.core.refusal import EXIT_OTHER, Refusal


def home() -> Path:
    """The directory of everything that bankml stores: ``BANKML_HOME``, else ``~/.local/share/bankml``.

    Raises:
        Refusal: ``home.none``: this user has no home directory, or none that does not depend on the current one.
    """
    return _named("BANKML_HOME") or _users() / ".local" / "share" / "bankml"


def models_dir() -> Path:
    """Model files."""
    return home() / "models"


def forks_dir() -> Path:
    """Pins: ``<file>.FORK.json``; ``BANKML_FORKS`` moves just these."""
    return _named("BANKML_FORKS") or home() / "forks"


def cache_dir() -> Path:
    """Compiled kernels and unfinished downloads: all of it may be deleted."""
    return home() / "cache"


def _named(variable: str) -> Path | None:
    """The directory that a variable names, ``~`` replaced; None where it is not set, or empty."""
    text = os.environ.get(variable)
    if not text:
        return None
    if text == "~" or text.startswith("~/"):
        return _users() / text[2:]
    path = os.path.expanduser(text)  # noqa: PTH111 - pathlib's raises where there is no such user
    if path.startswith("~"):
        raise _no_home(f"{variable} names the home directory of a user that does not exist", text)
    return Path(path).absolute()


def _users() -> Path:
    """This user's home directory."""
    text = os.environ.get("HOME")
    if not text:
        try:
            text = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            raise _no_home("this user has no home directory", f"HOME is not set, uid {os.getuid()} is unknown") from None
    if not os.path.isabs(text):  # noqa: PTH117 - a text so far
        raise _no_home("the home directory is not an absolute path", text)
    return Path(text)


def _no_home(message: str, found: str) -> Refusal:
    return Refusal(
        "home.none",
        message,
        found=found,
        allowed="an absolute path",
        hint="set BANKML_HOME to a directory for bankml's files",
        exit_code=EXIT_OTHER,
    )
