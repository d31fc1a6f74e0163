# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compiled code reads argument words by name: no bare number is the second argument of a load or store at ``args``."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

from tracked import ROOT

_ACCESS = re.compile(r"(ld|st)_[a-z0-9]+")


def bare_words(tree: ast.Module) -> list[int]:
    """Lines on which a word of the block ``args`` is named by a number."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and _ACCESS.fullmatch(node.func.id)
        and len(node.args) > 1
        and isinstance(node.args[0], ast.Name)
        and node.args[0].id == "args"
        and isinstance(node.args[1], ast.Constant)
    ]


def check(root: Path) -> list[str]:
    """A line for each number that stands for a word in the kernels under ``root``."""
    return [
        f"{path.relative_to(root)}:{line}: a word of the argument block is named by a number"
        for path in sorted((root / "bankml" / "kernels").rglob("*.py"))
        for line in bare_words(ast.parse(path.read_text(encoding="utf-8"), str(path)))
    ]


def main() -> int:
    """Print the numbers; returns 1 when there are any."""
    wrong = check(ROOT)
    print("\n".join([*wrong, f"argument words named by numbers: {len(wrong) or 'none'}"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
