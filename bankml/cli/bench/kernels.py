# SPDX-License-Identifier: MIT OR Apache-2.0
"""``bankml bench kernels``: matrix products of each weight type, ours and the reference's in one process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bankml.cli.bench import options
from bankml.cli.values import TEXT

if TYPE_CHECKING:
    from bankml.bench.kernels import Cell, Report


@click.command("kernels")
@click.option(
    "--type", "types", metavar="TYPE", type=TEXT, multiple=True, help="A weight type, such as Q4_K; repeatable.  [default: all]"
)
@click.option("-r", "--rounds", type=options.POSITIVE, default=7, show_default=True, help="Repetitions.")
@click.option("--threads", "counts", type=options.POSITIVE, multiple=True, help="Worker threads; repeatable.  [default: 1 and 2]")
@click.option("--rows", type=options.POSITIVE, default=12288, show_default=True, help="Rows of the matrix.")
@click.option("--columns", "k", type=options.POSITIVE, default=4096, show_default=True, help="Weights of a row.")
@options.reference
@options.as_json
@options.plot
def bench_kernels(
    types: tuple[str, ...],
    rounds: int,
    counts: tuple[int, ...],
    rows: int,
    k: int,
    reference_dir: Path | None,
    as_json: bool,
    plot_file: Path | None,
) -> None:
    """Measure the matrix products of each weight type: times one vector, and times 32.

    With --reference the default model's weights are brought into each type by the reference's own quantizer, both kernels run
    in this process, in turn, and nothing is measured before every output has the same bits.
    """
    from bankml.bench.kernels import measure_kernels, real_rows, type_names
    from bankml.bench.plot import check_plot, plot_kernels
    from bankml.core.pins import resolve_model

    check_plot(plot_file)
    reference = options.build(reference_dir)
    real = real_rows(resolve_model(None), k) if reference is not None else None
    wanted = [name.upper() for name in types] or type_names()
    threads = sorted(set(counts)) or sorted({1, min(2, options.THREADS)})
    with options.Rounds(2 * len(wanted) * len(threads)) as cell_done:
        report = measure_kernels(wanted, threads, rounds, reference, real, (rows, k), cell_done)
    if plot_file is not None:
        plot_kernels(report, plot_file)
    click.echo(json.dumps(report.as_dict(), indent=2) if as_json else _text(report))


def _text(report: Report) -> str:
    from bankml.bench.kernels import DECODE, PREFILL, by_type

    lines = [
        f"{report.rows} x {report.k}, {report.tier}, weights: {report.weights}; {report.rounds} rounds, median (least-greatest)"
    ]
    for count in sorted({cell.threads for cell in report.cells}):
        lines.append("")
        lines.append(f"{_threads(count):<11}{'one vector':<62}{'32 vectors'}")
        lines.append(f"{'':<11}{'ns/block':<10}{'GB/s':<8}{'of memory, %':<20}{'ratio':<24}{'ns/block':<12}{'ratio'}".rstrip())
        for name, cells in by_type(report.cells):
            one, many = cells[count, DECODE], cells[count, PREFILL]
            speed = min(one.seconds.values)
            lines.append(
                f"{name:<11}{one.nanoseconds(speed):<10.3f}{one.rate(speed) / 1e9:<8.1f}{_share(one):<20}"
                f"{_ratio(one):<24}{many.nanoseconds(min(many.seconds.values)):<12.3f}{_ratio(many)}".rstrip()
            )
    return "\n".join(lines)


def _threads(count: int) -> str:
    return f"{count} thread{'s' if count > 1 else ''}"


def _share(cell: Cell) -> str:
    return "-" if cell.share is None else cell.share.scaled(100).text(0)


def _ratio(cell: Cell) -> str:
    return "-" if cell.ratio is None else cell.ratio.text(2)
