# SPDX-License-Identifier: MIT OR Apache-2.0
"""Records what the reference's Jinja engine makes of many templates, and holds bankml's engine to it.

    python -m testing.jinja.record tests/text/records/jinja.json.gz --reference DIR
    python -m testing.jinja.record tests/text/records/jinja.json.gz --reference DIR --check
    python -m testing.jinja.record --reference DIR --programs 20000 --seed 7

The first writes the record, the second asks again what is in it and writes nothing, the third asks all templates of one operand
and as many drawn programs. probe.cpp is compiled for it, with g++ against the reference's source. Exit code 0 only where all is
identical, and the record stands.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bankml.core.jinja.errors import LimitError, LocatedError, SourceError
from bankml.core.jinja.program import Program
from bankml.core.jinja.values import from_python
from bankml.reference.build import Reference
from bankml.reference.probe import build_probe
from testing.jinja.cases import VARIABLES, Programs, members

EVERY = 23  # of the many templates of one operand each, one in this number is recorded
PROGRAMS = 700


class Probe:
    """The reference's engine in a process of its own; started again when a template crashes it."""

    def __init__(self, path: Path, environment: dict[str, str]) -> None:
        self.path = path
        self.environment = environment
        self.process: subprocess.Popen[bytes] | None = None

    def ask(self, template: str) -> dict[str, str]:
        """``{"text"}`` or ``{"error"}``; empty when it crashed."""
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen([self.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.environment)
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({"template": template, "variables": VARIABLES}).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            return {}
        answer: dict[str, str] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def ours(template: str) -> dict[str, str]:
    """bankml's answer in the same form; a source that does not parse gives an error without text."""
    try:
        text = Program(template.encode()).run(from_python(VARIABLES), time.localtime())
    except LocatedError as error:
        return {"error": error.message.decode("utf-8", "replace")}
    except SourceError:
        return {"error": ""}
    except LimitError as error:
        return {"limit": error.what}
    return {"text": text.decode("utf-8", "replace")}


def same(theirs: dict[str, str], mine: dict[str, str]) -> bool:
    """Equal; for a source that does not parse it is enough that both say so."""
    if mine == {"error": ""}:
        return "error" in theirs and "While executing" not in theirs["error"]
    return theirs == mine


def main() -> int:
    """Record, check a record, or compare on drawn programs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", type=Path, nargs="?")
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--programs", type=int, default=PROGRAMS)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.check and options.record is None:
        parser.error("--check needs a record")
    programs = Programs(options.seed)
    drawn: Iterator[str] = (programs.program() for _ in range(options.programs))
    step = EVERY if options.record else 1
    cases: list[list[Any]] = []
    reference = Reference(options.reference)
    with tempfile.TemporaryDirectory() as folder:
        program = build_probe(Path(__file__).parent / "probe.cpp", reference, Path(folder))
        probe = Probe(program, reference.environment())
        try:
            for template in itertools.chain(itertools.islice(members(), 0, None, step), drawn):
                answer = probe.ask(template)
                if answer:
                    cases.append([template, answer])
        finally:
            probe.close()
    made = {"variables": VARIABLES, "cases": cases}
    stands = True
    if options.check:
        stands = json.loads(gzip.decompress(options.record.read_bytes())) == json.loads(json.dumps(made))
        print(f"the committed record {'stands' if stands else 'has another body'}")
    elif options.record:
        options.record.write_bytes(gzip.compress(json.dumps(made).encode(), 9, mtime=0))
    identical = sum(same(answer, ours(template)) for template, answer in cases)
    print(f"jinja: {identical} of {len(cases)} identical")
    return 0 if stands and cases and identical == len(cases) else 1


if __name__ == "__main__":
    sys.exit(main())
