# SPDX-License-Identifier: MIT OR Apache-2.0
"""``bankml verify``: the whole gate on one file."""

from __future__ import annotations

import json
from pathlib import Path

import click

from bankml.cli.values import FILE, MODEL, TEXT


@click.command("verify")
@click.argument("model", metavar="FILE", type=MODEL)
@click.option(
    "--fork",
    metavar="F",
    type=FILE,
    help="The FORK.json with its pin; else <file>.FORK.json among bankml's pins, then beside the file.",
)
@click.option("--engine", metavar="mainline|prism", type=TEXT, default="mainline", help="Which engine the guard judges for.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(model: str, fork: Path | None, engine: str, as_json: bool) -> None:
    """Guard FILE, hash all of it, hold it to its pin. FILE is a path, or a name from `bankml list`.

    The guard reads the header alone and comes first; then the sha256 of the whole file must be the pinned one; and the
    file must not have changed meanwhile. A file that no record pins is unpinned and refused.

    Exit codes: 0 verified, 2 refused, 3 truncated header, 1 the file or the FORK.json cannot be read.
    """
    from bankml.cli.progress import bars
    from bankml.core.pins import resolve_model, verify

    with bars() as progress:
        verified = verify(resolve_model(model), fork, "prism" if engine == "prism" else "mainline", progress)
    if as_json:
        click.echo(json.dumps(verified.as_dict(), indent=2))
        return
    report = verified.as_dict()
    types = report["types"]
    kinds = ", ".join(f"{kind} {count}" for kind, count in types.items()) if isinstance(types, dict) else str(types)
    click.echo(
        f"guard     {report['guard']} ({report['engine']}; {report['arch'] or 'no architecture named'}; {kinds or 'no tensors'})"
    )
    click.echo(f"sha256    {verified.sha256}")
    click.echo(f"pinned    {verified.fork}")
    click.echo(f"verified  {verified.path}")
