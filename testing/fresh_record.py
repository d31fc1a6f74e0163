# SPDX-License-Identifier: MIT OR Apache-2.0
"""Asks the reference again what a committed record asked: same kind, same options, same model.

Prints whether the reference still gives the committed answers. Exit code 77 when the record's model is not on this machine.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bankml.core.oracle.record import read_record, write_record
from bankml.core.oracle.reference import Reference
from bankml.core.oracle.run import find_model, make_record

SKIPPED = 77


def main() -> int:
    """Record again; returns 0, 1 when the reference's answers changed, or 77."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("committed", type=Path)
    parser.add_argument("fresh", type=Path)
    parser.add_argument("model", type=Path, nargs="?", help="the record's model, where it is none of the models on this machine")
    parser.add_argument("--reference", type=Path, required=True)
    arguments = parser.parse_args()

    committed = read_record(arguments.committed)
    model = None
    if committed.model_sha256 is not None:
        model = arguments.model or find_model(committed.model_sha256)
        if model is None:
            print(f"no model with sha256 {committed.model_sha256} on this machine")
            return SKIPPED
    fresh = make_record(committed.kind, model, Reference(arguments.reference), committed.options)
    write_record(fresh, arguments.fresh)
    same = fresh.body == committed.body
    built = "the same build" if fresh.made_with["libraries"] == committed.made_with.get("libraries") else "another build"
    print(f"asked again of {built}: the committed answers {'stand' if same else 'have changed'}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
