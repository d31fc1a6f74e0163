# SPDX-License-Identifier: MIT OR Apache-2.0
"""Repeated measurements: their median and how far they lie apart."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Samples:
    """Values of one quantity, one for each round, in the order in which they were measured."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> Samples:
        """Samples of at least one value."""
        if not values:
            raise ValueError("no sample was measured")
        return cls(tuple(values))

    @property
    def median(self) -> float:
        """The middle value."""
        return statistics.median(self.values)

    @property
    def spread(self) -> tuple[float, float]:
        """The least and the greatest value."""
        return min(self.values), max(self.values)

    def over(self, other: Samples) -> Samples:
        """The ratios round by round, so that what slowed a whole round down cancels out."""
        return Samples.of([mine / theirs for mine, theirs in zip(self.values, other.values, strict=True)])

    def scaled(self, factor: float) -> Samples:
        """The same in another unit."""
        return Samples.of([value * factor for value in self.values])

    def text(self, digits: int = 1) -> str:
        """``median (least-greatest)``."""
        least, greatest = self.spread
        return f"{self.median:.{digits}f} ({least:.{digits}f}-{greatest:.{digits}f})"

    def as_dict(self, name: str) -> dict[str, object]:
        """``name``, ``name_spread`` and ``name_samples``, for a report."""
        return {name: self.median, f"{name}_spread": list(self.spread), f"{name}_samples": list(self.values)}
