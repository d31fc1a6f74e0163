# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a sampler of the chain is."""

from __future__ import annotations

from typing import Protocol

from bankml.core.sampling.candidates import Candidates


class Step(Protocol):
    """One sampler."""

    def apply(self, c: Candidates) -> None:
        """Change the candidates."""
        ...

    def accept(self, token: int) -> None:
        """Learn of a token of the prompt or of the answer."""
        ...


class Forgetful:
    """A sampler that does not look at tokens."""

    __slots__ = ()

    def accept(self, token: int) -> None:
        """Nothing to learn."""
