# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes docs/keys.md from the table of metadata keys; ``--check`` compares instead."""

from __future__ import annotations

import sys

from generated import write_or_compare
from tracked import ROOT

from bankml.core.gguf.key_types import allowed_types
from bankml.core.gguf.keys import GROUPS, SCALARS, Key

PAGE = ROOT / "docs" / "keys.md"
HEAD = """# Keys

The metadata keys that llama.cpp b11192 reads of a file of the architectures `llama`, `qwen2` and `qwen3`, and what bankml does
with each. A key that is not on this page is read by neither, whatever other architectures do with it, and changes no bit: YaRN's
`yarn_beta_fast` is an example. `make docs` writes this page from the table that the guard and the plan work from
(`bankml/core/gguf/keys.py`); [its oracle](oracles/keys.md) asks the reference about every row.

| word | meaning |
|---|---|
| read | it decides what is computed or shown, as in b11192 |
| passed over | b11192 reads it, and stops where its type is wrong (`gguf.key-type` here); no answer depends on its value |
| refused | it changes b11192's graph, and bankml has no such graph: only what an absent key means is taken |

`{arch}` is the architecture's name. A value of another type than the table has stops b11192, and is refused with `gguf.key-type`.
"any" is any scalar: b11192 reads such a key as text, and an array counts as absent.
"""
COLUMNS = ("key", "type", "where absent", "here", "what it decides", "values refused")


def _types(key: Key) -> str:
    return "any" if key.types == SCALARS and key.elements == SCALARS else allowed_types(key)


def _scalars_ignored(key: Key) -> bool:
    return key.types == SCALARS and key.elements != SCALARS


def _row(key: Key) -> list[str]:
    types = f"an array of {allowed_types(key).rpartition(' of ')[2]}" if _scalars_ignored(key) else _types(key)
    meaning = key.meaning
    if key.when:
        meaning += f"; read when {key.when}"
    here = key.here.value
    if key.archs and len(key.archs) == 1:
        here += f" by {key.archs[0]}"
    if key.passed_by:
        here += f"; passed over by {' and '.join(key.passed_by)}"
    return [f"`{key.name}`", types, key.absent, here, meaning, key.refused]


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for title, keys in GROUPS.items():
        lines = [COLUMNS, ["---"] * len(COLUMNS), *(_row(key) for key in keys)]
        parts.append(f"## {title}\n\n" + "\n".join(f"| {' | '.join(line)} |".replace("|  |", "| |") for line in lines) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(write_or_compare(PAGE, page(), "the table of keys", sys.argv[1:]))
