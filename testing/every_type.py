# SPDX-License-Identifier: MIT OR Apache-2.0
"""Holds answers and logprobs to the reference on what ``llama-quantize`` makes of a model, type by type.

Usage: python testing/every_type.py MODEL --reference DIR [--work DIR] [--types Q4_K_M,Q6_K]

Each file is made, asked greedy and with logprobs of llama-server, answered by bankml, and removed. No importance matrix is given:
what llama-quantize refuses to make without one is told. Prints a line a type and the sum; exit code 0 only if all are
identical. Q2_0 comes last: the reference takes half an hour for it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from bankml.core.oracle.reference import Reference
from bankml.core.oracle.run import compare_record, make_record
from bankml.core.refusal import Refusal

TYPES = (
    "Q1_0", "Q4_0", "Q4_1", "MXFP4_MOE", "Q5_0", "Q5_1", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M", "IQ1_S", "IQ1_M",
    "TQ1_0", "TQ2_0", "Q2_K", "Q2_K_S", "IQ3_XXS", "IQ3_S", "IQ3_M", "Q3_K_S", "IQ3_XS", "Q3_K_M", "Q3_K_L", "IQ4_NL", "IQ4_XS",
    "Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M", "Q6_K", "Q8_0", "F16", "BF16", "F32",
    "Q2_0",
)  # fmt: skip

KINDS: dict[str, dict[str, object]] = {"greedy": {"script": "short"}, "logprobs": {"first": 12}}


def main() -> int:
    """Hold every type; returns 0 or 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--types", default=",".join(TYPES))
    arguments = parser.parse_args()
    reference = Reference(arguments.reference)
    identical = total = made = 0
    for name in arguments.types.split(","):
        with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
            file = Path(folder) / f"{name}.gguf"
            command = [reference.program("llama-quantize"), "--allow-requantize", arguments.model, file, name]
            done = subprocess.run(command, env=reference.environment(), capture_output=True, text=True, check=False)
            if done.returncode != 0:
                print(f"{name:<10} llama-quantize makes none of it: {_reason(done.stdout + done.stderr)}", flush=True)
                continue
            made += 1
            counts = []
            for kind, options in KINDS.items():
                try:
                    tally = compare_record(make_record(kind, file, reference, options), file)
                except Refusal as refusal:
                    print(f"{name:<10} {kind}: {refusal.line()}", flush=True)
                    total += 1
                    continue
                identical, total = identical + tally.identical, total + tally.total
                counts.append(f"{kind} {tally.identical} of {tally.total}")
                for difference in tally.differences[:3]:
                    print(f"{name:<10} {difference}", flush=True)
            print(f"{name:<10} {', '.join(counts)}", flush=True)
    print(f"{made} types: {identical} of {total} identical")
    return 0 if identical == total and made else 1


def _reason(said: str) -> str:
    lines = [line for line in said.splitlines() if "error" in line.lower() or "fail" in line.lower() or "require" in line.lower()]
    return lines[-1].strip() if lines else "no reason given"


if __name__ == "__main__":
    sys.exit(main())
