# SPDX-License-Identifier: MIT OR Apache-2.0
"""The check before the first answer: what was compiled here against the values of the reference and of its machine."""

from __future__ import annotations

import ctypes
import gzip
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bankml.core.exact import sweep
from bankml.core.refusal import Refusal
from bankml.kernels import store

if TYPE_CHECKING:
    from bankml.core.exact.trials import Used

RECORD = Path(__file__).with_name("record.json.gz")
"""A record of the oracle ``libm``, in the package because answers need it."""
KERNELS = Path(__file__).with_name("kernels.json.gz")
"""A record of the oracle ``start``, for the same reason."""


@dataclass(frozen=True)
class Difference:
    """Where a function or a kernel first gives another value than the record has."""

    function: str
    where: str
    """The first argument that differs; where it is not known, the segment that holds it. Of a kernel, what it was asked."""
    found: str | None = None
    expected: str | None = None
    code: str = "exact.libm"

    def sentence(self) -> str:
        """The difference in one sentence."""
        values = f": {self.found}, not {self.expected}" if self.found else ""
        return f"{self.function} differs from the reference machine's at {self.where}{values}"


def require(inexact: bool = False, used: Used | None = None) -> str | None:
    """None where what was compiled gives the records' values; else, with ``inexact``, what differs.

    Args:
        inexact: go on where something differs.
        used: the kernels that a model uses; without it only the functions of the C library are asked.

    Raises:
        Refusal: something differs, and ``inexact`` is not given.
    """
    found = check() or (kernel_difference(used) if used is not None else None)
    if found is None or inexact:
        return found.sentence() if found else None
    raise Refusal(
        found.code,
        f"the answers would not be exact: {found.function} differs from the reference machine's",
        where=found.where,
        found=found.found,
        allowed=found.expected,
        hint="--inexact answers all the same, and says so with every answer",
        status=503,
        kind="unavailable_error",
    )


def check() -> Difference | None:
    """The first function of the C library that differs, or None.

    What agreed is noted beside the compiled kernels, where that can be, and not computed again for these sources, this compiler,
    processor and record.
    """
    data = RECORD.read_bytes()
    note = f"libm-{hashlib.sha256(data).hexdigest()[:16]}.same"
    if store.remembers(note):
        return None
    found = first_difference(json.loads(gzip.decompress(data))["body"]["functions"])
    if found is None:
        store.remember(note)
    return found


def kernel_difference(used: Used) -> Difference | None:
    """The first compiled kernel of those that are used whose answer is not the reference's; asked at every start."""
    from bankml.core.exact import stream, trials

    recorded: list[dict[str, Any]] = json.loads(gzip.decompress(KERNELS.read_bytes()))["body"]["cases"]
    for case in filter(used.asks, recorded):
        kernel, values = trials.evaluate(case, trials.numbers(case))
        found = stream.digest(values)
        if found != case["answer"]:
            return Difference(kernel, trials.where(case), f"digest {found}", case["answer"], "exact.kernel")
    return None


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
