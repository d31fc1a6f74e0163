# SPDX-License-Identifier: MIT OR Apache-2.0
"""``bankml sha256``: the sha256 of files."""

from __future__ import annotations

import json
from pathlib import Path

import click

from bankml.cli.values import FILE


@click.command("sha256")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=FILE)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(files: tuple[Path, ...], as_json: bool) -> None:
    """Print the sha256 of files, as `sha256sum` does: the digest, two spaces, the name.

    Exit codes: 0 done, 1 a file cannot be read, 2 a file changed while it was being hashed.
    """
    from bankml.cli.progress import bars
    from bankml.core.pins import sha256_file

    rows = []
    with bars() as progress:
        for file in files:
            digest = sha256_file(file, progress)
            if as_json:
                rows.append({"file": str(file), "sha256": digest, "bytes": file.stat().st_size})
            else:
                click.echo(f"{digest}  {file}")
    if as_json:
        click.echo(json.dumps(rows, indent=2))
