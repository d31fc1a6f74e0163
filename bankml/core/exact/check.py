# SPDX-License-Identifier: MIT OR Apache-2.0
"""The check before the first answer: what was compiled here against the reference machine's values."""

from __future__ import annotations

import ctypes
import gzip
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bankml.core.exact import sweep
from bankml.core.refusal import Refusal
from bankml.kernels import store

RECORD = Path(__file__).with_name("record.json.gz")
"""A record of the oracle ``libm``, in the package because answers need it."""


@dataclass(frozen=True)
class Difference:
    """Where a function first gives another value than the record's machine."""

    function: str
    where: str
    """The first argument that differs; where it is not known, the segment that holds it."""
    found: str | None = None
    expected: str | None = None

    def sentence(self) -> str:
        """The difference in one sentence."""
        values = f": {self.found}, not {self.expected}" if self.found else ""
        return f"{self.function} differs from the reference machine's at {self.where}{values}"


def require(inexact: bool = False) -> str | None:
    """None where the compiled functions are the record's; else, with ``inexact``, what differs.

    Raises:
        Refusal: they differ, and ``inexact`` is not given.
    """
    found = check()
    if found is None or inexact:
        return found.sentence() if found else None
    raise Refusal(
        "exact.libm",
        f"the answers would not be exact: {found.function} differs from the reference machine's",
        where=found.where,
        found=found.found,
        allowed=found.expected,
        hint="--inexact answers all the same, and says so with every answer",
        status=503,
        kind="unavailable_error",
    )


def check() -> Difference | None:
    """The first difference, or None. What agreed is remembered beside the compiled kernels, and not computed again."""
    data = RECORD.read_bytes()
    remembered = _remembered(data)
    if remembered.is_file():
        return None
    found = first_difference(json.loads(gzip.decompress(data))["body"]["functions"])
    if found is None:
        remembered.parent.mkdir(parents=True, exist_ok=True)
        remembered.touch()
    return found


def _remembered(record: bytes) -> Path:
    """The file that says so: beside the kernels of this version, processor and compiler, of this record."""
    file: Path = store.folder() / f"libm-{hashlib.sha256(record).hexdigest()[:16]}.same"
    return file


def first_difference(recorded: dict[str, list[str]]) -> Difference | None:
    """Sweep every function; the first segment whose digest is not the recorded one is searched for its first difference."""
    for function, digests in recorded.items():
        for name, evaluate in sweep.forms(function).items():
            for number, digest in enumerate(digests):
                if sweep.digest(function, number, evaluate) != digest:
                    return _located(name, function, number, evaluate, digest)
    return None


def _located(name: str, function: str, number: int, evaluate: sweep.Function, digest: str) -> Difference:
    """The first argument in the segment that differs from this machine's C library, where that agrees with the record."""
    x, y = next(sweep.segment(function, number))
    try:
        host = sweep.theirs(ctypes.CDLL("libm.so.6"), function)
    except OSError:
        host = None
    if host is None or sweep.digest(function, number, host) != digest:
        return Difference(name, f"{_call(function, x[0], y[0])} or after, before {_call(function, x[-1], y[-1])}")
    mine, right = evaluate(x, y), host(x, y)
    at = int(np.flatnonzero((mine != right).any(axis=1))[0])
    column = int(np.flatnonzero(mine[at] != right[at])[0])
    where = _call(function, x[at], y[at])
    return Difference(name, where, _value(function, mine[at, column]), _value(function, right[at, column]))


def _value(function: str, bits: np.int64) -> str:
    """A number, exactly."""
    if function in ("exp", "pow"):
        return float(np.int64(bits).view(np.float64)).hex()
    return float(np.uint32(bits).view(np.float32)).hex()


def _call(function: str, x: np.int64, y: np.int64) -> str:
    arguments = (x, y) if function in ("powf", "pow") else (x,)
    return f"{function}({', '.join(_value(function, each) for each in arguments)})"
