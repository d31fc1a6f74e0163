# SPDX-License-Identifier: MIT OR Apache-2.0
"""Names for the types of kernels' arguments and results; the compiler, which makes its own of them, is not loaded for that."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Signature:
    """What a function takes and gives."""

    result: Type
    arguments: tuple[Type, ...]


class Type:
    """A type; called with the arguments' types it gives the signature of a function that returns it."""

    def __call__(self, *arguments: Type) -> Signature:
        """The signature ``self(*arguments)``."""
        return Signature(self, arguments)

    def __getitem__(self, key: Any) -> Array:
        """``int32[::1]``, ``int32[:, ::1]``: an array of this type in C's order."""
        return Array(self, len(key) if isinstance(key, tuple) else 1)


@dataclass(frozen=True)
class Scalar(Type):
    """A number, or ``void``."""

    name: str


@dataclass(frozen=True)
class Array(Type):
    """A contiguous array of numbers."""

    element: Type
    dimensions: int


@dataclass(frozen=True)
class Vector(Type):
    """A value in a vector register; it can not leave compiled code."""

    element: str
    lanes: int


@dataclass(frozen=True)
class Tuple(Type):
    """Several values, of the same type or of different ones."""

    members: tuple[Type, ...]


void, boolean = Scalar("void"), Scalar("boolean")
uint8, int32, uint32, int64, uint64, intp = (Scalar(name) for name in ("uint8", "int32", "uint32", "int64", "uint64", "intp"))
float32, float64 = Scalar("float32"), Scalar("float64")
_NAMED = {each.name: each for each in (void, boolean, uint8, int32, uint32, int64, uint64, intp, float32, float64)}
_WRITTEN = re.compile(r"(\w+)\((.*)\)")


def signature(written: str | Signature) -> Signature:
    """The signature that ``result(argument, argument)`` writes, all of them numbers."""
    if isinstance(written, Signature):
        return written
    found = _WRITTEN.fullmatch(written)
    if found is None:
        raise ValueError(f"no signature: {written}")
    names = [name.strip() for name in found[2].split(",")]
    return Signature(_NAMED[found[1]], tuple(_NAMED[name] for name in names if name))
