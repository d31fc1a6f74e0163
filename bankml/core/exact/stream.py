# SPDX-License-Identifier: MIT OR Apache-2.0
"""Numbers for what kernels are asked: rows and weights that any machine makes the same, from a seed.

Only integer steps, exact divisions by powers of two, and single roundings; no library function.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from bankml.core.gguf.types import TYPE_IDS, TYPES

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

ROW_SHAPES = ("plain", "outliers", "zeros", "ties", "subnormal", "mixed", "signs", "large")
WILD_SHAPES = ("infinite", "huge", "nans")
# Infinities and NaN: both signs, quiet and signalling, several payloads, whose upper bits a half and a bfloat hold as well.
_ENDLESS = np.array(
    [0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7FC22000, 0xFFC44000, 0x7FA02000, 0xFFA04000], np.uint32
)  # fmt: skip
_ENDLESS_HALVES = np.array([0x7C00, 0xFC00, 0x7E00, 0xFE00, 0x7E11, 0xFE22, 0x7D01, 0xFD02], np.uint16)

# Where a block holds half-precision scales, in bytes from its start; a type whose scales are not listed has none of them.
_HALVES = {
    "Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,), "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2),
    "Q5_K": (0, 2), "Q6_K": (208,), "IQ2_XXS": (0,), "IQ2_XS": (0,), "IQ3_XXS": (0,), "IQ1_S": (0,), "IQ4_NL": (0,),
    "IQ3_S": (0,), "IQ2_S": (0,), "IQ1_M": (49,), "IQ4_XS": (0,), "TQ1_0": (52,), "TQ2_0": (64,), "Q1_0": (0,), "Q2_0": (0,),
}  # fmt: skip

_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))

# Types whose scales are bytes at the start of a block: how many, and four that stand for infinities and NaN.
_EXTREME_BYTES = {"MXFP4": (1, (0, 1, 254, 255)), "NVFP4": (4, (0x7E, 0x7F, 0x80, 0xFF))}


def digest(array: npt.NDArray[Any]) -> str:
    """16 digits of the sha256 of an array's bytes."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def row_digests(array: npt.NDArray[Any]) -> list[str]:
    """`digest` of each row."""
    return [digest(row) for row in array]


def uniform_bits(n: int, seed: int) -> npt.NDArray[np.uint64]:
    """n words of SplitMix64, counted from the seed. Source: Steele, Lea, Flood 2014."""
    with np.errstate(over="ignore"):
        x = (np.arange(1, n + 1, dtype=np.uint64) + np.uint64(seed) * np.uint64(1 << 32)) * _MIX[0]
        x = (x ^ (x >> np.uint64(30))) * _MIX[1]
        x = (x ^ (x >> np.uint64(27))) * _MIX[2]
    return x ^ (x >> np.uint64(31))


def plain(n: int, seed: int) -> Floats:
    """n values with a bell-shaped spread: mean 0, deviation about 1.2."""
    bits = uniform_bits(n, seed)
    total = sum(((bits >> np.uint64(16 * i)) & np.uint64(0xFFFF)).astype(np.int64) for i in range(4)) - 2 * 65535
    return (np.asarray(total) / 2.0**15).astype(np.float32)


def even(n: int, seed: int) -> Floats:
    """n values spread evenly from -2 to 2, made in fewer steps than the others."""
    words = np.arange(1, n + 1, dtype=np.uint32) * np.uint32(0x9E3779B1) + np.uint32(seed % (1 << 12) * 0x85EBCA6B % (1 << 32))
    return ((words ^ (words >> np.uint32(15))).view(np.int32) / 2.0**30).astype(np.float32)


def halves(n: int, seed: int) -> npt.NDArray[np.float16]:
    """n half-precision values as `plain` spreads them."""
    return plain(n, seed).astype(np.float16)


