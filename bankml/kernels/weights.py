# SPDX-License-Identifier: MIT OR Apache-2.0
"""The weight types that have kernels: one row each."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import rows
from .isa import W


@dataclass(frozen=True)
class WeightType:
    """How a type is stored, and the kernels that read it.

    `packed` is the bytes of W rows of one block after packing, 0 where the kernels read the file's own bytes. `form` and
    `minus_offset` say how activation rows are formed for it. `pack(source, packed, rows, blocks, first_group, last_group)`.
    """

    id: int
    name: str
    block: int
    bytes: int
    packed: int
    form: int
    minus_offset: int
    gemv: Any
    gemm: Any
    get_rows: Any
    pack: Callable[..., None] | None

    @property
    def group(self) -> int:
        """Weight rows that a kernel takes together."""
        return W if self.packed else 4


# type id -> (name, module, form of the activations)
_MODULES = {
    0: ("F32", "floats", rows.FORM_F32),
    1: ("F16", "floats", rows.FORM_F16),
    3: ("Q4_1", "q4_1", rows.FORM_Q8),
    8: ("Q8_0", "q8_0", rows.FORM_Q8),
    30: ("BF16", "floats", rows.FORM_BF16),
}
TYPE_IDS = frozenset(_MODULES)
_loaded: dict[int, WeightType] = {}


def weight_type(type_id: int) -> WeightType:
    """The type's kernels, compiled or taken from the cache at the first call."""
    if type_id not in _loaded:
        name, module, form = _MODULES[type_id]
        m = importlib.import_module(f"bankml.kernels.{module}")
        if module == "floats":
            size = 4 if type_id == 0 else 2
            _loaded[type_id] = WeightType(type_id, name, 1, size, 0, form, 0, m.gemv, m.gemm, m.get_rows, None)
        else:
            _loaded[type_id] = WeightType(
                type_id, name, m.BLOCK, m.BYTES, m.PACKED, form, m.MINUS_OFFSET, m.gemv, m.gemm, m.get_rows, m.pack
            )
    return _loaded[type_id]
