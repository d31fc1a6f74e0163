# SPDX-License-Identifier: MIT OR Apache-2.0
"""The tables of docs/performance.md: of the rounds of one run, and of nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bankml.bench.samples import Samples

NOTHING = "No run is kept yet: `make performance` makes one."


def tables(run: dict[str, Any] | None) -> str:
    """All that the page states of a run, as Markdown."""
    if run is None:
        return NOTHING + "\n"
    steps = {step["name"]: step for step in run["steps"]}
    parts = [_made_of(run), "### Models\n", *_models(steps)]
    parts += ["### Longer contexts\n", *_depths(steps["depths"])]
    parts += ["### Starts\n", *_start(steps["start"])]
    parts += ["### Matrix products\n", *_kernels(steps["kernels"])]
    for name, step in steps.items():
        if name.startswith("kernels "):
            parts += [f"### Matrix products, tier `{step['report']['tier']}`\n", *_kernels(step)]
    parts += ["### Memory\n", *_memory(steps["memory"])]
    return "\n".join(parts)


def _made_of(run: dict[str, Any]) -> str:
    machine = run["machine"]
    lines = [
        f"Commit `{run['commit'][:12]}`, {run['date']}; {run['rounds']} rounds of everything, in each cell their median "
        "(least-greatest).",
        "",
        f"* {machine['processor']}, {machine['processors']} processors, {machine['memory_bytes'] / 2**30:.1f} GiB of memory, "
        f"{machine['system']}; kernels of the tier `{run['tier']}`.",
        f"* Python {machine['python']}, {', '.join(f'{name} {found}' for name, found in run['libraries'].items())}.",
    ]
    for name, build in run["references"].items():
        flags = ", ".join(f"{flag}={value}" for flag, value in build["flags"].items())
        lines.append(f"* {name}: llama.cpp {build['version']} {build['variant']}, {build['compiler']}; {flags}.")
    return "\n".join([*lines, ""])


def _by(step: dict[str, Any]) -> str:
    before, after = (f"{step[name][0]:.2f}" for name in ("load_before", "load_after"))
    return f"\nby `{step['command']}`; the machine's load was {before} before and {after} after.\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def _cell(values: Sequence[float] | None, digits: int, factor: float = 1.0) -> str:
    return "" if not values else Samples.of(values).scaled(factor).text(digits)


def _ratio(mine: Sequence[float] | None, theirs: Sequence[float] | None) -> str:
    """How many times the one is the other, round by round."""
    return "" if not mine or not theirs else Samples.of(mine).over(Samples.of(theirs)).text(2)


def _rates(report: dict[str, Any], part: str) -> list[str]:
    name = f"{part}_tokens_per_second_samples"
    mine, theirs = report.get(name), report.get("reference", {}).get(name)
    return [_cell(mine, 1), _cell(theirs, 1), _ratio(mine, theirs)]


def _build(report: dict[str, Any]) -> str:
    build = report.get("reference")
    return f"{build['version']} {build['variant']}" if build else "no reference"


def _models(steps: dict[str, dict[str, Any]]) -> Iterator[str]:
    chosen = [step for name, step in steps.items() if name.startswith("model ")]
    first = chosen[0]["report"]
    build = _build(first)
    head = ["file", "decode, tokens/s", build, "ratio", f"prefill {first['prompt']}, tokens/s", build, "ratio"]
    rows = [
        [step["name"].removeprefix("model "), *_rates(step["report"], "tg"), *_rates(step["report"], "pp")] for step in chosen
    ]
    yield f"SmolLM2-135M-Instruct as llama-quantize makes it, {first['threads']} threads each:\n"
    yield _table(head, rows)
    for step in chosen:
        yield _by(step).rstrip("\n")
    yield ""


def _depths(step: dict[str, Any]) -> Iterator[str]:
    reports = step["report"]["depths"]
    rows = [[str(report["depth"]), *_rates(report, "tg")] for report in reports]
    yield _table(["tokens before", "decode, tokens/s", _build(reports[0]), "ratio"], rows)
    yield _by(step)


def _start(step: dict[str, Any]) -> Iterator[str]:
    report = step["report"]
    theirs = report.get("reference", {})

    def row(label: str, name: str, digits: int, factor: float = 1.0) -> list[str]:
        mine, other = report.get(f"{name}_samples"), theirs.get(f"{name}_samples")
        return [label, _cell(mine, digits, factor), _cell(other, digits, factor), _ratio(mine, other)]

    rows = [
        row(f"start of a process to its first token, context {report['ctx']}, s", "first_token_seconds", 2),
        row("most memory that it held, MB", "resident_bytes", 0, 1e-6),
    ]
    if "cold_first_token_seconds_samples" in report:
        rows.append(row("the same start with nothing compiled, s", "cold_first_token_seconds", 1))
    yield _table(["", "bankml", _build(report), "bankml's part of it"], rows)
    yield _by(step)


def _kernels(step: dict[str, Any]) -> Iterator[str]:
    report = step["report"]
    cells = {(cell["type"], cell["threads"], cell["columns"]): cell for cell in report["cells"]}
    types = list(dict.fromkeys(cell["type"] for cell in report["cells"]))
    counts = sorted({cell["threads"] for cell in report["cells"]})
    columns = sorted({cell["columns"] for cell in report["cells"]})
    head = ["type"]
    for count in counts:
        head += [f"{'decode' if each == 1 else f'{each} columns'}, {_threads(count)}" for each in columns]
        head += [f"decode, {_threads(count)}: % of memory"]
    rows = []
    for name in types:
        row = [name]
        for count in counts:
            chosen = [cells[name, count, each] for each in columns]
            row += [_cell(cell.get("ratio_samples"), 2) for cell in chosen]
            row += [_cell(chosen[0]["share_of_memory_samples"], 0, 100)]
        rows.append(row)
    against = f"Ratios to {_build(report)}" if "reference" in report else "Without a reference,"
    yield f"{against} on a matrix of {report['rows']} x {report['k']}; weights: {report['weights']}:\n"
    yield _table(head, rows)
    yield _by(step)


def _threads(count: int) -> str:
    return f"{count} thread{'s' if count > 1 else ''}"


def _memory(step: dict[str, Any]) -> Iterator[str]:
    rows = [[_threads(each["threads"]), _cell(each["bytes_per_second_samples"], 1, 1e-9)] for each in step["report"]["memory"]]
    yield _table(["", "read, GB/s"], rows)
    yield _by(step)
