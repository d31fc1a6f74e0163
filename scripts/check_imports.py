# SPDX-License-Identifier: MIT OR Apache-2.0
"""Imports point one way: cli to core to kernels, and inside core from the outer rooms to the inner ones."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from tracked import ROOT

MIDDLE = {"model", "sampling", "constrain", "text", "pins"}
EVERYONE = {"refusal", "home", "abandon", "json"}

# What each room of core may import besides itself, EVERYONE and the kernels.
ROOMS: dict[str, set[str]] = {
    "refusal": set(),
    "home": set(),
    "abandon": set(),
    "json": set(),
    # What it asks of the kernels it asks as the graph does.
    "exact": {"gguf", "model"},
    "gguf": set(),
    **{room: {"gguf"} for room in MIDDLE},
    # A grammar speaks of tokens.
    "constrain": {"gguf", "text"},
    "engine": {"gguf", "exact", *MIDDLE},
    "serve": {"gguf", *MIDDLE, "engine"},
}
# Rooms that look at all the others, and that none of the others may import.
OUTER = {"oracle", "bench", "convert", "create"}


def imported(tree: ast.Module, package: list[str]) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything that a module imports from bankml, names resolved to submodules where they may be."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "bankml":
                    yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            names = [*base, *(node.module.split(".") if node.module else [])]
            if names[:1] == ["bankml"]:
                for alias in node.names:
                    yield node.lineno, ".".join([*names, alias.name])


def objection(source: str, target: str) -> str | None:
    """Why the module ``source`` may not import ``target``, or None."""
    mine, theirs = source.split("."), target.split(".")
    layer = mine[1] if len(mine) > 1 else "main"
    asked = theirs[1] if len(theirs) > 1 else "bankml"
    if layer == "kernels":
        return None if asked == "kernels" else "kernels import nothing of bankml"
    if asked == "cli":
        return None if layer in {"cli", "main", "__main__"} else "only the command line imports the command line"
    if asked == "kernels":
        return None if layer == "core" else "the command line reaches kernels through core"
    if asked != "core" or layer != "core":
        return None
    room = mine[2] if len(mine) > 2 else ""
    wanted = theirs[2] if len(theirs) > 2 else ""
    if wanted in EVERYONE or wanted in {room, ""}:
        return None
    if room in OUTER:
        return None
    if room not in ROOMS:
        return f"scripts/check_imports.py does not know the room {room!r}"
    return None if wanted in ROOMS[room] else f"core/{room} may import {', '.join(sorted(ROOMS[room])) or 'no other room'}"


def check(root: Path) -> list[str]:
    """A line for each import under ``root`` that points the wrong way."""
    wrong = []
    for path in sorted((root / "bankml").rglob("*.py")):
        parts = list(path.relative_to(root).with_suffix("").parts)
        package = parts[:-1]
        source = ".".join(package if parts[-1] == "__init__" else parts)
        for line, target in imported(ast.parse(path.read_text(encoding="utf-8"), str(path)), package):
            reason = objection(source, target)
            if reason:
                wrong.append(f"{path.relative_to(root)}:{line}: imports {target}: {reason}")
    return wrong


def main() -> int:
    """Print the imports that point the wrong way; returns 1 when there are any."""
    wrong = check(ROOT)
    print("\n".join([*wrong, f"imports that point the wrong way: {len(wrong) or 'none'}"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
