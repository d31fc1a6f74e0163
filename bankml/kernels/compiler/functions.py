# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the compiler is given: functions in its subset of Python, and steps written out in LLVM's terms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bankml.kernels.compiler.types import Signature

PACKAGE: Final = "bankml.kernels."


class Function:
    """A function in the subset of Python that the compiler takes; without a signature only compiled functions call it."""

    def __init__(self, function: Callable[..., Any], signature: Signature | None):
        self.function = function
        self.signature = signature
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__

    @property
    def symbol(self) -> str:
        """Its name in object files: that of the module, a point, its own."""
        return f"{self.module}.{self.__name__}"

    @property
    def module(self) -> str:
        """Its module's name, below that of the kernels."""
        return self.__module__.removeprefix(PACKAGE)


class Intrinsic:
    """A step written out in LLVM's terms: ``emit(E, *values)`` with an ``Emit`` of simd.py."""

    def __init__(self, name: str, signature: Signature, emit: Callable[..., Any]):
        self.__name__ = name
        self.signature = signature
        self.emit = emit
