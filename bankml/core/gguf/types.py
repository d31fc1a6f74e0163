# SPDX-License-Identifier: MIT OR Apache-2.0
"""The one table of ggml's tensor types and of GGUF's metadata value types, as b11192 has them."""

from __future__ import annotations

from typing import Final, NamedTuple


class GgmlType(NamedTuple):
    """A tensor type: ``block`` elements of a row are stored together in ``bytes`` bytes."""

    id: int
    name: str
    block: int
    bytes: int


class ValueType(NamedTuple):
    """A metadata value type: its number, GGUF's short name, and its bytes (0: not of fixed size)."""

    id: int
    name: str
    bytes: int


# Source: enum ggml_type (ggml/include/ggml.h), type_traits (ggml/src/ggml.c), block sizes (ggml/src/ggml-common.h).
TYPES: Final[dict[int, GgmlType]] = {
    number: GgmlType(number, name, block, size)
    for number, name, block, size in (
        (0, "F32", 1, 4),
        (1, "F16", 1, 2),
        (2, "Q4_0", 32, 18),
        (3, "Q4_1", 32, 20),
        (6, "Q5_0", 32, 22),
        (7, "Q5_1", 32, 24),
        (8, "Q8_0", 32, 34),
        (9, "Q8_1", 32, 36),
        (10, "Q2_K", 256, 84),
        (11, "Q3_K", 256, 110),
        (12, "Q4_K", 256, 144),
        (13, "Q5_K", 256, 176),
        (14, "Q6_K", 256, 210),
        (15, "Q8_K", 256, 292),
        (16, "IQ2_XXS", 256, 66),
        (17, "IQ2_XS", 256, 74),
        (18, "IQ3_XXS", 256, 98),
        (19, "IQ1_S", 256, 50),
        (20, "IQ4_NL", 32, 18),
        (21, "IQ3_S", 256, 110),
        (22, "IQ2_S", 256, 82),
        (23, "IQ4_XS", 256, 136),
        (24, "I8", 1, 1),
        (25, "I16", 1, 2),
        (26, "I32", 1, 4),
        (27, "I64", 1, 8),
        (28, "F64", 1, 8),
        (29, "IQ1_M", 256, 56),
        (30, "BF16", 1, 2),
        (34, "TQ1_0", 256, 54),
        (35, "TQ2_0", 256, 66),
        (39, "MXFP4", 32, 17),
        (40, "NVFP4", 64, 36),
        (41, "Q1_0", 128, 18),
        (42, "Q2_0", 64, 18),
    )
}

TYPE_IDS: Final = {kind.name: number for number, kind in TYPES.items()}
"""A type's number by its name."""

TYPE_COUNT: Final = 43
"""b11192's GGML_TYPE_COUNT: ids from here on are unknown to it."""

REMOVED: Final[dict[int, str]] = {
    4: "Q4_2",
    5: "Q4_3",
    31: "Q4_0_4_4",
    32: "Q4_0_4_8",
    33: "Q4_0_8_8",
    36: "IQ4_NL_4_4",
    37: "IQ4_NL_4_8",
    38: "IQ4_NL_8_8",
}
"""Ids that older builds wrote and b11192 has no layout for."""

FORK_TYPES: Final[dict[int, str]] = {142: "PQ2_0", 143: "PTQ1_0"}
"""Ids that only PrismML's fork of llama.cpp reads; their layout is not known here."""

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)

# Source: enum gguf_type (ggml/include/gguf.h).
VALUE_TYPES: Final[dict[int, ValueType]] = {
    number: ValueType(number, name, size)
    for number, name, size in (
        (U8, "u8", 1),
        (I8, "i8", 1),
        (U16, "u16", 2),
        (I16, "i16", 2),
        (U32, "u32", 4),
        (I32, "i32", 4),
        (F32, "f32", 4),
        (BOOL, "bool", 1),
        (STRING, "str", 0),
        (ARRAY, "arr", 0),
        (U64, "u64", 8),
        (I64, "i64", 8),
        (F64, "f64", 8),
    )
}

STRUCT_CODES: Final[dict[int, str]] = {
    U8: "B",
    I8: "b",
    U16: "H",
    I16: "h",
    U32: "I",
    I32: "i",
    F32: "f",
    BOOL: "?",
    U64: "Q",
    I64: "q",
    F64: "d",
}
"""``struct`` letters of the fixed-size value types."""

INTEGERS: Final = frozenset({U8, I8, U16, I16, U32, I32, U64, I64})


def type_name(type_id: int) -> str:
    """The type's name; an id without one is its number."""
    known = TYPES.get(type_id)
    return known.name if known else REMOVED.get(type_id) or FORK_TYPES.get(type_id) or str(type_id)


def row_bytes(type_id: int, n: int) -> int:
    """Bytes of a row of ``n`` elements.

    Raises:
        KeyError: the type has no known layout.
        ValueError: ``n`` is not a whole number of blocks.
    """
    kind = TYPES[type_id]
    blocks, rest = divmod(n, kind.block)
    if rest:
        raise ValueError(f"{n} elements are not a whole number of {kind.name} blocks of {kind.block}")
    return blocks * kind.bytes
