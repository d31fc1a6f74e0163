# SPDX-License-Identifier: MIT OR Apache-2.0
"""The hash of the tokens' probabilities that an answer carried."""

from __future__ import annotations

import hashlib
from typing import Any

from bankml.core.json.writer import dump

Entry = dict[str, Any]
"""A token's probabilities, as the answer has them."""


class ListHash:
    """sha256 of the lists of entries that an answer carried: their insides joined by ``", "``, in brackets."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256(b"[")
        self._lists = 0

    def add(self, list_: list[Entry]) -> None:
        """Take the next list, as it is sent."""
        self._hash.update((b", " if self._lists else b"") + dump(list_)[1:-1])
        self._lists += 1

    def hexdigest(self) -> str | None:
        """The hash of all lists so far, None of none."""
        if not self._lists:
            return None
        whole = self._hash.copy()
        whole.update(b"]")
        return whole.hexdigest()
