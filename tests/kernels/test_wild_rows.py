# SPDX-License-Identifier: MIT OR Apache-2.0
"""Activation rows with NaN: its quant is -128, which the reference's vec_dot can not negate and its four-row kernels can."""

import numpy as np
import pytest

from bankml.core.exact import products, stream
from bankml.core.gguf.types import TYPE_IDS, TYPES

REPACKED = ("Q4_0", "IQ4_NL", "MXFP4")
COLUMNS = 6


def unit_weights(name, rows):
    """Two blocks a row of any quants whose scale is 1: a last block without a partner has an order of its own."""
    kind = TYPES[TYPE_IDS[name]]
    data = stream.weights(name, rows, 2 * kind.block, 5, edges=False).reshape(rows, 2, kind.bytes)
    one = {"MXFP4": [128], "NVFP4": [0x40] * 4}.get(name, np.float16(1).tobytes())
    data[:, :, : len(one)] = list(one)
    return kind, data


@pytest.mark.parametrize("rows", [7, 8])
@pytest.mark.parametrize("name", ["Q4_0", "Q5_0", "Q8_0", "IQ4_NL", "MXFP4", "NVFP4", "Q1_0", "Q2_0"])
def test_a_nan_is_minus_128_times_the_weights_magnitude(name, rows):
    kind, data = unit_weights(name, rows)
    k = 2 * kind.block
    held = products.Held(kind.id, data.reshape(-1), rows, k)
    w = held.dequantized().astype(np.int64)
    q = np.arange(k) % 96 - 48
    q[31::32] = 127
    x = np.tile(q.astype(np.float32), (COLUMNS, 1))
    x[:, 2] = np.nan
    q[2] = -128
    exact = w @ q
    # Q2_0's scalar code is exact as well.
    wild = exact if name == "Q2_0" else exact + 128 * (w[:, 2] - np.abs(w[:, 2]))
    assert name == "Q2_0" or (wild != exact).any()
    assert held.product(x[:1])[0].tolist() == wild.tolist()
    by_fours = 4 if name in REPACKED and rows == 8 else 0
    for j, row in enumerate(held.product(x)):
        assert row.tolist() == (exact if j < by_fours else wild).tolist()
