# SPDX-License-Identifier: MIT OR Apache-2.0
"""The start: from a new process to its first token, and the memory that it then holds."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bankml.core.bench.process import peak_resident_bytes, run_measured
from bankml.core.bench.samples import Samples

if TYPE_CHECKING:
    from bankml.core.oracle.reference import Reference

PROMPT = "Why is the sky blue?"


@dataclass(frozen=True)
class Start:
    """Seconds from the start of a process to its first token, and the most memory it held."""

    model: Path
    ctx: int
    seconds: Samples
    resident_bytes: int
    their_seconds: Samples | None = None
    their_resident_bytes: int | None = None
    reference: dict[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        told: dict[str, Any] = {
            "model": self.model.name,
            "ctx": self.ctx,
            **self.seconds.as_dict("first_token_seconds"),
            "resident_bytes": self.resident_bytes,
        }
        if self.their_seconds is not None:
            told["reference"] = {
                **(self.reference or {}),
                **self.their_seconds.as_dict("first_token_seconds"),
                "resident_bytes": self.their_resident_bytes,
            }
        return told


def measure_start(
    path: Path,
    ctx: int,
    threads: int,
    rounds: int,
    reference: Reference | None = None,
    round_done: Callable[[], object] | None = None,
) -> Start:
    """Start ``bankml generate`` and, with a reference, llama-server, in turn; both answer one token to the same prompt.

    Raises:
        Refusal: a process failed.
    """
    command = [sys.executable, "-m", "bankml", "generate", str(path), PROMPT]
    command += ["--max", "1", "--ctx", str(ctx), "--threads", str(threads)]
    mine: list[float] = []
    theirs: list[float] = []
    resident = their_resident = 0
    # One start that is not counted: it compiles what is not compiled yet and brings the file into memory.
    run_measured(command, os.environ, "bankml generate")
    for _ in range(rounds):
        done = run_measured(command, os.environ, "bankml generate")
        mine.append(done.first_byte_seconds)
        resident = max(resident, done.resident_bytes)
        if reference is not None:
            seconds, held = _their_start(reference, path, ctx, threads)
            theirs.append(seconds)
            their_resident = max(their_resident, held)
        if round_done is not None:
            round_done()
    if reference is None:
        return Start(path, ctx, Samples.of(mine), resident)
    return Start(path, ctx, Samples.of(mine), resident, Samples.of(theirs), their_resident, reference.facts())


def _their_start(reference: Reference, path: Path, ctx: int, threads: int) -> tuple[float, int]:
    start = time.perf_counter()
    with reference.server(path, ctx, threads) as server:
        server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 1})
        return time.perf_counter() - start, peak_resident_bytes(server.pid) or 0
