# SPDX-License-Identifier: MIT OR Apache-2.0
"""The start: from a new process to its first token, and the memory that it then holds."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bankml.bench.process import peak_resident_bytes, run_measured
from bankml.bench.samples import Samples
from bankml.home import forks_dir

if TYPE_CHECKING:
    from bankml.reference.build import Reference

PROMPT = "Why is the sky blue?"


@dataclass(frozen=True)
class Start:
    """Seconds from the start of a process to its first token, and the most memory it held."""

    model: Path
    ctx: int
    seconds: Samples
    resident_bytes: Samples
    cold_seconds: Samples | None = None
    """The same with no kernel compiled yet: once for each version on a machine."""
    their_seconds: Samples | None = None
    their_resident_bytes: Samples | None = None
    reference: dict[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        members: dict[str, Any] = {
            "model": self.model.name,
            "ctx": self.ctx,
            **self.seconds.as_dict("first_token_seconds"),
            **self.resident_bytes.as_dict("resident_bytes"),
        }
        if self.cold_seconds is not None:
            members |= self.cold_seconds.as_dict("cold_first_token_seconds")
        if self.their_seconds is not None and self.their_resident_bytes is not None:
            members["reference"] = {
                **(self.reference or {}),
                **self.their_seconds.as_dict("first_token_seconds"),
                **self.their_resident_bytes.as_dict("resident_bytes"),
            }
            members |= self.seconds.over(self.their_seconds).as_dict("first_token_ratio")
        return members


def measure_start(
    path: Path,
    ctx: int,
    threads: int,
    rounds: int,
    reference: Reference | None = None,
    cold: bool = False,
    round_done: Callable[[], object] | None = None,
) -> Start:
    """Start ``bankml generate`` and, with a reference, llama-server; both answer one token to the same prompt.

    The one that begins changes from round to round. ``cold`` measures starts before that compile every kernel that they need.

    Raises:
        Refusal: a process failed.
    """
    command = [sys.executable, "-m", "bankml", "generate", str(path.resolve()), PROMPT]
    command += ["--max", "1", "--ctx", str(ctx), "--threads", str(threads)]
    mine: list[tuple[float, int]] = []
    theirs: list[tuple[float, int]] = []
    cold_seconds = Samples.of([_cold_start(command) for _ in range(rounds)]) if cold else None
    # One start that is not counted: it compiles what is not compiled yet and brings the file into memory.
    _our_start(command)
    for number in range(rounds):
        if reference is not None and number % 2:
            theirs.append(_their_start(reference, path, ctx, threads))
        mine.append(_our_start(command))
        if reference is not None and not number % 2:
            theirs.append(_their_start(reference, path, ctx, threads))
        if round_done is not None:
            round_done()
    start = Start(path, ctx, *_samples(mine), cold_seconds)
    if reference is None:
        return start
    their_seconds, their_bytes = _samples(theirs)
    return replace(start, their_seconds=their_seconds, their_resident_bytes=their_bytes, reference=reference.facts())


def _samples(rounds: Sequence[tuple[float, int]]) -> tuple[Samples, Samples]:
    return Samples.of([seconds for seconds, _ in rounds]), Samples.of([held for _, held in rounds])


def _our_start(command: list[str]) -> tuple[float, int]:
    done = run_measured(command, os.environ, "bankml generate")
    return done.first_byte_seconds, done.resident_bytes


def _cold_start(command: list[str]) -> float:
    with tempfile.TemporaryDirectory(prefix="bankml-cold-") as empty:
        environment = os.environ | {"BANKML_HOME": empty, "BANKML_FORKS": str(forks_dir())}
        return run_measured(command, environment, "bankml generate").first_byte_seconds


def _their_start(reference: Reference, path: Path, ctx: int, threads: int) -> tuple[float, int]:
    start = time.perf_counter()
    with reference.server(path, ctx, threads) as server:
        server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 1})
        return time.perf_counter() - start, peak_resident_bytes(server.pid) or 0
