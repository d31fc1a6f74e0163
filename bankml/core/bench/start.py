# SPDX-License-Identifier: MIT OR Apache-2.0
"""The start: from a new process to its first token, and the memory that it then holds."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bankml.core.bench.process import peak_resident_bytes, run_measured
from bankml.core.bench.samples import Samples
from bankml.core.home import forks_dir

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
    cold_seconds: float | None = None
    """The same with no kernel compiled yet: once for each version on a machine."""
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
        if self.cold_seconds is not None:
            told["cold_first_token_seconds"] = self.cold_seconds
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
    cold: bool = False,
    round_done: Callable[[], object] | None = None,
) -> Start:
    """Start ``bankml generate`` and, with a reference, llama-server, in turn; both answer one token to the same prompt.

    ``cold`` first measures one start that compiles every kernel that it needs.

    Raises:
        Refusal: a process failed.
    """
    command = [sys.executable, "-m", "bankml", "generate", str(path.resolve()), PROMPT]
    command += ["--max", "1", "--ctx", str(ctx), "--threads", str(threads)]
    mine: list[float] = []
    theirs: list[float] = []
    resident = their_resident = 0
    cold_seconds = _cold_start(command) if cold else None
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
    start = Start(path, ctx, Samples.of(mine), resident, cold_seconds)
    if reference is None:
        return start
    return replace(start, their_seconds=Samples.of(theirs), their_resident_bytes=their_resident, reference=reference.facts())


def _cold_start(command: list[str]) -> float:
    with tempfile.TemporaryDirectory(prefix="bankml-cold-") as empty:
        environment = os.environ | {"BANKML_HOME": empty, "BANKML_FORKS": str(forks_dir())}
        return run_measured(command, environment, "bankml generate").first_byte_seconds


def _their_start(reference: Reference, path: Path, ctx: int, threads: int) -> tuple[float, int]:
    start = time.perf_counter()
    with reference.server(path, ctx, threads) as server:
        server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 1})
        return time.perf_counter() - start, peak_resident_bytes(server.pid) or 0
