# SPDX-License-Identifier: MIT OR Apache-2.0
"""``bankml bench memory``: the floor under every decoded token."""

from __future__ import annotations

import json

import click

from bankml.cli.bench import options


@click.command("memory")
@click.option("-r", "--rounds", type=options.POSITIVE, default=9, show_default=True, help="Passes over 768 MiB.")
@click.option(
    "--threads",
    "counts",
    type=options.POSITIVE,
    multiple=True,
    help="Worker threads; repeatable.  [default: 1 and every processor]",
)
@options.as_json
def bench_memory(rounds: int, counts: tuple[int, ...], as_json: bool) -> None:
    """Measure how fast this machine's memory is read.

    The worker team reads a buffer far larger than the caches, in chunks that its threads claim, as it reads the weights.
    """
    from bankml.bench.memory import READ_BYTES, Memory, memory_read

    wanted = sorted(set(counts)) or sorted({1, options.THREADS})
    with options.Rounds(rounds * len(wanted)) as pass_done:
        memory = Memory(READ_BYTES, {count: memory_read(count, rounds, pass_done=pass_done) for count in wanted})
    if as_json:
        click.echo(json.dumps(memory.as_dict(), indent=2))
        return
    click.echo(options.row("read, GB/s", "median (least-greatest)"))
    for count, samples in memory.rates.items():
        click.echo(options.row(f"{count} thread{'s' if count > 1 else ''}", samples.scaled(1e-9).text(1)))
