# SPDX-License-Identifier: MIT OR Apache-2.0
"""Q4_0 weights whose rows do not divide by 8, in the order of the reference's vec_dot and tinyBLAS (which agree).

Blocks, packing and dequantization are those of q4_0.py; here an output has eight accumulators.
"""

from __future__ import annotations

from bankml.kernels.blocks.nibbles import hsum, lane_dots, less, nibble_words, offset_dot, row_first, signed_dot
from bankml.kernels.blocks.q4_0 import BLOCK, BYTES, MINUS_OFFSET, PACKED, get_rows, pack, unpack_row
from bankml.kernels.blocks.walk import FOURS, many_rows, one_row, tile
from bankml.kernels.compiler.isa import W
from bankml.kernels.compiler.native import kernel

__all__ = ["BLOCK", "BYTES", "MINUS_OFFSET", "PACKED", "gemm", "gemv", "get_rows", "pack", "unpack_row"]


def _block(E, accs, w, ys, ds, xs):
    return lane_dots(E, E.ld_f16(w), nibble_words(E, w, 2 * W), offset_dot, accs, ys, ds, xs)


def _careful_block(E, accs, w, ys, ds, xs):
    return lane_dots(E, E.ld_f16(w), less(E, nibble_words(E, w, 2 * W), 8), signed_dot, accs, ys, ds, xs, row_first)


_COLUMNS = 3 if W == 16 else 2
_step1, _zeros1, _result1 = tile("q4_0_odd", 1, 8, _block, hsum, PACKED)
_careful, _, _ = tile("q4_0_odd_careful", 1, 8, _careful_block, hsum, PACKED)
_stepn, _zerosn, _resultn = tile("q4_0_odd", _COLUMNS, 8, _block, hsum, PACKED)


@kernel
def gemv(args, chunk, thread):
    """One activation row, packed in the thread's scratch."""
    one_row(_step1, _careful, _zeros1, _result1, PACKED, 1, FOURS, args, chunk, thread)


@kernel
def gemm(args, chunk, thread):
    """Many activation rows; a chunk is a part of the weight rows times a part of the columns."""
    many_rows(_stepn, _zerosn, _resultn, _COLUMNS, _step1, _careful, _zeros1, _result1, PACKED, 1, FOURS, None, args, chunk)
