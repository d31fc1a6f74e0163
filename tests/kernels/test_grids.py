# SPDX-License-Identifier: MIT OR Apache-2.0
"""The grids: facts that must be the reference's to the last entry."""

from pathlib import Path

import numpy as np
import pytest

from bankml.core.exact import stream
from bankml.core.gguf.types import TYPES
from bankml.kernels.scalar import products
from bankml.kernels.superblocks import grids
from bankml.oracle.cases import small_models
from bankml.oracle.record import read_record

RECORDS = Path(__file__).resolve().parent.parent / "records"


def recorded_tensors(name):
    """File bytes of all tensors of a type that the reference was asked about."""
    for m in read_record(RECORDS / f"kernels-{name.lower()}.json.gz").body["matrices"]:
        yield stream.weights(name, m["rows"], m["k"], m["seed"], edges=m["edges"])
    recorded = {made["shape"] for made in read_record(RECORDS / "model-shapes.json.gz").body["made"]}
    for shape in small_models.SHAPES:
        if shape.name in recorded and name in shape.types:
            for number, (tensor_name, dims) in enumerate(small_models._tensors(shape)):
                tensor = small_models._tensor(shape, number, tensor_name, dims)
                if TYPES[tensor.type_id].name == name:
                    yield np.asarray(tensor.data)


@pytest.mark.parametrize(
    ("names", "grid"),
    [
        (("IQ2_XXS",), grids.IQ2_XXS),
        (("IQ2_XS",), grids.IQ2_XS),
        (("IQ2_S",), grids.IQ2_S),
        (("IQ3_XXS",), grids.IQ3_XXS),
        (("IQ3_S",), grids.IQ3_S),
        (("IQ1_S", "IQ1_M"), grids.IQ1),
    ],
)
def test_records_hold_every_entry(names, grid):
    reached = set()
    for name in names:
        for data in recorded_tensors(name):
            values = np.concatenate([q for _, _, q in products.scalar_type(name).blocks(data)])
            entries = np.rint(values / 8) if grid is grids.IQ1 else np.abs(values)
            reached |= set(map(tuple, entries.astype(np.int64).reshape(-1, grid.values.shape[1]).tolist()))
    assert reached == set(map(tuple, grid.values.tolist()))


def test_signs_are_even():
    assert all(int(signs).bit_count() % 2 == 0 for signs in grids.SIGNS)
