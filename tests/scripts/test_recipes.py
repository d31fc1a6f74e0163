# SPDX-License-Identifier: MIT OR Apache-2.0
"""The pages for those who change bankml name files and rooms that are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def named(page):
    """Paths in backticks."""
    return re.findall(r"`([\w./-]+/[\w./-]+\.(?:py|md|gz))`", (ROOT / "docs" / page).read_text(encoding="utf-8"))


def test_every_file_of_a_recipe_is_there():
    paths = named("extending.md")
    assert len(paths) > 20
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", ["architecture.md", "words.md"])
def test_every_file_that_a_page_names_is_there(page):
    places = [ROOT, ROOT / "bankml", ROOT / "bankml" / "core"]
    assert [path for path in named(page) if not any((place / path).exists() for place in places)] == []


def test_every_room_has_its_line():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    tree = text.split("```text")[1].split("```")[0]
    rooms = [path for where in ("", "core") for path in (ROOT / "bankml" / where).iterdir() if (path / "__init__.py").exists()]
    rooms += [path for path in (ROOT / "bankml" / "kernels").iterdir() if (path / "__init__.py").exists()]
    assert len(rooms) > 30
    assert [str(path.relative_to(ROOT)) for path in rooms if f"{path.name}/" not in tree] == []
