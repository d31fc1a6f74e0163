# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the benchmarks share: options, the progress bar, the layout of a table."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bankml.cli.values import FILE

if TYPE_CHECKING:
    from bankml.reference.build import Reference

_MOST = 1 << 20
POSITIVE = click.IntRange(min=1, max=_MOST)
COUNT = click.IntRange(min=0, max=_MOST)
THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

reference = click.option(
    "--reference",
    "reference_dir",
    metavar="DIR",
    type=FILE,
    help="Measure this build of the reference in the same run, in turn with ours.",
)
threads = click.option("--threads", type=POSITIVE, default=THREADS, help="Worker threads.  [default: every processor]")
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
plot = click.option("--plot", "plot_file", type=FILE, help="Draw it, too: .svg, .png or .pdf.")


class Rounds:
    """A progress bar over the rounds, on a terminal only, after a note when the machine is busy."""

    def __init__(self, rounds: int) -> None:
        from tqdm import tqdm

        busy = os.getloadavg()[0]
        if busy > 0.5:
            # Spinning threads lose far more to other processes than claiming ones: a ratio measured then flatters ours.
            click.echo(f"note: the machine is busy (load {busy:.1f}); the numbers will not be those of an idle one", err=True)
        self._bar = tqdm(total=rounds, desc="rounds", file=sys.stderr, disable=not sys.stderr.isatty(), leave=False)

    def __enter__(self) -> Callable[[], object]:
        return self._bar.update

    def __exit__(self, *_: object) -> None:
        self._bar.close()


def build(directory: Path | None) -> Reference | None:
    """The build of the reference that an option named."""
    from bankml.reference.build import Reference

    return Reference(directory) if directory is not None else None


def titles(reference: dict[str, Any] | None) -> list[str]:
    """Heads of the columns that a reference adds."""
    return [f"{reference['version']} {reference['variant']}", "ratio"] if reference else []


def row(name: str, *cells: str) -> str:
    """A line of a table."""
    return (f"{name:<26}" + "".join(f"{cell:<26}" for cell in cells)).rstrip()


def megabytes(value: int | None) -> str:
    """A size for people."""
    return "" if value is None else f"{value / 1e6:.0f}"