def activations(shape: str, k: int, seed: int) -> Floats:
    """A row of k activations; `shape` is one of ROW_SHAPES or WILD_SHAPES."""
    x = plain(k, seed)
    roll = uniform_bits(k, seed + 1_000_003)
    at = np.arange(k)
    if shape == "outliers":
        return np.where(roll % np.uint64(97) == 0, x * np.float32(300), x)
    if shape == "zeros":
        return np.where((at // 32) % 3 == seed % 3, np.where(roll % np.uint64(2) == 0, np.float32(0), np.float32(-0.0)), x)
    if shape == "ties":
        # The largest magnitude of every 32 is 127, so that the quants of halves are ties.
        ties = (roll % np.uint64(253)).astype(np.int64).astype(np.float32) - np.float32(126) + np.float32(0.5)
        return np.where(at % 32 == seed % 32, np.float32(127) * (1 - 2 * (at // 32 % 2)).astype(np.float32), ties)
    if shape == "subnormal":
        return x * np.float32(2.0**-140) * np.where(at // 32 % 2 == 0, np.float32(1), np.float32(2.0**20))
    if shape == "mixed":
        exponent = (roll % np.uint64(40)).astype(np.int64) - 30
        return np.ldexp(x, exponent).astype(np.float32)
    if shape == "signs":
        # The largest magnitude occurs with both signs.
        return np.where(at % 16 == 3, np.float32(4), np.where(at % 16 == 11, np.float32(-4), x))
    if shape == "large":
        return x * np.float32(30000)
    if shape == "huge":
        return x * np.float32(2.0**100)
    if shape == "nans":
        return np.where(roll % np.uint64(10 << seed % 5) == 0, _ENDLESS[_eighth(roll)], x.view(np.uint32)).view(np.float32)
    if shape == "infinite":
        wild = np.array([np.inf, -np.inf, np.nan, 1.0], np.float32)
        return np.where(at % 64 == 40, wild[at // 64 % 4], x).astype(np.float32)
    return x


def _eighth(roll: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    return ((roll >> np.uint64(20)) % np.uint64(8)).astype(np.int64)


def columns(n: int, k: int, seed: int, *, edges: bool, wild: bool = False) -> Floats:
    """n rows of activations; with `edges` every shape of ROW_SHAPES in turn, with `wild` mostly rows with NaN and infinities."""
    shapes = [ROW_SHAPES[(seed + j) % len(ROW_SHAPES)] if edges else "plain" for j in range(n)]
    if wild:
        shapes = [("nans", "nans", "infinite", "nans", "huge", "nans", "plain")[(seed + j) % 7] for j in range(n)]
    return np.stack([activations(shape, k, seed + j) for j, shape in enumerate(shapes)])


def wild_weights(type_name: str, rows: int, k: int, seed: int) -> Bytes:
    """`weights` with infinities and NaN among the scales, or among the weights of a type without blocks.

    MXFP4's and NVFP4's scales have none; the largest and smallest and those that other formats would keep for NaN stand for them.
    """
    kind = TYPES[TYPE_IDS[type_name]]
    blocks = weights(type_name, rows, k, seed, edges=False).reshape(-1, kind.bytes)
    if kind.block == 1:
        roll = uniform_bits(len(blocks), seed + 4_000_003)
        bits = blocks.view("<u4" if type_name == "F32" else "<u2")[:, 0]
        endless = (
            _ENDLESS if type_name == "F32" else _ENDLESS_HALVES if type_name == "F16" else (_ENDLESS >> 16).astype(np.uint16)
        )
        # A few in a hundred in some matrices, a few in a thousand in others.
        return np.where(roll % np.uint64(20 << seed % 6) == 0, endless[_eighth(roll)], bits).view(np.uint8)
    often = np.uint64(2 << seed % 4)
    for number, offset in enumerate(_HALVES.get(type_name, ())):
        rolled = uniform_bits(len(blocks), seed + 5_000_003 + number)
        scale = np.where(rolled % often == 0, _ENDLESS_HALVES[_eighth(rolled)], _half(type_name, blocks, offset))
        _put_half(type_name, blocks, offset, scale.astype("<u2").view(np.float16))
    scales, extremes = _EXTREME_BYTES.get(type_name, (0, ()))
    for n in range(scales):
        rolled = uniform_bits(len(blocks), seed + 5_000_003 + n)
        blocks[:, n] = np.where(rolled % often == 0, np.array(extremes, np.uint8)[_eighth(rolled) % 4], blocks[:, n])
    return blocks.reshape(-1)


def weights(type_name: str, rows: int, k: int, seed: int, *, edges: bool, power: int = 0) -> Bytes:
    """The file bytes of rows x k weights: any quants, scales of both signs and of a usual size.

    With `edges` some blocks have a zero, a subnormal or a large scale, and quants that are all smallest or all largest. Other
    scales are multiplied by 2^power.
    """
    kind = TYPES[TYPE_IDS[type_name]]
    if kind.block == 1:
        return _float_weights(type_name, rows * k, seed, edges, power)
    count = rows * (k // kind.block)
    bits = uniform_bits((count * kind.bytes + 7) // 8, seed)
    blocks = bits.view(np.uint8)[: count * kind.bytes].reshape(count, kind.bytes).copy()
    roll = uniform_bits(count, seed + 2_000_003)
    if edges:
        blocks[roll % np.uint64(7) == 0] = 0x00
        blocks[roll % np.uint64(7) == 1] = 0xFF
        blocks[roll % np.uint64(14) == 2] = 0x80
        blocks[roll % np.uint64(14) == 3] = 0x7F
    for number, offset in enumerate(_HALVES.get(type_name, ())):
        scale = np.ldexp(plain(count, seed + 3_000_003 + number), power - 5).astype(np.float16)
        if edges:
            special = np.array([0.0, -0.0, 2.0**-24, -(2.0**-20), 1000.0, -3.0], np.float16)
            pick = (roll >> np.uint64(8)) % np.uint64(12)
            scale = np.where(pick < 6, special[(pick % np.uint64(6)).astype(np.int64)], scale)
        _put_half(type_name, blocks, offset, scale.astype("<f2"))
    if type_name == "MXFP4":
        first, count_of = (20, 200) if edges else (118, 16)
        blocks[:, 0] = (roll >> np.uint64(32)) % np.uint64(count_of) + np.uint64(first + power)
    if type_name == "NVFP4" and not edges:
        blocks[:, :4] = blocks[:, :4] % 24 + (44 + 8 * power)
    return blocks.reshape(-1)


def _put_half(type_name: str, blocks: Bytes, offset: int, scale: npt.NDArray[np.float16]) -> None:
    if type_name != "IQ1_M":
        blocks[:, offset : offset + 2] = scale.view(np.uint8).reshape(-1, 2)
        return
    # Its half lies in the upper four bits of every second byte.
    for n in range(4):
        byte = blocks[:, offset + 2 * n]
        byte[:] = byte & 15 | (scale.view("<u2") >> 4 * n & 15).astype(np.uint8) << 4


def _half(type_name: str, blocks: Bytes, offset: int) -> npt.NDArray[np.uint16]:
    """The bits of a half of each block; see `_put_half`."""
    if type_name != "IQ1_M":
        return np.ascontiguousarray(blocks[:, offset : offset + 2]).view("<u2")[:, 0]
    bits = np.zeros(len(blocks), np.uint16)
    for n in range(4):
        bits |= (blocks[:, offset + 2 * n] >> 4).astype(np.uint16) << 4 * n
    return bits


def _float_weights(type_name: str, n: int, seed: int, edges: bool, power: int) -> Bytes:
    x = np.ldexp(plain(n, seed), power - 3)
    if edges:
        roll = uniform_bits(n, seed + 2_000_003)
        special = np.array([0.0, -0.0, 2.0**-24, -(2.0**-20), 60000.0, 2.0**-14], np.float32)
        pick = roll % np.uint64(24)
        x = np.where(pick < 6, special[(pick % np.uint64(6)).astype(np.int64)], x).astype(np.float32)
    if type_name == "F32":
        return x.view(np.uint8)
    if type_name == "F16":
        return x.astype("<f2").view(np.uint8)
    return (x.view(np.uint32) >> np.uint32(16)).astype("<u2").view(np.uint8)
