# SPDX-License-Identifier: MIT OR Apache-2.0
"""Holds answers and logprobs to the reference on what ``llama-quantize`` makes of a model, type by type.

Usage: python testing/every_type.py MODEL --reference DIR [--work DIR] [--types Q4_K_M,ffn_down=Q1_0] [--caches f16,q8_0]
           [--scripts short,long,deep,sampled,logprobs] [--threads N] [--no-matrix] [--file Q2_0=FILE]

Each file is made with an importance matrix from a fixed stream, which some types need and which moves others to other mixes
(--no-matrix makes them as those do who have none), unless --file gives it ready; llama-server is asked, bankml answers, and the
file is removed. A type after a pattern is what --tensor-type makes of the tensors that match, beside Q8_0. What llama-quantize
refuses to make is named. Prints the types of each file's matrices, a line a cache, and the sum; exit code 0 only if all are
identical.

SmolLM2-135M takes about a minute a type and cache on two cores, and llama-quantize another minute for IQ1 to IQ3. Q2_0 comes
last: the reference takes about ten minutes a cache for it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from importance_matrix import write_importance_matrix

from bankml.core.gguf.reader import GgufFile
from bankml.core.gguf.types import type_name
from bankml.oracle.kind import Tally
from bankml.oracle.run import compare_record, make_record
from bankml.reference.build import Reference
from bankml.refusal import Refusal

TYPES = (
    "Q1_0", "Q4_0", "Q4_1", "MXFP4_MOE", "Q5_0", "Q5_1", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M", "IQ1_S", "IQ1_M",
    "TQ1_0", "TQ2_0", "Q2_K", "Q2_K_S", "IQ3_XXS", "IQ3_S", "IQ3_M", "Q3_K_S", "IQ3_XS", "Q3_K_M", "Q3_K_L", "IQ4_NL", "IQ4_XS",
    "Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M", "Q6_K", "Q8_0", "F16", "BF16", "F32",
    "blk=MXFP4", "blk=NVFP4", "ffn_down=Q1_0",
    "Q2_0",
)  # fmt: skip
"""All that llama-quantize offers, but for COPY and its second names for three of these; and the types that SmolLM2 gets by
``--tensor-type`` alone: MXFP4_MOE is for experts, and only rows of multiples of 128 can be Q1_0."""

SCRIPTS: dict[str, tuple[str, dict[str, object]]] = {
    "short": ("greedy", {"script": "short"}),
    "long": ("greedy", {"script": "long", "first": 2}),
    "deep": ("greedy", {"script": "deep"}),
    "sampled": ("sampled", {"script": "chain", "first": 8}),
    "logprobs": ("logprobs", {"first": 12}),
}


def main() -> int:
    """Hold every type; returns 0 or 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--caches", default="f16,q8_0")
    parser.add_argument("--scripts", default=",".join(SCRIPTS))
    parser.add_argument("--threads", type=int, default=3)
    parser.add_argument("--no-matrix", action="store_true")
    parser.add_argument("--file", action="append", default=[], metavar="TYPE=FILE")
    arguments = parser.parse_args()
    # A thread that spins while it waits keeps a core from the one that it waits for: ten times slower beside other programs.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    reference = Reference(arguments.reference)
    given = {name: Path(path) for name, _, path in (text.rpartition("=") for text in arguments.file)}
    total = Tally()
    made = 0
    with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
        matrix = None if arguments.no_matrix else Path(folder) / "importance.gguf"
        if matrix:
            write_importance_matrix(arguments.model, matrix)
        for name in arguments.types.split(","):
            file = given.get(name, Path(folder) / f"{name}.gguf")
            if name not in given:
                refused = _quantize(reference, arguments.model, matrix, file, name)
                if refused:
                    print(f"{name:<13} llama-quantize makes none of it: {refused}", flush=True)
                    continue
            made += 1
            print(f"{name:<13} {_matrices(file)}", flush=True)
            for cache in arguments.caches.split(","):
                begun = time.monotonic()
                counts = []
                for script in arguments.scripts.split(","):
                    tally = _hold(file, reference, script, {"cache_type": cache, "threads": arguments.threads})
                    total.identical, total.total = total.identical + tally.identical, total.total + tally.total
                    counts.append(f"{script} {tally.identical} of {tally.total}")
                    for difference in tally.differences[:3]:
                        print(f"{name:<13} {cache} {script}: {difference}", flush=True)
                print(f"{name:<13} {cache:<5} {', '.join(counts)}; {time.monotonic() - begun:.0f} s", flush=True)
            if name not in given:
                file.unlink()
    print(f"{made} types: {total.identical} of {total.total} identical")
    return 0 if total.identical == total.total and made else 1


def _quantize(reference: Reference, model: Path, matrix: Path | None, target: Path, name: str) -> str:
    """Make the file; returns why there is none, or nothing."""
    options = ["--imatrix", str(matrix)] if matrix else []
    if "=" in name:
        options, name = [*options, "--tensor-type", name], "Q8_0"
    command = [reference.program("llama-quantize"), "--allow-requantize", *options, model, target, name]
    done = subprocess.run(command, env=reference.environment(), capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    said = (done.stdout + done.stderr).splitlines()
    lines = [line for line in said if any(word in line.lower() for word in ("error", "fail", "require"))]
    return lines[-1].strip() if lines else "no reason given"


def _matrices(file: Path) -> str:
    """How many matrices of which type the file holds."""
    counts: dict[str, int] = {}
    with GgufFile.open(file) as gguf:
        for tensor in gguf.tensors.values():
            if len(tensor.dims) == 2:
                counts[type_name(tensor.type_id)] = counts.get(type_name(tensor.type_id), 0) + 1
    return ", ".join(f"{count} x {kind}" for kind, count in sorted(counts.items(), key=lambda each: -each[1]))


def _hold(file: Path, reference: Reference, script: str, options: dict[str, object]) -> Tally:
    """One script on one file; a refusal of either side is a difference."""
    kind, asked = SCRIPTS[script]
    try:
        return compare_record(make_record(kind, file, reference, {**asked, **options}), file)
    except Refusal as refusal:
        tally = Tally()
        tally.count(False, refusal.line())
        return tally


if __name__ == "__main__":
    sys.exit(main())
