# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measures all that docs/performance.md states, in one run on one commit, and writes the page's tables from it.

    python -m testing.performance [--reference DIR] [--fastest DIR] [--rounds N]   measure, keep every round, write the page
    python -m testing.performance --page                                           write the page from the newest run
    python -m testing.performance --check                                          hold the page to the newest run
    python -m testing.performance --quick --into DIR                               measure next to nothing, to try this out

REFERENCE (.reference/haswell) is the build whose bits bankml has: products of matrices are compared with its. FASTEST
(.reference/native, else REFERENCE) is this machine's fastest build, with which models and starts are compared. A run wants a work
tree without changes, and is kept whole or not at all: no part of it is measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bankml.bench.process import machine_facts
from bankml.core.pins import resolve_model, sha256_file
from bankml.core.pins.files import write_atomic
from bankml.kernels.compiler.isa import TIER, TIERS
from bankml.reference.build import Reference
from bankml.refusal import Refusal
from testing.gate_facts import LIBRARIES
from testing.performance_page import tables

RESULTS = Path("testing") / "results"
PAGE = Path("docs") / "performance.md"
BEGIN, END = "<!-- measured: begin (testing/performance.py writes this part) -->\n", "<!-- measured: end -->\n"
LEAST_ROUNDS = 5
BUSY = 0.5
MODEL_TYPES = ("Q8_0", "Q4_K_M", "Q4_0", "F16", "Q2_0")
"""What llama-quantize makes of the default model, which is Q4_1."""
_OURS = ("BANKML_CACHE_RAM", "BANKML_CACHE_TYPE", "BANKML_FORKS", "BANKML_ISA", "BANKML_LLAMA_THREADS", "BANKML_THREADS")


class CannotMeasureError(Exception):
    """Why there is nothing to measure, or nothing to show."""


@dataclass(frozen=True)
class Step:
    """One benchmark of the run.

    Attributes:
        name: by which the page finds it.
        words: the command line behind ``bankml bench``.
        tier: the instruction set of its kernels; None for the best.
    """

    name: str
    words: tuple[str, ...]
    tier: str | None = None


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rounds: int
    kernels: tuple[str, ...] = ()
    model: tuple[str, ...] = ("-p", "512", "-n", "64")
    types: tuple[str, ...] = MODEL_TYPES
    depths: tuple[str, ...] = ("-d", "256,1k,4k,8k", "-p", "0", "-n", "32")
    start: tuple[str, ...] = ("--cold",)


QUICK = Sizes(
    rounds=2,
    kernels=("--type", "Q4_1", "--rows", "64", "--columns", "512", "--threads", "1"),
    model=("-p", "4", "-n", "1"),
    types=(),
    depths=("-d", "0,16", "-p", "0", "-n", "1"),
    start=("--ctx", "256"),
)

Bench = Callable[[Step], Any]
"""Runs a step to its end and returns its report."""


def steps(sizes: Sizes, models: dict[str, Path], reference: str | None, fastest: str | None) -> Iterator[Step]:
    """What is measured, in this order; models and starts against ``fastest``, products of matrices against ``reference``."""
    rounds = ("-r", str(sizes.rounds))
    exact = ("--reference", reference) if reference else ()
    fast = ("--reference", fastest) if fastest else ()
    default = str(next(iter(models.values())))
    yield Step("memory", ("memory", *rounds))
    for name, path in models.items():
        yield Step(f"model {name}", ("model", str(path), *fast, *sizes.model, *rounds))
    yield Step("depths", ("model", default, *fast, *sizes.depths, *rounds))
    yield Step("start", ("start", default, *fast, *sizes.start, *rounds))
    yield Step("kernels", ("kernels", *exact, *sizes.kernels, *rounds))
    for tier in list(TIERS)[list(TIERS).index(TIER) + 1 :]:
        yield Step(f"kernels {tier}", ("kernels", *exact, *sizes.kernels, "--threads", "1", *rounds), tier)


