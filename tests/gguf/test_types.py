# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table of types."""

import pytest

from bankml.core.gguf.types import FORK_TYPES, REMOVED, STRUCT_CODES, TYPE_COUNT, TYPES, VALUE_TYPES, row_bytes, type_name


def test_every_id_below_the_count_is_a_type_or_was_removed():
    assert sorted([*TYPES, *REMOVED]) == list(range(TYPE_COUNT))
    assert TYPE_COUNT == 43
    assert set(FORK_TYPES) == {142, 143}
    assert all(number == kind.id for number, kind in TYPES.items())


@pytest.mark.parametrize(
    ("name", "bits"),
    [("F32", 32), ("F16", 16), ("Q4_0", 4.5), ("Q4_1", 5), ("Q8_0", 8.5), ("Q4_K", 4.5), ("Q6_K", 6.5625), ("Q1_0", 1.125),
     ("Q2_0", 2.25), ("TQ1_0", 1.6875), ("TQ2_0", 2.0625), ("IQ4_XS", 4.25), ("MXFP4", 4.25), ("NVFP4", 4.5)],
)  # fmt: skip
def test_bits_a_weight(name, bits):
    kind = next(kind for kind in TYPES.values() if kind.name == name)
    assert kind.bytes * 8 / kind.block == bits


def test_row_bytes():
    assert row_bytes(3, 576) == 18 * 20
    assert row_bytes(8, 576) == 18 * 34
    with pytest.raises(ValueError, match="whole number of Q1_0 blocks of 128"):
        row_bytes(41, 576)
    with pytest.raises(KeyError):
        row_bytes(4, 32)


def test_names():
    assert [type_name(number) for number in (0, 40, 4, 142, 99)] == ["F32", "NVFP4", "Q4_2", "PQ2_0", "99"]


def test_value_types():
    assert sorted(VALUE_TYPES) == list(range(13))
    assert {number for number, kind in VALUE_TYPES.items() if kind.bytes} == set(STRUCT_CODES)
