# SPDX-License-Identifier: MIT OR Apache-2.0
"""``bankml info``: what a model is, and whether it plays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from bankml.cli.values import MODEL
from bankml.refusal import printable

if TYPE_CHECKING:
    from bankml.core.engine.about import About


@click.command("info")
@click.argument("model", type=MODEL, required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(model: str | None, as_json: bool) -> int:
    """Say what MODEL is, whether it plays, and if not which tensor or key stands in the way.

    MODEL is a name from `bankml list` or a path; none means the default model. Only the file's header is read, and nothing
    is hashed: whether the file is the pinned one is said by `bankml verify`.

    Exit codes: 0 it plays, 2 it does not, 3 the header is cut short, 1 the file cannot be read.
    """
    from bankml.core.engine.about import about
    from bankml.core.pins import resolve_model

    report = about(resolve_model(model))
    if as_json:
        click.echo(json.dumps(report.as_dict(), indent=2))
    else:
        for label, text in _lines(report):
            click.echo(f"{label:<10} {printable(text)}".rstrip())
    return report.exit_code


def _lines(report: About) -> Iterator[tuple[str, str]]:
    facts = report.facts

    def shown(name: str, unit: str = "") -> str:
        value = facts[name]
        return "-" if value is None else f"{value:,}{unit}" if isinstance(value, int) else f"{value}{unit}"

    yield "file", str(report.path)
    yield "name", shown("name")
    yield "arch", shown("arch")
    yield "size", f"{report.verdict.size or 0:,} bytes, {shown('parameters')} weights, {shown('bits_per_weight')} bits each"
    yield "types", ", ".join(f"{name} {count}" for name, count in facts["types"].items()) or "no tensors"
    yield "shape", f"{shown('layers')} layers of {shown('embedding')}, feed forward {shown('feed_forward')}"
    yield "heads", f"{shown('heads')}, {shown('key_value_heads')} of keys and values, {shown('key_length')} wide"
    yield "context", f"{shown('context')} tokens, {shown('kv_f16_bytes_per_token', ' bytes')} of cache each"
    vocabulary = facts["tokenizer"]
    yield "tokenizer", f"{vocabulary['model'] or '-'} / {vocabulary['pre'] or '-'}, {shown('vocabulary')} tokens"
    yield "template", _template(report)
    yield "pin", _pin(report)
    for note in report.verdict.notes:
        yield "note", note
    yield "plays", "yes" if report.plays else "no"
    for refusal in report.obstacles:
        yield "", f"{refusal.code}: {refusal.line()}"


def _template(report: About) -> str:
    if report.template is not None:
        return f"not run: {report.template.line()}"
    return "the file's own" if report.has_template else "none in the file: ChatML, as llama-server"


def _pin(report: About) -> str:
    if report.pinned_sha256 is not None:
        return f"sha256 {report.pinned_sha256} (not hashed now)"
    return f"unpinned: {report.pin_problem}" if report.pin_problem else "unpinned"
