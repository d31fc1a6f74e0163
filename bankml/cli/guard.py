# SPDX-License-Identifier: MIT OR Apache-2.0
"""``bankml guard``: the verdict on a GGUF file by its header alone."""

from __future__ import annotations

import json

import click

from bankml.cli.values import MODEL, TEXT
from bankml.core.refusal import EXIT_OTHER, printable


@click.command("guard", short_help="Judge a GGUF file by its header alone.")
@click.argument("model", type=MODEL, required=False)
@click.option(
    "--engine", default="mainline", metavar="mainline|prism", type=TEXT, help="Judge for b11192 (default) or for PrismML's fork."
)
@click.option("--json", "as_json", is_flag=True, help="Print the whole report as JSON.")
def command(model: str | None, engine: str, as_json: bool) -> int:
    """Judge a file by its header alone; no weight is read.

    MODEL is a path or a name from `bankml list`; none means the default model.

    Exit codes: 0 it plays, 2 refused, 3 the header is cut short, 1 the file cannot be read.
    """
    from bankml.core.gguf.guard import judge
    from bankml.core.pins import resolve_model

    file = resolve_model(model)
    verdict = judge(file, engine)
    if verdict.exit_code == EXIT_OTHER:
        raise verdict.refusal()
    if as_json:
        click.echo(json.dumps(verdict.as_dict()))
        return verdict.exit_code
    click.echo(f"{verdict.verdict} {printable(str(file))}")
    if verdict.header is not None:
        types = ", ".join(f"{name} {count}" for name, count in verdict.types.items()) or "none"
        kv = verdict.kv_f16_bytes_per_token
        click.echo(f"  gguf     version {verdict.header.version}, {len(verdict.header.entries)} keys")
        for label, key in (("arch", "general.architecture"), ("name", "general.name")):
            click.echo(f"  {label:<8} {printable(verdict.header.text(key) or '-')}")
        click.echo(f"  tensors  {verdict.header.n_tensors}: {types}")
        click.echo(f"  kv cache {'-' if kv is None else f'{kv} bytes per token (f16)'}")
    for note in verdict.notes:
        click.echo(f"  note     {note}")
    for reason in verdict.reasons:
        click.echo(f"  {reason.code}: {reason.line()}")
    return verdict.exit_code
