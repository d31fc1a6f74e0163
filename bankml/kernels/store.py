# SPDX-License-Identifier: MIT OR Apache-2.0
"""The store of object files: a folder for these sources, this compiler, this processor and this instruction set."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import tempfile
from importlib.util import find_spec
from pathlib import Path

from . import folders

_places: list[Path] = []


def place(cache: Path) -> None:
    """Say where folders of compiled kernels live; the first call counts."""
    if not _places:
        _places.append(cache / "kernels")


@functools.cache
def folder() -> Path:
    """The folder, which this process holds from now on; what nothing has used for long beside it is removed.

    Raises:
        UnsupportedCpuError: no tier runs here.
    """
    from .isa import TIER

    if not _places:
        raise RuntimeError("nobody said where compiled kernels live")
    found = _places[0] / f"{_key()}-{TIER}"
    if folders.hold(found):
        folders.sweep(found)
    return found


def _key() -> str:
    """sha256 prefix over all that decides the machine code."""
    from llvmlite import binding

    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    for name in ("numba", "llvmlite"):
        spec = find_spec(name)
        if spec is not None and spec.origin is not None:
            digest.update(Path(spec.origin).with_name("_version.py").read_bytes())
    # Compiled code reads numpy's arrays, which begin with the head of this Python's objects.
    digest.update(f"{object.__basicsize__} {binding.get_host_cpu_name()} {binding.get_host_cpu_features().flatten()}".encode())
    return digest.hexdigest()[:16]


def has(name: str) -> bool:
    """Whether there is an object file of this name."""
    return _file(name).is_file()


def read(name: str) -> bytes | None:
    """The object file of this name, or None where there is none, or it is damaged."""
    try:
        data = _file(name).read_bytes()
    except OSError:
        return None
    digest, code = data[:32], data[32:]
    return code if hashlib.sha256(code).digest() == digest else None


def write(name: str, code: bytes) -> None:
    """Keep an object file; where the folder cannot be written it is compiled again next time."""
    with contextlib.suppress(OSError):
        folder().mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder(), prefix=f".{name}-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(code).digest() + code)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(_file(name))
        except OSError:
            Path(temporary).unlink()
            raise


def _file(name: str) -> Path:
    return folder() / f"{name}.o"
