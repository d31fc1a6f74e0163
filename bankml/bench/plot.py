# SPDX-License-Identifier: MIT OR Apache-2.0
"""Drawings of measurements, by matplotlib, which is installed only on request."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bankml.core.pins.files import disk_refusal, write_atomic
from bankml.refusal import EXIT_OTHER, Refusal

if TYPE_CHECKING:
    from bankml.bench.kernels import Report as KernelReport
    from bankml.bench.model import Report as ModelReport
    from bankml.bench.samples import Samples

SUFFIXES = (".svg", ".png", ".pdf")


def check_plot(file: Path | None) -> None:
    """Refuse a drawing that could not be made, before anything is measured for it.

    Raises:
        Refusal: ``bench.plot``.
    """
    if file is None:
        return
    if file.suffix.lower() not in SUFFIXES:
        raise Refusal("bench.plot", "no such kind of drawing", where=str(file), allowed=", ".join(SUFFIXES), exit_code=EXIT_OTHER)
    if not file.parent.is_dir():
        raise Refusal("bench.plot", "there is no such directory", where=str(file.parent), exit_code=EXIT_OTHER)
    if importlib.util.find_spec("matplotlib") is None:
        raise Refusal("bench.plot", "drawing needs matplotlib", hint="pip install 'bankml[plot]'", exit_code=EXIT_OTHER)


def plot_kernels(report: KernelReport, file: Path) -> None:
    """Bars by type: the ratio to the reference, or without one the bytes a second."""
    from bankml.bench.kernels import DECODE, PREFILL, by_type

    counts = sorted({cell.threads for cell in report.cells})
    figure, axes = _figure(len(counts), "types")
    for ax, count in zip(axes, counts, strict=True):
        types = list(by_type(report.cells))
        for number, (columns, label) in enumerate(((DECODE, "times one vector"), (PREFILL, "times 32 vectors"))):
            cells = [cells[count, columns] for _, cells in types]
            places = [at + 0.4 * number - 0.2 for at in range(len(types))]
            if report.reference is not None:
                samples = [cell.ratio for cell in cells if cell.ratio is not None]
                ax.bar(places, [s.median for s in samples], 0.4, yerr=_errors(samples), capsize=2, label=label)
            else:
                ax.bar(places, [cell.rate(min(cell.seconds.values)) / 1e9 for cell in cells], 0.4, label=label)
        ax.set_xticks(range(len(types)), [name for name, _ in types], rotation=60, ha="right")
        ax.set_title(f"{count} thread{'s' if count > 1 else ''}, {report.rows} x {report.k}, {report.tier}")
        if report.reference is not None:
            ax.set_yscale("log")
            ax.axhline(1, color="black", linewidth=0.8)
            ax.set_ylabel(f"times as fast as {report.reference['version']} {report.reference['variant']}")
        else:
            ax.set_ylabel("GB/s of weights")
        ax.legend()
    _save(figure, file)


def plot_model(reports: Sequence[ModelReport], file: Path) -> None:
    """Tokens a second over the depth of the context: prompt and single tokens, ours and the reference's."""
    figure, axes = _figure(2, "depths")
    first = reports[0]
    for ax, mine, theirs, title in (
        (axes[0], "prefill", "their_prefill", f"prefill of {first.plan.prompt}"),
        (axes[1], "decode", "their_decode", f"decode of {first.plan.generate}"),
    ):
        names = [(mine, "bankml")]
        if first.reference is not None:
            names.append((theirs, f"{first.reference['version']} {first.reference['variant']}"))
        for name, label in names:
            points = [(r.plan.depth, s) for r in reports if (s := getattr(r, name)) is not None]
            if points:
                samples = [s for _, s in points]
                ax.errorbar(
                    [d for d, _ in points], [s.median for s in samples], yerr=_errors(samples), marker="o", capsize=3, label=label
                )
        ax.set_ylim(bottom=0)
        ax.set_xlabel("tokens in the context before")
        ax.set_ylabel("tokens/s")
        ax.set_title(f"{title}, {first.plan.threads} threads")
        if ax.get_legend_handles_labels()[0]:
            ax.legend()
    figure.suptitle(first.model.name)
    _save(figure, file)


def _errors(samples: Sequence[Samples]) -> list[list[float]]:
    return [[s.median - s.spread[0] for s in samples], [s.spread[1] - s.median for s in samples]]


def _figure(panels: int, over: str) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    # Types need width and depths do not; a figure without pyplot needs no display.
    size = (12.0, 4.5 * panels) if over == "types" else (6.0 * panels, 4.5)
    figure = Figure(figsize=size, layout="constrained")
    grid = (panels, 1) if over == "types" else (1, panels)
    return figure, figure.subplots(*grid, squeeze=False).reshape(-1)


def _save(figure: Any, file: Path) -> None:
    drawn = io.BytesIO()
    figure.savefig(drawn, format=file.suffix[1:].lower())
    try:
        write_atomic(file, drawn.getvalue())
    except OSError as error:
        raise disk_refusal(file, error) from None
