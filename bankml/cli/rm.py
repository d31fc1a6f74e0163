# SPDX-License-Identifier: MIT OR Apache-2.0
"""``bankml rm``: remove a model and its pin."""

from __future__ import annotations

import json
import sys

import click

from bankml.cli.values import MODEL
from bankml.core.refusal import EXIT_OTHER, Refusal


@click.command("rm")
@click.argument("name", metavar="NAME", type=MODEL)
@click.option("--yes", is_flag=True, help="Do not ask; needed where no terminal can answer.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(name: str, yes: bool, as_json: bool) -> None:
    """Remove a model of this machine, as `bankml list` names it, and its pin. Files elsewhere are never touched.

    Exit codes: 0 removed, 1 there is none of that name, it cannot be removed, or nobody said yes.
    """
    from bankml.core.pins.store import find_exact, remove

    entry = find_exact(name)
    if entry is None:
        raise Refusal(
            "model.not_found",
            f"no model is called {name}",
            hint="`bankml list` shows the names",
            status=404,
            exit_code=EXIT_OTHER,
        )
    if not yes:
        if not sys.stdin.isatty():
            raise Refusal("rm.ask", f"{entry.path.name} is not removed without --yes", exit_code=EXIT_OTHER)
        click.confirm(f"Remove {entry.path} and its pin?", abort=True, err=True)
    remove(entry)
    if as_json:
        click.echo(json.dumps({"removed": entry.name, "path": str(entry.path)}, indent=2))
    else:
        click.echo(f"removed  {entry.path}")
