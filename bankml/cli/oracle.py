# SPDX-License-Identifier: MIT OR Apache-2.0
"""``bankml oracle``: record the reference's answers, compare bankml's with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from bankml.cli.values import FILE, MODEL, TEXT
from bankml.refusal import EXIT_OTHER


@click.group("oracle")
def command() -> None:
    """Record the reference's answers, compare ours with them.

    An oracle is what somebody else computed: a build of llama.cpp b11192, a standard, another library. `record` asks
    it and writes a file, `compare` derives every recorded quantity again without it.
    """


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_kinds(as_json: bool) -> None:
    """List the kinds of oracle: what each checks, against what, and its options."""
    from bankml.oracle.registry import KINDS, load_kind

    kinds = [load_kind(name) for name in KINDS]
    if as_json:
        rows = [
            {
                "kind": kind.name,
                "checks": kind.checks,
                "against": kind.against,
                "small": kind.small,
                "options": {name: option.form.words for name, option in kind.options.items()},
            }
            for kind in kinds
        ]
        click.echo(json.dumps(rows, indent=2))
        return
    for kind in kinds:
        click.echo(f"{kind.name}\n  checks   {kind.checks}\n  against  {kind.against}")
        click.echo(f"  records  {'small, committed in tests/records' if kind.small else 'made by the release gate'}")
        for name, option in kind.options.items():
            click.echo(f"  --set    {name}={option.form.words}")


@command.command("record")
@click.argument("kind", type=TEXT)
@click.argument("model", type=MODEL, required=False)
@click.option(
    "--reference", metavar="DIR", type=FILE, help="A build of the reference.  [default: BANKML_REFERENCE, else .reference]"
)
@click.option("-o", "--output", metavar="FILE", type=FILE, required=True, help="The record, .json or .json.gz.")
@click.option("--set", "settings", metavar="NAME=VALUE", type=TEXT, multiple=True, help="An option of the kind; repeat for more.")
def record(kind: str, model: str | None, reference: Path | None, output: Path, settings: tuple[str, ...]) -> None:
    """Ask the reference and write what it answers.

    KIND is a name from `bankml oracle list`; MODEL a name from `bankml list` or a path, for the kinds that need one.
    """
    from bankml.oracle.record import write_record
    from bankml.oracle.run import make_record
    from bankml.reference.build import Reference

    options = dict(_setting(text) for text in settings)
    made = make_record(kind, _model(model), Reference(reference), options)
    write_record(made, output)
    click.echo(f"{kind}: recorded from {made.made_with['version']} ({made.made_with['variant']}) in {output}", err=True)


@command.command("compare")
@click.argument("file", type=FILE)
@click.argument("model", type=MODEL, required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def compare(file: Path, model: str | None, as_json: bool) -> int:
    """Derive every recorded quantity again and count those that are identical.

    FILE is a record. Without MODEL the file with the recorded sha256 is looked for among the models of this machine.
    Exit code 0 only when all are identical.
    """
    from bankml.oracle.record import read_record
    from bankml.oracle.run import compare_record

    read = read_record(file)
    tally = compare_record(read, _model(model))
    if as_json:
        report = {
            "kind": read.kind,
            "identical": tally.identical,
            "total": tally.total,
            "passed": tally.passed,
            "differences": tally.differences,
            "made_with": read.made_with,
            "model_sha256": read.model_sha256,
            "date": read.date,
        }
        click.echo(json.dumps(report, indent=2))
    else:
        click.echo(f"{read.kind}: {tally.identical} of {tally.total} identical")
        for difference in tally.differences:
            click.echo(f"  {difference}", err=True)
    return 0 if tally.passed else EXIT_OTHER


def _model(name: str | None) -> Path | None:
    if name is None:
        return None
    from bankml.core.pins import resolve_model

    return resolve_model(name)


def _setting(text: str) -> tuple[str, Any]:
    """``name=value``; the value is JSON where it can be, else the text itself."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="'--set'")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value
