# SPDX-License-Identifier: MIT OR Apache-2.0
"""The store of object files: a folder for these sources, this compiler, this processor and this instruction set.

What lies there is machine code, so it is taken only from files and folders, the home's own included, that nobody but this user
or root may write, and only where its seal is right: a digest of the folder's name, the file's name and what is in it. What cannot
be kept is compiled again at each start, and a warning says so.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import stat
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from bankml import home
from bankml.kernels.compiler import folders, trust

_SEAL_BYTES = 32
_unkept: dict[str, bytes] = {}
_warned: list[str] = []


@functools.cache
def folder() -> Path:
    """The folder, which this process holds from now on; what nothing has used for long beside it is removed.

    Raises:
        UnsupportedCpuError: no tier runs here.
        Refusal: this user has no home.
    """
    from bankml.kernels.compiler.isa import TIER

    found = home.cache_dir() / "kernels" / f"{_key()}-{TIER}"
    if distrust(found) is None and folders.hold(found):
        folders.sweep(found)
    return found


@functools.cache
def distrust(found: Path) -> str | None:
    """Why a folder of compiled kernels is neither read nor written, or None."""
    return trust.folder_objection((*reversed(list(found.parents)[:3]), found))


def _key() -> str:
    """sha256 prefix over all that decides the machine code."""
    from llvmlite import binding

    digest = hashlib.sha256()
    root = Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    for name in ("numba", "llvmlite"):
        spec = find_spec(name)
        if spec is not None and spec.origin is not None:
            digest.update(Path(spec.origin).with_name("_version.py").read_bytes())
    # The compiler reads this Python's bytecode; what it makes reads numpy's arrays, which begin with the head of its objects.
    python = f"{sys.implementation.cache_tag} {object.__basicsize__}"
    processor = f"{binding.get_host_cpu_name()} {binding.get_host_cpu_features().flatten()}"
    digest.update(f"{python} {binding.llvm_version_info} {processor}".encode())
    return digest.hexdigest()[:16]


def has(name: str) -> bool:
    """Whether there is an object file of this name."""
    return name in _unkept or (distrust(folder()) is None and _file(name).is_file())


def read(name: str) -> bytes | None:
    """The object file of this name, or None where there is none, or it is damaged, or somebody else may have written it."""
    return _unkept.get(name) or _unsealed(f"{name}.o")


def write(name: str, code: bytes) -> None:
    """Keep an object file; where the folder cannot be written, only until this process ends."""
    reason = _seal(f"{name}.o", code)
    if reason is None:
        return
    _unkept[name] = code
    if not _warned:
        _warned.append(reason)
        logging.getLogger(__name__).warning(
            "bankml: compiled kernels cannot be kept, so each start compiles them again: %s; BANKML_HOME names another folder",
            reason,
        )


def remember(note: str) -> None:
    """Keep a note beside the object files, if it can be kept."""
    _seal(note, b"")


def remembers(note: str) -> bool:
    """Whether a note was kept by a process with the same kernels."""
    return _unsealed(note) is not None


def _unsealed(file_name: str) -> bytes | None:
    if distrust(folder()) is not None:
        return None
    try:
        handle = os.open(folder() / file_name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or trust.objection(folder() / file_name, status) is not None:
                return None
            data = file.read()
    except OSError:
        return None
    seal, content = data[:_SEAL_BYTES], data[_SEAL_BYTES:]
    return content if _digest(file_name, content) == seal else None


def _seal(file_name: str, content: bytes) -> str | None:
    """Write a file with its seal; why not, where that cannot be."""
    reason = distrust(folder())
    if reason is not None:
        return reason
    try:
        _put(file_name, _digest(file_name, content) + content)
    except OSError as error:
        return f"{folder()}: {error.strerror}"
    return None


def _put(file_name: str, data: bytes) -> None:
    trust.make(folder())
    handle, temporary = tempfile.mkstemp(dir=folder(), prefix=f".{file_name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(folder() / file_name)
    except OSError:
        Path(temporary).unlink()
        raise


def _digest(file_name: str, content: bytes) -> bytes:
    return hashlib.sha256(f"bankml kernels {folder().name}/{file_name}\0".encode() + content).digest()


def _file(name: str) -> Path:
    return folder() / f"{name}.o"
