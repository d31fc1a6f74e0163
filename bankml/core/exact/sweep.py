# SPDX-License-Identifier: MIT OR Apache-2.0
"""The sweep of each function: its arguments, in segments, and the digest of a segment's values.

Functions of one float32 are swept over all sign and exponent bits and 512 mantissas of each, or, when all are asked for, over
every float there is. The others are swept over the arguments that samplers and rotations give them.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

FUNCTIONS = ("expf", "logf", "log2f", "tanhf", "powf", "sincosf", "exp", "pow")
ONE_FLOAT = ("expf", "logf", "log2f", "tanhf", "sincosf")
"""Those that can be swept over every float."""

SEGMENTS = 64
_SIZE = 4096
_EVERY, _CHUNK = 1 << 32, 1 << 20
_DOUBLE = ("exp", "pow")

Bits = npt.NDArray[np.int64]
Function = Callable[[Bits, Bits], Bits]
"""Values of arguments, all as bits; a row each, of two columns of which sincosf fills the second."""

_SPECIAL = (
    0.0, 2.0**-149, 2.0**-127, 2.0**-126, 2.0**-33, 2.0**-24, 0.1, 0.25, 0.5, 1 - 2.0**-24, 1.0, 1 + 2.0**-23, 1.5, 2.0, 2.5,
    3.0, 4.0, 10.0, 23.0, 24.0, 63.5, 64.0, 127.0, 128.0, 149.0, 151.0, 10000.0, 2.0**23 + 1, 2.0**24 - 1, 2.0**24, 3e38,
)  # fmt: skip


def segment(function: str, number: int, every: bool = False) -> Iterator[tuple[Bits, Bits]]:
    """Arguments of one segment, in order; in several parts when every float is asked for."""
    if every:
        start, size = number * (_EVERY // SEGMENTS), _EVERY // SEGMENTS
        for first in range(start, start + size, _CHUNK):
            x = np.arange(first, first + _CHUNK, dtype=np.int64)
            yield x, x
        return
    n = np.arange(number * _SIZE, (number + 1) * _SIZE, dtype=np.int64)
    if function in ONE_FLOAT:
        # Each step of 2^14 has another low part; each power of two itself is among them.
        x = (n << 14) + ((n & 255) * 9973 & 0x3FFF)
        yield x, x
    elif function == "powf":
        yield _specials() if number == 0 else _bases_and_exponents(n)
    elif function == "exp":
        u = _even(n, 0x9E3779B97F4A7C15)
        yield _of_doubles(np.where(n % 2 == 0, u * 1456.0 - 746.0, u * -2.0)), n
    else:
        yield _repetitions(n)


def _even(n: Bits, step: int) -> npt.NDArray[np.float64]:
    """Numbers spread evenly over [0, 1): the multiples of an irrational number, less their whole parts."""
    with np.errstate(over="ignore"):
        words = (n.astype(np.uint64) + np.uint64(1)) * np.uint64(step)
    return (words >> np.uint64(11)).astype(np.float64) / 2.0**53


def _of_doubles(x: npt.NDArray[np.float64]) -> Bits:
    return np.ascontiguousarray(x, np.float64).view(np.int64)


def _specials() -> tuple[Bits, Bits]:
    """Each special value, infinity and a NaN, with both signs, to the power of each."""
    plain = np.array([*_SPECIAL, np.inf], np.float32)
    values = np.concatenate([plain, -plain]).view(np.uint32).astype(np.int64)
    values[-1] = 0x7FC00000
    x, y = np.meshgrid(values, values, indexing="ij")
    return x.ravel(), y.ravel()


def _bases_and_exponents(n: Bits) -> tuple[Bits, Bits]:
    """Bases from 2^-32 to 2^32 and exponents from 2^-17 to 64 of both signs, their logarithms spread evenly."""
    low, high = 0x2F800000, 0x4F800000
    x = low + (_even(n, 0x9E3779B97F4A7C15) * (high - low)).astype(np.int64)
    low, high = 0x37000000, 0x42800000
    y = low + (_even(n, 0xC2B2AE3D27D4EB4F) * (high - low)).astype(np.int64)
    return x, y | (n & 1) << 31


def _repetitions(n: Bits) -> tuple[Bits, Bits]:
    """Bases from 1 to 4 and whole exponents, as penalties of repetition have them; every other base lies close to 1."""
    u = _even(n, 0x9E3779B97F4A7C15)
    base = (1.0 + u * np.where(n % 2 == 0, 3.0, 2.0**-8)).astype(np.float32).astype(np.float64)
    exponent = np.where(n % 2 == 0, n >> 1 & 63, n >> 1 & 32767).astype(np.float64)
    return _of_doubles(base), _of_doubles(exponent)


def digest(function: str, number: int, evaluate: Function, every: bool = False) -> str:
    """sha256 of a segment's values: their bits, little-endian, of sincosf the sine's and the cosine's in turn."""
    hashed = hashlib.sha256()
    width = 2 if function == "sincosf" else 1
    for x, y in segment(function, number, every):
        values = evaluate(x, y)[:, :width]
        hashed.update(values.astype("<i8" if function in _DOUBLE else "<u4").tobytes())
    return hashed.hexdigest()


def forms(function: str) -> dict[str, Function]:
    """bankml's own, by name: attention has one more of expf."""
    return {function: ours(function), **({"expf on vectors": on_vectors} if function == "expf" else {})}


def ours(function: str) -> Function:
    """bankml's own, of one number."""
    from bankml.kernels.libm import sweep as libm_sweep

    which = getattr(libm_sweep, function.upper())

    def evaluate(x: Bits, y: Bits) -> Bits:
        values = np.zeros((len(x), 2), np.int64)
        libm_sweep.ours(which, x, y, values)
        return values

    return evaluate


def on_vectors(x: Bits, y: Bits) -> Bits:
    """bankml's expf as attention takes it of a whole row; of what no row has, over 88, as of one number."""
    from bankml.kernels.libm import sweep as libm_sweep

    values = ours("expf")(x, y)
    with np.errstate(invalid="ignore"):
        usual = x.astype(np.uint32).view(np.float32) <= np.float32(88)
    some: Bits = np.ascontiguousarray(x[usual])
    found = np.zeros((len(some), 2), np.int64)
    libm_sweep.vectors(some, np.zeros(len(some) + 64, np.float32), found)
    values[usual] = found
    return values


def theirs(library: ctypes.CDLL, function: str) -> Function:
    """What this name means to a library: its own function, or that of a library that it needs."""
    from bankml.kernels.libm import sweep as libm_sweep

    which = getattr(libm_sweep, function.upper())
    address = ctypes.cast(getattr(library, function), ctypes.c_void_p).value
    pair = np.zeros(2, np.float32)

    def evaluate(x: Bits, y: Bits) -> Bits:
        values = np.zeros((len(x), 2), np.int64)
        libm_sweep.theirs(address, which, x, y, values, pair)
        return values

    return evaluate
