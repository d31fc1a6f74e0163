# SPDX-License-Identifier: MIT OR Apache-2.0
"""numba's arrays made over numbers that belong to somebody else: a frame's memory, or an array object of numpy's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.np import arrayobj

_I64 = ir.IntType(64)
# What an array object holds after Python's own head: its data, the number of dimensions, the sizes.
# Source: PyArrayObject_fields, numpy/ndarraytypes.h.
_HEAD = object.__basicsize__
_DATA, _SIZES = _HEAD, _HEAD + 16


def array(target: Any, builder: Any, kind: Any, data: Any, sizes: Sequence[Any]) -> Any:
    """numba's array, of a type of numba's, over numbers in C's order that belong to somebody else."""
    item = ir.Constant(_I64, target.get_abi_sizeof(target.get_data_type(kind.dtype)))
    strides = [item]
    for size in reversed(sizes[1:]):
        strides.insert(0, builder.mul(strides[0], size))
    made = arrayobj.make_array(kind)(target, builder)
    arrayobj.populate_array(made, data=data, shape=sizes, strides=strides, itemsize=item, meminfo=None)
    return made._getvalue()


def of_numpy(target: Any, builder: Any, kind: Any, address: Any) -> Any:
    """numba's array of numpy's array object."""

    def word(at: Any, offset: int) -> Any:
        place = builder.inttoptr(builder.add(at, ir.Constant(_I64, offset)), _I64.as_pointer())
        return builder.load(place, typ=_I64)

    sizes_at = word(address, _SIZES)
    sizes = [word(sizes_at, 8 * i) for i in range(kind.ndim)]
    data = builder.inttoptr(word(address, _DATA), target.get_data_type(kind.dtype).as_pointer())
    return array(target, builder, kind, data, sizes)
