# SPDX-License-Identifier: MIT OR Apache-2.0
"""``bankml pin``: hold a file's sha256 to its record, or write the record."""

from __future__ import annotations

import json
from pathlib import Path

import click

from bankml.cli.values import FILE, TEXT
from bankml.core.refusal import EXIT_REFUSED, Refusal


@click.command("pin")
@click.argument("file", metavar="FILE", type=FILE)
@click.option("--fork", metavar="F", required=True, type=FILE, help="The FORK.json.")
@click.option("--write", is_flag=True, help="Write the record instead of holding the file to it.")
@click.option("--source-repo", metavar="TEXT", type=TEXT, help="With --write: the repository that the file came from.")
@click.option("--source-url", metavar="URL", type=TEXT, help="With --write: the URL that it came from.")
@click.option("--source-revision", metavar="TEXT", type=TEXT, help="With --write: the revision there.")
@click.option("--licence-tag", metavar="TAG", type=TEXT, help="With --write: the licence's SPDX tag.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    file: Path,
    fork: Path,
    write: bool,
    source_repo: str | None,
    source_url: str | None,
    source_revision: str | None,
    licence_tag: str | None,
    as_json: bool,
) -> int:
    """Hold FILE's sha256 to its record in the FORK.json F, without a look at what the file is.

    With --write, F is made, or FILE is added to it; a record that pins FILE to another sha256 is left as it is.

    Exit codes: 0 pinned, 2 refused, 1 FILE or F cannot be read or written.
    """
    from bankml.cli.progress import bars
    from bankml.core.pins import sha256_file
    from bankml.core.pins.record import Provenance, mismatch, pinned_sha256, write_pin

    origin = Provenance("the file itself", source_repo, source_url, source_revision, licence_tag)
    if not write and any((source_repo, source_url, source_revision, licence_tag)):
        raise click.UsageError("--source-repo, --source-url, --source-revision and --licence-tag go with --write")
    try:
        with bars() as progress:
            if write:
                digest = sha256_file(file, progress)
                write_pin(fork, file.name, file.stat().st_size, digest, origin)
            else:
                want = pinned_sha256(fork, file.name)
                digest = sha256_file(file, progress)
                if digest != want:
                    raise mismatch(file.name, digest, want)
    except Refusal as refusal:
        if refusal.exit_code != EXIT_REFUSED or as_json:
            raise
        click.echo(f"refuse: {refusal.line()}", err=True)
        return EXIT_REFUSED
    if as_json:
        click.echo(json.dumps({"verdict": "pinned", "sha256": digest, "file": str(file), "fork": str(fork)}, indent=2))
    else:
        click.echo(f"pinned {digest}")
    return 0
