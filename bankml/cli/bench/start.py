# SPDX-License-Identifier: MIT OR Apache-2.0
"""``bankml bench start``: from a new process to its first token."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bankml.cli.bench import options
from bankml.cli.values import MODEL

if TYPE_CHECKING:
    from bankml.bench.start import Start


@click.command("start")
@click.argument("model", type=MODEL, required=False)
@click.option("--ctx", type=options.POSITIVE, default=4096, show_default=True, help="KV cells.")
@click.option("-r", "--rounds", type=options.POSITIVE, default=3, show_default=True, help="Repetitions.")
@click.option("--cold", is_flag=True, help="Measure a start without compiled kernels, too.")
@options.threads
@options.reference
@options.as_json
def bench_start(
    model: str | None, ctx: int, rounds: int, cold: bool, threads: int, reference_dir: Path | None, as_json: bool
) -> None:
    """Measure the time from a new process to its first token, and the memory that it holds.

    MODEL is a name from `bankml list` or a path; none means the default model.
    """
    from bankml.bench.start import measure_start
    from bankml.core.pins import resolve_model

    reference = options.build(reference_dir)
    path = resolve_model(model)
    with options.Rounds(rounds) as round_done:
        start = measure_start(path, ctx, threads, rounds, reference, cold, round_done)
    click.echo(json.dumps(start.as_dict(), indent=2) if as_json else _text(start))


def _text(start: Start) -> str:
    row = options.row
    lines = [
        f"{start.model.name}: context {start.ctx}, median (least-greatest)",
        row("", "bankml generate", *options.titles(start.reference)),
        row(
            "to the first token, s",
            start.seconds.text(2),
            *([start.their_seconds.text(2), start.seconds.over(start.their_seconds).text(2)] if start.their_seconds else []),
        ),
        row(
            "peak memory, MB", *(each.scaled(1e-6).text(0) for each in (start.resident_bytes, start.their_resident_bytes) if each)
        ),
    ]
    if start.cold_seconds is not None:
        lines.append(row("the first start of all, s", start.cold_seconds.text(1)))
    return "\n".join(lines)
