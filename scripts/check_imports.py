# SPDX-License-Identifier: MIT OR Apache-2.0
"""Imports follow what each room states: ``May import: core.gguf, home.`` at the end of its docstring.

A room is a package or a module with such a statement; what has none belongs to the room around it. A stated name stands for
that room alone, or, where it is none, for all rooms inside it. The statements may not form a circle.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tracked import ROOT

STATEMENT = re.compile(r"May import: ([\w, .]+)\.$")
# The front door: the version, and ``python -m bankml``.
DOORS = {"bankml", "bankml.__main__"}

Rooms = Mapping[str, tuple[str, ...]]
"""What each room may import, by dotted names without ``bankml.``."""


def modules(root: Path) -> Iterator[tuple[str, bool, ast.Module]]:
    """Dotted name of every module under ``root``, whether it is a package, and its syntax."""
    for path in sorted((root / "bankml").rglob("*.py")):
        parts = list(path.relative_to(root).with_suffix("").parts)
        package = parts[-1] == "__init__"
        yield ".".join(parts[:-1] if package else parts), package, ast.parse(path.read_text(encoding="utf-8"), str(path))


def stated(tree: ast.Module) -> tuple[str, ...] | None:
    """What a module's docstring says that it may import, or None where it says nothing of it."""
    match = STATEMENT.search(" ".join((ast.get_docstring(tree) or "").split()))
    if match is None:
        return None
    return () if match[1] == "nothing" else tuple(name.strip() for name in match[1].split(","))


def rooms_of(root: Path) -> dict[str, tuple[str, ...]]:
    """Every room with its statement."""
    statements = ((name.removeprefix("bankml."), stated(tree)) for name, _, tree in modules(root))
    return {name: statement for name, statement in statements if statement is not None}


def room(name: str, rooms: Rooms) -> str | None:
    """The innermost room of a dotted name."""
    parts = name.removeprefix("bankml.").split(".")
    return next((inner for n in range(len(parts), 0, -1) if (inner := ".".join(parts[:n])) in rooms), None)


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


def objection(source: str, target: str, rooms: Rooms) -> str | None:
    """Why the module ``source`` may not import ``target``, or None."""
    mine, theirs = room(source, rooms), room(target, rooms)
    if source in DOORS or (mine is not None and mine == theirs):
        return None
    if mine is None:
        return "it is in no room"
    if theirs is None:
        # The version, or a package that only holds rooms.
        return None
    if any(_covers(allowed, theirs, rooms) for allowed in rooms[mine]):
        return None
    return f"{mine} may import {', '.join(rooms[mine]) or 'no other room'}"


def _covers(allowed: str, name: str, rooms: Rooms) -> bool:
    return name == allowed or (allowed not in rooms and name.startswith(f"{allowed}."))


def _holds_rooms(name: str, rooms: Rooms) -> bool:
    return any(each.startswith(f"{name.removeprefix('bankml.')}.") for each in rooms)


def circle(rooms: Rooms) -> list[str]:
    """Rooms whose statements form a circle, or nothing."""
    below = {
        name: {other for other in rooms if other != name and any(_covers(each, other, rooms) for each in allowed)}
        for name, allowed in rooms.items()
    }
    try:
        TopologicalSorter(below).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def check(root: Path) -> list[str]:
    """A line for each import under ``root`` that no statement covers, each statement that nothing needs, and a circle."""
    rooms = rooms_of(root)
    wrong = []
    used: set[tuple[str, str]] = set()
    for name, package, tree in modules(root):
        if room(name, rooms) is None and name not in DOORS and not _holds_rooms(name, rooms):
            wrong.append(f"{name}: no docstring around it says what it may import")
        parts = name.split(".")
        for line, target in imported(tree, parts if package else parts[:-1]):
            mine, theirs = room(name, rooms), room(target, rooms)
            used |= {(mine or "", each) for each in rooms.get(mine or "", ()) if _covers(each, theirs or "", rooms)}
            reason = objection(name, target, rooms)
            if reason:
                wrong.append(f"{name}:{line}: imports {target}: {reason}")
    wrong += [
        f"{name}: states {each} and imports nothing of it" for name in rooms for each in rooms[name] if (name, each) not in used
    ]
    around = circle(rooms)
    return [*wrong, *([f"the rooms form a circle: {' -> '.join(around)}"] if around else [])]


def main() -> int:
    """Print the imports that no statement covers; returns 1 when there are any."""
    wrong = check(ROOT)
    print("\n".join([*wrong, f"imports against what the rooms state: {len(wrong) or 'none'}"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
