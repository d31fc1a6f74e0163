# SPDX-License-Identifier: MIT OR Apache-2.0
"""JSON as commands print it."""

from __future__ import annotations

import json
import re
from typing import Any

_SURROGATE = re.compile("[\ud800-\udfff]")


def to_json(value: Any, indent: int | None = None) -> str:
    """JSON with characters as they are; what is not UTF-8, as in some file names, is escaped: ``\\udce9``."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
