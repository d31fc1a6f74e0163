# SPDX-License-Identifier: MIT OR Apache-2.0
"""One run of the reference's own benchmark."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from bankml.bench.process import run_measured
from bankml.reference.build import Reference


@dataclass(frozen=True)
class Round:
    """Tokens a second of one repetition; None where that part was not asked for."""

    prefill: float | None
    decode: float | None
    resident_bytes: int


def llama_bench_round(reference: Reference, model: Path, prompt: int, generate: int, depth: int, threads: int) -> Round:
    """llama-bench on a model file, one repetition after its own warm-up, everything else at its defaults."""
    command = [
        str(reference.program("llama-bench")),
        *("-m", str(model)),
        *("-p", str(prompt)),
        *("-n", str(generate)),
        *("-d", str(depth)),
        *("-t", str(threads)),
        *("-r", "1"),
        *("-o", "json"),
    ]
    done = run_measured(command, reference.environment(), "llama-bench")
    prefill = decode = None
    for test in json.loads(done.stdout):
        if test["n_gen"] == 0:
            prefill = float(test["samples_ts"][0])
        else:
            decode = float(test["samples_ts"][0])
    return Round(prefill, decode, done.resident_bytes)
