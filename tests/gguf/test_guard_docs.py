# SPDX-License-Identifier: MIT OR Apache-2.0
"""The page names every code that there is, and no other."""

import re
from pathlib import Path

from bankml.oracle.kinds.guard import all_cases

ROOT = Path(__file__).resolve().parent.parent.parent
NAMES = {f"gguf.{field}-{fault}" for field in ("key", "tensor-name") for fault in ("empty", "length", "utf8", "nul")}


def source_codes():
    found = {"gguf.string-utf8"} | NAMES
    for path in (ROOT / "bankml" / "core" / "gguf").glob("*.py"):
        found |= set(re.findall(r'"(gguf\.[a-z0-9-]+)"', path.read_text(encoding="utf-8")))
    return found - {"gguf.write"}


def test_the_page_has_every_code():
    page = (ROOT / "docs" / "guard.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`(gguf\.[a-z0-9-]+)`", page)) == source_codes()


def test_the_table_or_the_rules_reach_every_code():
    rules = "".join((ROOT / "tests" / "gguf" / f"test_guard_{name}.py").read_text(encoding="utf-8") for name in ("rules", "cost"))
    reached = {case.code for case in all_cases()} | set(re.findall(r'"(gguf\.[a-z0-9-]+)"', rules))
    assert source_codes() - reached == set()


def test_what_is_stricter_than_the_reference_is_marked():
    page = (ROOT / "docs" / "guard.md").read_text(encoding="utf-8")
    rows = {line.split("|")[1]: line for line in page.splitlines() if line.startswith("| `gguf.")}
    for code in {case.code for case in all_cases() if case.stricter}:
        row = next(line for codes, line in rows.items() if f"`{code}`" in codes)
        assert "*" in row or code == "gguf.data-alignment"
