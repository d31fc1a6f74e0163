# SPDX-License-Identifier: MIT OR Apache-2.0
"""Write bankml/core/tokenizer/pretokenizer_table.py: how the reference's library classes every code point.

Usage: python testing/make_unicode_table.py [REFERENCE_DIR] [--check]

The library's own answer is the fact that counts (b11192 knows Unicode 15.1, Python and regex know what their release
knows), so each of the 0x110000 code points is asked for its flags and the answers are stored as runs.
"""

from __future__ import annotations

import ctypes
import operator
import sys
import textwrap
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from bankml.core.tokenizer.pretokenizer_table import RUNS
from bankml.reference.build import Reference

TARGET = Path(__file__).parent.parent / "bankml/core/tokenizer/pretokenizer_table.py"
WHITESPACE = 0x100
CATEGORIES = {0x02: "n", 0x04: "l", 0x10: "m", 0x20: "p", 0x40: "s"}

HEAD = '''# SPDX-License-Identifier: MIT OR Apache-2.0
"""The class of every code point, as the reference's library has it; written by testing/make_unicode_table.py."""

from typing import Final

RUNS: Final = """
{runs}
"""
"""Letter and length of each run from U+0000 up: l letter, n number, m mark, p punctuation, s symbol, w white space, o other."""
'''


def letters(reference: Reference) -> list[str]:
    """One class letter per code point."""
    ask = reference.library("llama")["_Z26unicode_cpt_flags_from_cptj"]
    ask.restype, ask.argtypes = ctypes.c_uint16, [ctypes.c_uint32]
    flags = [ask(point) for point in range(0x110000)]
    return ["w" if flag & WHITESPACE else CATEGORIES.get(flag & 0xFF, "o") for flag in flags]


def committed() -> Iterator[str]:
    """The class letters in the module as it is."""
    return (run[0] for run in RUNS.split() for _ in range(int(run[1:])))


def module(classes: list[str]) -> str:
    """The text of the generated module."""
    runs = "".join(f"{letter}{len(list(run))} " for letter, run in groupby(classes))
    return HEAD.format(runs="\n".join(textwrap.wrap(runs, 125)))


def main(arguments: list[str]) -> int:
    """Write the module, or with ``--check`` say how much of it is the reference's and whether it is in step."""
    places = [argument for argument in arguments if argument != "--check"]
    asked = letters(Reference(places[0] if places else None))
    if "--check" in arguments:
        same = sum(map(operator.eq, asked, committed()))
        print(f"code-points: {same} of {len(asked)} identical")
        return 0 if TARGET.read_text(encoding="utf-8") == module(asked) else 1
    TARGET.write_text(module(asked), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
