# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions that run as machine code: compiled once for each version of the kernels, and from then on taken from a store.

``compiled`` marks a function for other compiled ones to call; ``entry`` one that Python calls, and ``kernel`` one that a program
points at. The entries of a module are compiled into one object file, with all that they call. Numba is loaded only where such
a file is missing: a start that finds all of them needs nothing but llvmlite, which links them.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import operator
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from . import types
from .types import Array, Scalar, Signature, Tuple

_C_TYPES: dict[str, Any] = {
    "void": None, "boolean": ctypes.c_bool, "uint8": ctypes.c_uint8, "int32": ctypes.c_int32, "uint32": ctypes.c_uint32,
    "int64": ctypes.c_int64, "uint64": ctypes.c_uint64, "intp": ctypes.c_ssize_t, "float32": ctypes.c_float,
    "float64": ctypes.c_double,
}  # fmt: skip
_lock = threading.RLock()
_addresses: dict[str, int] = {}
_entries: dict[str, dict[str, Compiled]] = {}


class Compiled:
    """A function in the subset of Python that the compiler takes.

    Called from Python, one with a signature runs as machine code: an array must have the declared type and be contiguous, and
    of results only numbers and tuples of them come back. One without runs as the Python that it is.
    """

    def __init__(self, function: Callable[..., Any], signature: Signature | None):
        self.function = function
        self.signature = signature
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self._native: Callable[..., Any] | None = None
        self._arrays: tuple[tuple[int, np.dtype[Any], int], ...] = ()

    @property
    def symbol(self) -> str:
        """Its name in object files: that of the module, a point, its own."""
        return f"{self.module}.{self.__name__}"

    @property
    def module(self) -> str:
        """The last part of its module's name."""
        return self.__module__.rpartition(".")[2]

    @property
    def is_entry(self) -> bool:
        """Whether it is compiled with its module."""
        return _entries.get(self.module, {}).get(self.__name__) is self

    @property
    def address(self) -> int:
        """Where its machine code is."""
        found = _addresses.get(self.symbol)
        return found if found is not None else _load(self)

    @property
    def _numba_type_(self) -> Any:
        """What it is to a compiled function that calls it."""
        from . import build

        return build.dispatcher_type(self)

    def __call__(self, *args: Any) -> Any:
        """Run it. The interpreter is free for other threads meanwhile."""
        if self.signature is None:
            return self.function(*args)
        if self._native is None:
            self._prepare()
        for place, dtype, dimensions in self._arrays:
            array = args[place]
            if type(array) is not np.ndarray or array.dtype != dtype or array.ndim != dimensions or not array.flags.c_contiguous:
                raise TypeError(f"{self.symbol}: argument {place} must be a contiguous array of {dimensions} x {dtype}")
        try:
            return self._native(*args)  # type: ignore[misc]
        except ctypes.ArgumentError:
            # numpy's integers are none to ctypes.
            return self._native(*(operator.index(arg) if isinstance(arg, np.integer) else arg for arg in args))  # type: ignore[misc]

    def _prepare(self) -> None:
        assert self.signature is not None
        result, arguments = self.signature.result, self.signature.arguments
        self._arrays = tuple(
            (i, np.dtype(each.element.name), each.dimensions)  # type: ignore[attr-defined]
            for i, each in enumerate(arguments)
            if isinstance(each, Array)
        )
        kinds = [ctypes.py_object if isinstance(each, Array) else _C_TYPES[each.name] for each in arguments]  # type: ignore[attr-defined]
        if isinstance(result, Tuple):
            self._native = _gives_tuple(
                ctypes.CFUNCTYPE(None, ctypes.c_void_p, *kinds)(self.address), [_C_TYPES[each.name] for each in result.members]
            )
        else:
            assert isinstance(result, Scalar)
            self._native = ctypes.CFUNCTYPE(_C_TYPES[result.name], *kinds)(self.address)


def _gives_tuple(native: Callable[..., Any], kinds: Sequence[Any]) -> Callable[..., tuple[Any, ...]]:
    names = [f"member{i}" for i in range(len(kinds))]
    room: Any = type("Room", (ctypes.Structure,), {"_fields_": list(zip(names, kinds, strict=True))})

    def call(*args: Any) -> tuple[Any, ...]:
        out = room()
        native(ctypes.addressof(out), *args)
        return tuple(getattr(out, name) for name in names)

    return call


class Intrinsic:
    """A step written out in LLVM's terms: ``emit(E, *values)`` with an ``Emit`` of simd.py."""

    def __init__(self, name: str, signature: Signature, emit: Callable[..., Any]):
        self.__name__ = name
        self.signature = signature
        self.emit = emit

    @property
    def _numba_type_(self) -> Any:
        from . import build

        return build.intrinsic_type(self)


def compiled(given: str | Signature | Callable[..., Any]) -> Any:
    """Mark a function that compiled functions call: ``@compiled``, or with a signature that converts its arguments."""
    if callable(given) and not isinstance(given, Signature):
        return Compiled(given, None)
    signature = types.signature(given)
    return lambda function: Compiled(function, signature)


def entry(written: str | Signature) -> Callable[[Callable[..., Any]], Compiled]:
    """Mark a function that Python calls."""
    signature = types.signature(written)

    def mark(function: Callable[..., Any]) -> Compiled:
        made = Compiled(function, signature)
        _entries.setdefault(made.module, {})[made.__name__] = made
        return made

    return mark


_KERNEL = types.void(types.intp, types.intp, types.intp)


def kernel(function: Callable[..., Any]) -> Compiled:
    """Mark a chunk of work that a program can point at: ``f(args, chunk, thread)``, three addresses or integers, no result."""
    return entry(_KERNEL)(function)


def entries(module: str) -> list[Compiled]:
    """The entries of an imported module of kernels, by the last part of its name."""
    return list(_entries.get(module, {}).values())


def load(module: str) -> None:
    """Bring the entries of an imported module into memory, compiling them where the store lacks them."""
    for each in entries(module):
        each.address  # noqa: B018 - the first brings all


def _load(function: Compiled) -> int:
    """Link what the store has of the function's module, or of it alone where it is no entry; compile what is missing."""
    from . import elf, store

    with _lock:
        if function.symbol not in _addresses:
            name, together = function.symbol, [function]
            if function.is_entry:
                name, together = function.module, entries(function.module)
            # The store's folder is one of these kernels' sources: what others write is not kept.
            kept = function.__module__.startswith("bankml.kernels.")
            code = store.read(name) if kept else None
            symbols = [each.symbol for each in together]
            if code is None or elf.objection(code, symbols) is not None:
                code = compile_object(together)
                if kept:
                    store.write(name, code)
            _link(code, symbols)
        return _addresses[function.symbol]


def compile_object(functions: Sequence[Compiled]) -> bytes:
    """An object file of these functions."""
    from . import build

    return build.build(functions)


@functools.cache
def _linker() -> Any:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_triple(binding.get_process_triple()).create_target_machine(jit=True)
    return binding.create_mcjit_compiler(binding.parse_assembly(""), machine)


def _link(code: bytes, symbols: Iterable[str]) -> None:
    from llvmlite import binding

    linker = _linker()
    linker.add_object_file(binding.ObjectFileRef.from_data(code))
    linker.finalize_object()
    for symbol in symbols:
        address = linker.get_function_address(symbol)
        if not address:
            raise RuntimeError(f"the object file of {symbol} lacks it")
        _addresses[symbol] = address


def module_named(name: str) -> Any:
    """The module of kernels of this name, imported."""
    return sys.modules.get(f"bankml.kernels.{name}") or importlib.import_module(f"bankml.kernels.{name}")
