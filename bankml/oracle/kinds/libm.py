# SPDX-License-Identifier: MIT OR Apache-2.0
"""The C library's functions that decide bits, over a sweep of their arguments; or over every float there is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bankml.core.exact import sweep
from bankml.oracle.kind import Tally
from bankml.oracle.options import SWITCH, Option, Options, declared

if TYPE_CHECKING:
    from bankml.reference.build import Reference


class Libm:
    """Kind ``libm``; with the option ``every`` functions of one float32 are asked for every float."""

    name = "libm"
    checks = f"{', '.join(sweep.FUNCTIONS)}: all bits of their values"
    against = "the C library that libllama binds"
    small = True
    options: Options = declared(every=Option(SWITCH, False))

    def record(self, model: Path | None, reference: Reference, options: dict[str, Any]) -> dict[str, Any]:
        """Digests of the values that the reference's own calls would get."""
        library, every = reference.library("llama"), bool(options["every"])
        asked = sweep.ONE_FLOAT if every else sweep.FUNCTIONS
        functions = {function: _digests(function, sweep.theirs(library, function), every) for function in asked}
        return {"every": every, "functions": functions}

    def compare(self, body: dict[str, Any], model: Path | None) -> Tally:
        """bankml's own functions; a segment counts one, and of expf one more for the form on vectors."""
        tally = Tally()
        for function, recorded in body["functions"].items():
            for name, evaluate in sweep.forms(function).items():
                for number, digest in enumerate(_digests(function, evaluate, body["every"])):
                    tally.count(digest == recorded[number], f"{name}, segment {number} of {len(recorded)}")
        return tally


def _digests(function: str, evaluate: sweep.Function, every: bool) -> list[str]:
    return [sweep.digest(function, number, evaluate, every) for number in range(sweep.SEGMENTS)]


KIND = Libm()
