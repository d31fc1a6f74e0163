# SPDX-License-Identifier: MIT OR Apache-2.0
from __future__ import annotations

import json
import math
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bankml.core.json.writer import Joined, blocks, dump, excerpt, short

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
)


@given(VALUES)
def test_blocks_are_the_same_bytes(value: Any) -> None:
    assert b"".join(blocks(value)) == dump(value)


@pytest.mark.parametrize("size", [10, 5000, 200_000])
def test_long_values_come_in_blocks(size: int) -> None:
    value = {
        "text": "é\n" * size,
        "list": [{"id": i, "x": [1, None, "a"]} for i in range(size // 10)],
        "pairs": [(1, 0.5)] * size,
    }
    parts = list(blocks(value))
    assert b"".join(parts) == dump(value)
    assert all(len(part) < 1 << 19 for part in parts)


def test_arrays_iterators_and_joined_texts() -> None:
    ids = array("i", range(-3, 5000))
    assert b"".join(blocks({"a": ids, "b": iter([1, {"c": 2}]), "d": Joined(iter(["x", "\n", "é"]))})) == dump(
        {"a": list(ids), "b": [1, {"c": 2}], "d": "x\né"}
    )
    assert b"".join(blocks([array("i"), iter([]), Joined(iter([]))])) == b'[[],[],""]'


def test_what_is_not_finite_is_null() -> None:
    value = [math.inf, {"a": (-math.inf, math.nan)}]
    assert dump(value) == b"".join(blocks(value)) == b'[null,{"a":[null,null]}]'


def test_a_quotation_does_not_look_at_what_it_leaves_out() -> None:
    class Endless(list[int]):
        def __getitem__(self, key: Any) -> Any:
            assert key.stop < 1 << 14
            return [1] * (1 << 11)

        def __len__(self) -> int:
            return 1 << 62

    assert short(Endless()) == f"[{'1, ' * 19}1…"
    assert short({"a": [1, "b"]}) == json.dumps({"a": [1, "b"]})
    assert len(excerpt("x" * 10_000)) == 4096
    assert excerpt([{"a": 1}], indent=2) == json.dumps([{"a": 1}], indent=2)
