# SPDX-License-Identifier: MIT OR Apache-2.0
"""``bankml bench``: speed, as a ratio to the reference."""

from __future__ import annotations

import click

from bankml.cli.bench.constrain import bench_constrain
from bankml.cli.bench.kernels import bench_kernels
from bankml.cli.bench.memory import bench_memory
from bankml.cli.bench.model import bench_model
from bankml.cli.bench.start import bench_start


@click.group("bench")
def command() -> None:
    """Measure speed, as a ratio to the reference.

    A speed is worth stating only for code whose oracles pass, and only beyond the spread that is printed with it.
    """


for subcommand in (bench_model, bench_start, bench_kernels, bench_memory, bench_constrain):
    command.add_command(subcommand)
