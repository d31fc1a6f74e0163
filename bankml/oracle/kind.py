# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a kind of oracle is, and what a comparison comes to."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from bankml.oracle.options import Options

if TYPE_CHECKING:
    from bankml.reference.build import Reference

MAX_DIFFERENCES = 20


@dataclass
class Tally:
    """How many recorded quantities came out the same, and the first few that did not."""

    identical: int = 0
    total: int = 0
    differences: list[str] = field(default_factory=list)

    def count(self, same: bool, difference: str = "") -> None:
        """Count one quantity; keep its difference while there are few of them."""
        self.total += 1
        self.identical += bool(same)
        if not same and len(self.differences) < MAX_DIFFERENCES:
            self.differences.append(difference)

    @property
    def passed(self) -> bool:
        """True when there was something to compare and all of it is identical."""
        return self.total > 0 and self.identical == self.total


class Kind(Protocol):
    """One kind of oracle: what it asks the reference, and how bankml re-derives the answers.

    ``model`` is None where the kind needs no model file, or where none with the recorded sha256 is at hand;
    a kind that cannot do without raises a Refusal that says so.
    """

    name: str
    checks: str
    """What is compared, in one line."""
    against: str
    """The part of the reference, the standard or the library that gave the answers."""
    small: bool
    """True when a record is small enough to be committed under ``tests/records/``."""
    options: Options
    """Every option that :meth:`record` reads."""

    def record(self, model: Path | None, reference: Reference, options: dict[str, Any]) -> dict[str, Any]:
        """Ask the reference; returns the body of the record, made of JSON values only. ``options`` has a value for each."""
        ...

    def compare(self, body: dict[str, Any], model: Path | None) -> Tally:
        """Derive every recorded quantity again, without the reference, and count those that are identical."""
        ...
