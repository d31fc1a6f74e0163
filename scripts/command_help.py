# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes docs/commands.md from ``--help`` of every command; ``--check`` compares instead."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click
from generated import write_or_compare
from tracked import ROOT

from bankml.cli.main import cli

PAGE = ROOT / "docs" / "commands.md"
WIDTH = 100
HEAD = """# Commands

The help of every command, as `--help` prints it. `make docs` writes this page; `make check` holds it to the commands.
"""


def commands(command: click.Command, parent: click.Context | None, name: str) -> Iterator[tuple[str, str]]:
    """The path and the help text of a command and of all those below it."""
    settings = {**command.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH}
    context = click.Context(command, parent=parent, info_name=name, **settings)
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            child = command.get_command(context, below)
            if child is not None:
                yield from commands(child, context, below)


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for path, text in commands(cli, None, "bankml"):
        parts.append(f"## {path}\n\n```text\n{text.rstrip()}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(write_or_compare(PAGE, page(), "--help", sys.argv[1:]))
