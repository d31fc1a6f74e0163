# SPDX-License-Identifier: MIT OR Apache-2.0
"""JSON as commands print it."""

from __future__ import annotations

import re
from typing import Any

from bankml.core.json.writer import dumps

_SURROGATE = re.compile("[\ud800-\udfff]")


def to_json(value: Any, indent: int | None = None) -> str:
    """JSON with characters as they are; what is not UTF-8, as in some file names, is escaped: ``\\udce9``."""
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", dumps(value, indent=indent))
