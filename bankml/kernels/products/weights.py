# SPDX-License-Identifier: MIT OR Apache-2.0
"""The weight types that have kernels: one row each."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from bankml.kernels.activations import rows
from bankml.kernels.compiler.isa import W
from bankml.kernels.compiler.native import Compiled, module_named


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
    gemv: Compiled
    gemm: Compiled
    get_rows: Compiled
    pack: Compiled | None

    @property
    def modules(self) -> set[str]:
        """The modules of kernels that have its functions."""
        return {each.module for each in (self.gemv, self.gemm, self.get_rows, self.pack) if each is not None}

    @property
    def group(self) -> int:
        """Weight rows that a kernel takes together."""
        return W if self.packed else 4


@dataclass(frozen=True)
class _Row:
    """`module` has the kernels; `odd_rows` those for rows that do not divide by 8, where the reference takes others."""

    name: str
    module: str
    form: int
    odd_rows: str = ""


_TABLE = {
    0: _Row("F32", "floats.products", rows.FORM_F32),
    1: _Row("F16", "floats.products", rows.FORM_F16),
    2: _Row("Q4_0", "blocks.q4_0", rows.FORM_Q8, "blocks.q4_0_odd"),
    3: _Row("Q4_1", "blocks.q4_1", rows.FORM_Q8),
    6: _Row("Q5_0", "blocks.q5_0", rows.FORM_Q8),
    7: _Row("Q5_1", "blocks.q5_1", rows.FORM_Q8),
    8: _Row("Q8_0", "blocks.q8_0", rows.FORM_Q8),
    10: _Row("Q2_K", "superblocks.q2_k", rows.FORM_Q8K),
    11: _Row("Q3_K", "superblocks.q3_k", rows.FORM_Q8K),
    12: _Row("Q4_K", "superblocks.q4_k", rows.FORM_Q8K, "superblocks.q4_k_odd"),
    13: _Row("Q5_K", "superblocks.q5_k", rows.FORM_Q8K),
    14: _Row("Q6_K", "superblocks.q6_k", rows.FORM_Q8K),
    16: _Row("IQ2_XXS", "superblocks.iq2_xxs", rows.FORM_Q8K),
    17: _Row("IQ2_XS", "superblocks.iq2_xs", rows.FORM_Q8K),
    18: _Row("IQ3_XXS", "superblocks.iq3_xxs", rows.FORM_Q8K),
    19: _Row("IQ1_S", "superblocks.iq1_s", rows.FORM_Q8K),
    20: _Row("IQ4_NL", "blocks.iq4_nl", rows.FORM_Q8, "blocks.iq4_nl_odd"),
    21: _Row("IQ3_S", "superblocks.iq3_s", rows.FORM_Q8K),
    22: _Row("IQ2_S", "superblocks.iq2_s", rows.FORM_Q8K),
    23: _Row("IQ4_XS", "superblocks.iq4_xs", rows.FORM_Q8K),
    29: _Row("IQ1_M", "superblocks.iq1_m", rows.FORM_Q8K),
    30: _Row("BF16", "floats.products", rows.FORM_BF16),
    34: _Row("TQ1_0", "superblocks.tq1_0", rows.FORM_Q8K),
    35: _Row("TQ2_0", "superblocks.tq2_0", rows.FORM_Q8K),
    39: _Row("MXFP4", "blocks.mxfp4", rows.FORM_Q8, "blocks.mxfp4_odd"),
    40: _Row("NVFP4", "blocks.nvfp4", rows.FORM_Q8),
    41: _Row("Q1_0", "blocks.q1_0", rows.FORM_Q8),
    42: _Row("Q2_0", "blocks.q2_0", rows.FORM_Q8),
}
TYPE_IDS = frozenset(_TABLE)
# The reference repacks some types in groups of eight rows, and only whole matrices of them.
REPACKED_ROWS = 8


@functools.cache
def _load(type_id: int, module: str) -> WeightType:
    row = _TABLE[type_id]
    m = module_named(module)
    if module == "floats.products":
        size = 4 if type_id == 0 else 2
        return WeightType(type_id, row.name, 1, size, 0, row.form, 0, m.gemv, m.gemm, m.get_rows, None)
    return WeightType(type_id, row.name, m.BLOCK, m.BYTES, m.PACKED, row.form, m.MINUS_OFFSET, m.gemv, m.gemm, m.get_rows, m.pack)


def weight_type(type_id: int, n_rows: int) -> WeightType:
    """The kernels for a matrix of this type and number of rows."""
    row = _TABLE[type_id]
    return _load(type_id, row.odd_rows if row.odd_rows and n_rows % REPACKED_ROWS else row.module)
