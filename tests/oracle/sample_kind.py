# SPDX-License-Identifier: MIT OR Apache-2.0
"""A kind of oracle for the framework's own tests: the reference is asked how often a letter stands in a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bankml.oracle.kind import Tally
from bankml.oracle.options import NUMBER, TEXT, Option, declared
from bankml.reference.build import Reference


class _Letters:
    name = "letters"
    checks = "how often a letter stands in a word"
    against = "a count by hand"
    small = True
    options = declared(word=Option(TEXT, "apple"), often=Option(NUMBER, 1))

    def record(self, model: Path | None, reference: Reference, options: dict[str, Any]) -> dict[str, Any]:
        return {"word": options["word"], "counts": {letter: options["word"].count(letter) for letter in options["word"]}}

    def compare(self, body: dict[str, Any], model: Path | None) -> Tally:
        tally = Tally()
        for letter, count in body["counts"].items():
            ours = body["word"].count(letter)
            tally.count(ours == count, f"{letter}: {ours} and not {count}")
        return tally


KIND = _Letters()
