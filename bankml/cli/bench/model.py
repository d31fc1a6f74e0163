# SPDX-License-Identifier: MIT OR Apache-2.0
"""``bankml bench model``: a model in llama-bench's terms."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bankml.cli.bench import options
from bankml.cli.values import MODEL, TEXT

if TYPE_CHECKING:
    from bankml.bench.model import Report
    from bankml.bench.samples import Samples


def _depths(ctx: click.Context, param: click.Parameter, value: str) -> list[int]:
    """The numbers of ``256,1k,4k``; k is 1024."""
    depths = []
    for word in value.split(","):
        found = re.fullmatch(r"(\d{1,9})(k?)", word.strip().lower(), re.ASCII)
        if found is None:
            raise click.BadParameter(f"{word!r} is not a number of tokens, such as 1024 or 4k", ctx, param)
        depths.append(int(found[1]) * (1024 if found[2] else 1))
    return depths


@click.command("model")
@click.argument("model", type=MODEL, required=False)
@click.option(
    "-p", "--prompt", type=options.COUNT, default=512, show_default=True, help="Tokens of the prompt, evaluated at once."
)
@click.option("-n", "--generate", type=options.COUNT, default=128, show_default=True, help="Tokens evaluated one by one.")
@click.option("-r", "--rounds", type=options.POSITIVE, default=5, show_default=True, help="Repetitions.")
@click.option(
    "-d",
    "--depth",
    "depths",
    callback=_depths,
    metavar="N[,N...]",
    type=TEXT,
    default="0",
    show_default=True,
    help="Tokens in the context before both; several, as 256,1k,4k.",
)
@options.threads
@options.reference
@options.as_json
@options.plot
def bench_model(
    model: str | None,
    prompt: int,
    generate: int,
    rounds: int,
    depths: list[int],
    threads: int,
    reference_dir: Path | None,
    as_json: bool,
    plot_file: Path | None,
) -> None:
    """Measure a model in llama-bench's terms: tokens a second of a prompt, and of tokens one by one.

    MODEL is a name from `bankml list` or a path; none means the default model.
    """
    if prompt == generate == 0:
        raise click.UsageError("-p and -n are both 0: nothing to measure")
    from bankml.bench.model import Plan, measure_depths
    from bankml.bench.plot import check_plot, plot_model
    from bankml.core.pins import resolve_model

    check_plot(plot_file)
    reference = options.build(reference_dir)
    path = resolve_model(model)
    plan = Plan(prompt, generate, 0, rounds, threads)
    with options.Rounds(rounds * len(depths)) as round_done:
        reports = measure_depths(path, plan, depths, reference, round_done=round_done)
    if plot_file is not None:
        plot_model(reports, plot_file)
    if as_json:
        shown = [report.as_dict() for report in reports]
        click.echo(json.dumps(shown[0] if len(shown) == 1 else {"depths": shown}, indent=2))
        return
    click.echo("\n\n".join(_text(report, reports) for report in reports))


def _text(report: Report, reports: Sequence[Report]) -> str:
    plan, row = report.plan, options.row
    depth = f", after {plan.depth} tokens" if plan.depth or len(reports) > 1 else ""
    lines = [
        f"{report.model.name}: {plan.threads} threads{depth}, {plan.rounds} rounds, median (least-greatest)",
        row("", "bankml", *options.titles(report.reference)),
        row(f"prefill {plan.prompt}, tokens/s", *_rates(report.prefill, report.their_prefill)),
        row(f"decode {plan.generate}, tokens/s", *_rates(report.decode, report.their_decode)),
        row("peak memory, MB", options.megabytes(report.resident_bytes), options.megabytes(report.their_resident_bytes)),
    ]
    if first := report.first_token_seconds:
        warm, cold = first["first_token_seconds_warm"], first["first_token_seconds_cold"]
        lines.append(row("first token, s", f"{warm:.2f}, loading included {cold:.2f}"))
    if report.share_of_memory is not None:
        speed = report.bytes_per_token * max(report.decode.values) / 1e9 if report.decode else 0.0
        lines.append(
            f"a decoded token reads {report.bytes_per_token / 1e6:.1f} MB of weights: {speed:.1f} GB/s at best, "
            f"{report.share_of_memory:.0%} of what {plan.threads} threads read"
        )
    return "\n".join(lines)


def _rates(mine: Samples | None, theirs: Samples | None) -> list[str]:
    if mine is None:
        return ["-"]
    return [mine.text(), *([theirs.text(), mine.over(theirs).text(2)] if theirs is not None else [])]
