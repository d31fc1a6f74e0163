# SPDX-License-Identifier: MIT OR Apache-2.0
"""Asks the reference what a committed record asked, or something else, and holds bankml to the fresh answers.

    python testing/fresh_record.py again RECORD FRESH --reference DIR
    python testing/fresh_record.py beyond KIND FRESH --reference DIR [--model MODEL] [--set NAME=VALUE ...]

``again`` also says whether the reference still gives the committed answers. The last line is ``KIND: N of M identical``; exit
code 0 only when N is M, and 77 when the model is not on this machine.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from bankml.core.pins import sha256_file
from bankml.home import cache_dir
from bankml.oracle.record import read_record, write_record
from bankml.oracle.run import find_model, make_record
from bankml.reference.build import Reference

SKIPPED = 77


def ask_again(arguments: argparse.Namespace) -> int:
    """The committed record's questions."""
    committed = read_record(arguments.record)
    model = None
    if committed.model_sha256 is not None:
        model = find_model(committed.model_sha256) or find_made_model(committed.model_sha256)
        if model is None:
            print(f"no model with sha256 {committed.model_sha256} on this machine")
            return SKIPPED
    fresh = make_record(committed.kind, model, Reference(arguments.reference), committed.options)
    write_record(fresh, arguments.fresh)
    same = fresh.body == committed.body
    built = "the same build" if fresh.made_with["libraries"] == committed.made_with.get("libraries") else "another build"
    print(f"asked again of {built}: the committed record {'stands' if same else 'has another body'}", flush=True)
    compared = compare(arguments.fresh, model)
    if not same:
        place = first_difference(committed.body, fresh.body)
        print(f"the reference answers otherwise, or the kind records otherwise: first at {place}")
    return compared if same else 1


def ask_beyond(arguments: argparse.Namespace) -> int:
    """Questions of the caller's."""
    model = [arguments.model] if arguments.model else []
    if arguments.model and arguments.model.endswith(".gguf") and not Path(arguments.model).is_file():
        print(f"no {arguments.model} on this machine")
        return SKIPPED
    settings = [word for setting in arguments.set for word in ("--set", setting)]
    where = ["--reference", str(arguments.reference), "-o", str(arguments.fresh)]
    recorded = bankml("record", arguments.kind, *model, *where, *settings)
    return recorded or compare(arguments.fresh, *model)


def first_difference(committed: object, fresh: object, place: str = "") -> str | None:
    """The JSON pointer of the first value of which the two have not the same; None where they are equal."""
    if isinstance(committed, dict) and isinstance(fresh, dict) and committed.keys() == fresh.keys():
        pairs = [(f"{place}/{key}", value, fresh[key]) for key, value in committed.items()]
    elif isinstance(committed, dict) and isinstance(fresh, dict):
        return f"{place}/{min(committed.keys() ^ fresh.keys())}"
    elif isinstance(committed, list) and isinstance(fresh, list) and len(committed) == len(fresh):
        pairs = [(f"{place}/{number}", *both) for number, both in enumerate(zip(committed, fresh, strict=True))]
    else:
        return None if committed == fresh else place or "/"
    return next(filter(None, (first_difference(a, b, where) for where, a, b in pairs)), None)


def find_made_model(sha256: str) -> Path | None:
    """The file with this sha256 among those that the tests and the gate make, or None."""
    files = sorted((cache_dir() / "made").rglob("*.gguf"))
    return next((path for path in files if sha256_file(path) == sha256), None)


def compare(fresh: Path, model: Path | str | None = None) -> int:
    """Hold bankml to the record, in a process that has not loaded the reference's libraries."""
    return bankml("compare", str(fresh), *([str(model)] if model else []))


def bankml(*words: str) -> int:
    """One command of ``bankml oracle``; returns its exit code."""
    return subprocess.run([sys.executable, "-m", "bankml", "oracle", *words], check=False).returncode


def main() -> int:
    """Ask, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    again = commands.add_parser("again", help="a committed record's questions")
    again.add_argument("record", type=Path)
    again.set_defaults(run=ask_again)
    beyond = commands.add_parser("beyond", help="other questions of a kind")
    beyond.add_argument("kind")
    beyond.add_argument("--model")
    beyond.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    beyond.set_defaults(run=ask_beyond)
    for command in (again, beyond):
        command.add_argument("fresh", type=Path)
        command.add_argument("--reference", type=Path, required=True)
    arguments = parser.parse_args()
    code: int = arguments.run(arguments)
    return code


if __name__ == "__main__":
    sys.exit(main())
