# SPDX-License-Identifier: MIT OR Apache-2.0
"""``bankml list``: the models on this machine."""

from __future__ import annotations

import json

import click


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> None:
    """List the models on this machine: name, size, sha256 as pinned, architecture, source.

    The sha256 is what the record says; `bankml verify NAME` hashes the file. A model without a record is unpinned.
    """
    from bankml.core.pins.store import entries

    models = entries()
    if as_json:
        click.echo(json.dumps([entry.as_dict() for entry in models], indent=2))
        return
    if not models:
        click.echo("no models here yet: `bankml pull` fetches the default one", err=True)
        return
    rows = [("NAME", "SIZE", "SHA256", "ARCH", "SOURCE")]
    for entry in models:
        pin = entry.sha256[:12] if entry.sha256 else "unpinned"
        rows.append((entry.name, _size(entry.size), pin, entry.arch() or "-", entry.source or entry.problem or "-"))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        line = "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]])
        click.echo("".join(c if c.isprintable() else "?" for c in line))


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.2f} GB"
