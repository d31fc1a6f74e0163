# SPDX-License-Identifier: MIT OR Apache-2.0
"""Prints what a release gate's report is of: machine, libraries, and the builds of the reference with their flags.

Usage: python testing/gate_facts.py REFERENCE FASTEST

REFERENCE is the build that oracles are asked of, FASTEST the one that speed is compared with. Two runs with the same output
can be put together to one report.
"""

from __future__ import annotations

import platform
import sys
from importlib.metadata import version
from pathlib import Path

from bankml.bench.process import machine_facts
from bankml.kernels.compiler.isa import TIER
from bankml.reference.build import Reference
from bankml.refusal import Refusal

LIBRARIES = ("numpy", "numba", "llvmlite", "starlette", "uvicorn", "click")


def build(name: str, place: str) -> None:
    """A build of the reference."""
    if not (Path(place) / "bin" / "llama-server").is_file():
        print(f"{name:<11} none at {place}")
        return
    facts = Reference(place).facts()
    print(f"{name:<11} llama.cpp {facts['version']} {facts['variant']}, {facts['compiler']}, {facts['target']}")
    print("            " + " ".join(f"{flag}={value}" for flag, value in facts["flags"].items()))
    for library, digest in facts["libraries"].items():
        print(f"            {digest}  {library}")


def main(reference: str, fastest: str) -> int:
    """Print the facts; returns 0, or 1 where a build is not the reference."""
    facts = machine_facts()
    print(f"processor   {facts['processor']}, {facts['processors']} available, kernels of the {TIER} tier")
    print(f"memory      {int(str(facts['memory_bytes'])) / 2**30:.1f} GiB")
    print(f"system      {facts['system']}, {' '.join(platform.libc_ver())}, Python {facts['python']}")
    print("libraries   " + ", ".join(f"{name} {version(name)}" for name in LIBRARIES))
    try:
        build("reference", reference)
        if Path(fastest).resolve() != Path(reference).resolve():
            build("fastest", fastest)
    except Refusal as refusal:
        print(refusal.line(), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