def bench(step: Step) -> Any:
    """Run a step as a command of its own."""
    environment = {name: value for name, value in os.environ.items() if name not in _OURS}
    if step.tier is not None:
        environment["BANKML_ISA"] = step.tier
    command = [sys.executable, "-m", "bankml", "bench", *step.words, "--json"]
    done = subprocess.run(command, capture_output=True, env=environment, text=True, check=False)
    if done.returncode:
        raise CannotMeasureError(f"{step.name} failed: {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout)


def measured(run: Iterator[Step], ask: Bench) -> list[dict[str, Any]]:
    """Every step once, with the machine's load before and after it."""
    found = []
    for step in run:
        print(f"performance: {step.name}", file=sys.stderr, flush=True)
        before = os.getloadavg()
        report = ask(step)
        members = {
            "name": step.name,
            "command": _shown(step),
            "load_before": before,
            "load_after": os.getloadavg(),
            "report": report,
        }
        found.append(members)
    return found


def _shown(step: Step) -> str:
    """The command as a person would type it; of a model the file's name alone."""
    words = [Path(word).name if word.endswith(".gguf") else word for word in step.words]
    return " ".join([*([f"BANKML_ISA={step.tier}"] if step.tier else []), "bankml", "bench", *words])


def facts(commit: str, rounds: int, models: dict[str, Path], builds: dict[str, str | None]) -> dict[str, Any]:
    """What the numbers are of: commit, machine, libraries, models, builds of the reference with flags and sha256."""
    return {
        "commit": commit,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "rounds": rounds,
        "tier": TIER,
        "machine": machine_facts(),
        "libraries": {"libc": " ".join(platform.libc_ver()), **{name: version(name) for name in LIBRARIES}},
        "models": {name: {"file": path.name, "sha256": sha256_file(path)} for name, path in models.items()},
        "references": {name: Reference(place).facts() for name, place in builds.items() if place},
    }


def made_models(types: tuple[str, ...], reference: str, folder: Path) -> dict[str, Path]:
    """The default model, and what the reference's own quantizer makes of it, by type; made once."""
    default = resolve_model(None)
    models = {"Q4_1": default}
    build = Reference(reference)
    folder.mkdir(parents=True, exist_ok=True)
    for name in types:
        path = folder / f"SmolLM2-135M-Instruct.{name}.gguf"
        if not path.is_file():
            part = path.with_suffix(".part")
            command = [str(build.program("llama-quantize")), "--allow-requantize", str(default), str(part), name, "2"]
            done = subprocess.run(command, env=build.environment(), capture_output=True, check=False)
            if done.returncode:
                raise CannotMeasureError(f"llama-quantize makes no {name}")
            part.replace(path)
        models[name] = path
    return models


def clean_commit() -> str:
    """The commit that is the whole work tree.

    Raises:
        CannotMeasureError: there are changes, or there is no commit.
    """
    changes, commit = _git("status", "--porcelain"), _git("rev-parse", "HEAD")
    if not commit or changes:
        raise CannotMeasureError(f"the work tree is no commit:\n{changes}".rstrip())
    return commit


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], capture_output=True, text=True, check=False).stdout.strip()


def newest(folder: Path) -> dict[str, Any] | None:
    """The run of the latest date in a folder."""
    runs = [json.loads(path.read_text("utf-8")) for path in folder.glob("performance-*.json")]
    return max(runs, key=lambda run: datetime.fromisoformat(run["date"]), default=None)


def page_of(text: str, run: dict[str, Any] | None) -> str:
    """The page with the tables of a run between its marks."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise CannotMeasureError(f"{PAGE} has no marks {BEGIN.strip()} and {END.strip()}")
    return f"{head}{BEGIN}\n{tables(run)}\n{END}{tail}"


def measure(arguments: argparse.Namespace, ask: Bench = bench) -> Path:
    """Measure everything and keep it; returns the file of the run."""
    if arguments.quick and arguments.into == RESULTS:
        raise CannotMeasureError("what --quick measures is no result: --into names another folder")
    sizes = QUICK if arguments.quick else Sizes(arguments.rounds)
    if not arguments.quick and sizes.rounds < LEAST_ROUNDS:
        raise CannotMeasureError(f"a row has at least {LEAST_ROUNDS} rounds")
    commit = _git("rev-parse", "HEAD") if arguments.quick else clean_commit()
    # A page without marks is found now and not at the end.
    page_of(PAGE.read_text("utf-8"), None)
    if os.getloadavg()[0] > BUSY:
        print("performance: the machine is busy; the page will say so, and its numbers are not worth stating", file=sys.stderr)
    reference, fastest = arguments.reference, arguments.fastest
    models = {"Q4_1": resolve_model(None)}
    if not arguments.quick:
        reference = reference or ".reference/haswell"
        fastest = fastest or next((each for each in (".reference/native",) if Path(each).is_dir()), reference)
        models = made_models(sizes.types, reference, Path(os.environ["BANKML_HOME"]) / "performance")
    builds = {"reference": reference, "fastest": fastest if fastest != reference else None}
    run = facts(commit, sizes.rounds, models, builds)
    run["steps"] = measured(steps(sizes, models, reference, fastest), ask)
    if not arguments.quick and clean_commit() != commit:
        raise CannotMeasureError("the work tree changed while it was measured")
    target = arguments.into / f"performance-{commit[:12]}.json"
    write_atomic(target, (json.dumps(run, indent=1) + "\n").encode())
    return target


def _arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference")
    parser.add_argument("--fastest")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--into", type=Path, default=RESULTS)
    for mode in ("page", "check", "quick"):
        parser.add_argument(f"--{mode}", action="store_true")
    return parser.parse_args(words)


def main(words: list[str], ask: Bench = bench) -> int:
    """Do what the command line asks; returns 1 where the page is not that of the newest run, or nothing can be measured."""
    arguments = _arguments(words)
    # The same home as the tests' and the gate's.
    os.environ.setdefault("BANKML_HOME", os.environ.get("BANKML_TEST_HOME") or str(Path(".models").resolve()))
    try:
        if not (arguments.page or arguments.check):
            print(f"performance: {measure(arguments, ask)}", file=sys.stderr)
        text = PAGE.read_text("utf-8")
        right = page_of(text, newest(arguments.into))
    except (CannotMeasureError, Refusal, OSError) as error:
        print(f"performance: {error.line() if isinstance(error, Refusal) else error}", file=sys.stderr)
        return 1
    if arguments.check:
        print(f"{PAGE} is {'that of the newest run' if right == text else 'another than the newest run gives: make performance'}")
        return int(right != text)
    target = arguments.into / PAGE.name if arguments.quick else PAGE
    target.write_text(right, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
