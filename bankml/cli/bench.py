# SPDX-License-Identifier: MIT OR Apache-2.0
"""``bankml bench``: speed, as a ratio to the reference."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from bankml.core.bench.model import Report
    from bankml.core.bench.samples import Samples
    from bankml.core.bench.start import Start
    from bankml.core.oracle.reference import Reference

_POSITIVE = click.IntRange(min=1)
_COUNT = click.IntRange(min=0)
_THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

_reference = click.option(
    "--reference", "reference_dir", metavar="DIR", help="Measure this build of the reference in the same run, in turn with ours."
)
_threads = click.option("--threads", type=_POSITIVE, default=_THREADS, help="Worker threads.  [default: every processor]")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group("bench")
def command() -> None:
    """Measure speed, as a ratio to the reference.

    A speed is worth stating only for code whose oracles pass, and only beyond the spread that is printed with it.
    """


@command.command("model")
@click.argument("model", required=False)
@click.option("-p", "--prompt", type=_COUNT, default=512, show_default=True, help="Tokens of the prompt, evaluated at once.")
@click.option("-n", "--generate", type=_COUNT, default=128, show_default=True, help="Tokens evaluated one by one.")
@click.option("-r", "--rounds", type=_POSITIVE, default=5, show_default=True, help="Repetitions.")
@click.option("-d", "--depth", type=_COUNT, default=0, show_default=True, help="Tokens in the context before both.")
@_threads
@_reference
@_json
def bench_model(
    model: str | None,
    prompt: int,
    generate: int,
    rounds: int,
    depth: int,
    threads: int,
    reference_dir: str | None,
    as_json: bool,
) -> None:
    """Measure a model in llama-bench's terms: tokens a second of a prompt, and of tokens one by one.

    MODEL is a name from `bankml list` or a path; none means the default model.
    """
    if prompt == generate == 0:
        raise click.UsageError("-p and -n are both 0: nothing to measure")
    from bankml.core.bench.model import Plan, measure
    from bankml.core.pins import resolve_model

    reference = _build(reference_dir)
    path = resolve_model(model)
    with _Rounds(rounds) as round_done:
        report = measure(path, Plan(prompt, generate, depth, rounds, threads), reference, round_done=round_done)
    click.echo(json.dumps(report.as_dict(), indent=2) if as_json else _model_text(report))


@command.command("start")
@click.argument("model", required=False)
@click.option("--ctx", type=_POSITIVE, default=4096, show_default=True, help="KV cells.")
@click.option("-r", "--rounds", type=_POSITIVE, default=3, show_default=True, help="Repetitions.")
@click.option("--cold", is_flag=True, help="Measure a start without compiled kernels, too.")
@_threads
@_reference
@_json
def bench_start(
    model: str | None, ctx: int, rounds: int, cold: bool, threads: int, reference_dir: str | None, as_json: bool
) -> None:
    """Measure the time from a new process to its first token, and the memory that it holds.

    MODEL is a name from `bankml list` or a path; none means the default model.
    """
    from bankml.core.bench.start import measure_start
    from bankml.core.pins import resolve_model

    reference = _build(reference_dir)
    path = resolve_model(model)
    with _Rounds(rounds) as round_done:
        start = measure_start(path, ctx, threads, rounds, reference, cold, round_done)
    click.echo(json.dumps(start.as_dict(), indent=2) if as_json else _start_text(start))


class _Rounds:
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


def _build(directory: str | None) -> Reference | None:
    from bankml.core.oracle.reference import Reference

    return Reference(directory) if directory is not None else None


def _model_text(report: Report) -> str:
    plan = report.plan
    lines = [
        f"{report.model.name}: {plan.threads} threads, {plan.rounds} rounds, median (least-greatest)",
        _row("", "bankml", *_titles(report.reference)),
        _row(f"prefill {plan.prompt}, tokens/s", *_rates(report.prefill, report.their_prefill)),
        _row(f"decode {plan.generate}, tokens/s", *_rates(report.decode, report.their_decode)),
        _row("peak memory, MB", _megabytes(report.resident_bytes), _megabytes(report.their_resident_bytes)),
    ]
    if report.decode is not None:
        speed = report.bytes_per_token * report.decode.median / 1e9
        read = f"; memory gives {report.memory_read / 1e9:.1f} GB/s" if report.memory_read else ""
        lines.append(f"a decoded token reads {report.bytes_per_token / 1e6:.1f} MB of weights: {speed:.1f} GB/s{read}")
    return "\n".join(line.rstrip() for line in lines)


def _start_text(start: Start) -> str:
    lines = [
        f"{start.model.name}: context {start.ctx}, median (least-greatest)",
        _row("", "bankml generate", *_titles(start.reference)),
        _row(
            "to the first token, s",
            start.seconds.text(2),
            *([start.their_seconds.text(2), start.seconds.over(start.their_seconds).text(2)] if start.their_seconds else []),
        ),
        _row("peak memory, MB", _megabytes(start.resident_bytes), _megabytes(start.their_resident_bytes)),
    ]
    if start.cold_seconds is not None:
        lines.append(_row("the first start of all, s", f"{start.cold_seconds:.1f}"))
    return "\n".join(line.rstrip() for line in lines)


def _titles(reference: dict[str, Any] | None) -> list[str]:
    return [f"{reference['version']} {reference['variant']}", "ratio"] if reference else []


def _rates(mine: Samples | None, theirs: Samples | None) -> list[str]:
    if mine is None:
        return ["-"]
    return [mine.text(), *([theirs.text(), mine.over(theirs).text(2)] if theirs is not None else [])]


def _row(name: str, *cells: str) -> str:
    return f"{name:<26}" + "".join(f"{cell:<26}" for cell in cells)


def _megabytes(value: int | None) -> str:
    return "" if value is None else f"{value / 1e6:.0f}"
