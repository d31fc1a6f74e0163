# SPDX-License-Identifier: MIT OR Apache-2.0
"""IQ4_NL weights whose rows do not divide by 8: one activation row in vec_dot's order, more in tinyBLAS's.

Blocks, packing and dequantization are those of iq4_nl.py. The two orders differ in bits: two_sums.py, nibbles.py's lanes.
"""

from __future__ import annotations

from bankml.kernels.blocks.iq4_nl import (
    BLOCK,
    BYTES,
    MINUS_OFFSET,
    PACKED,
    get_rows,
    lossless_totals,
    pack,
    scale,
    signed_words,
    unpack_row,
    words,
)
from bankml.kernels.blocks.nibbles import hsum, lane_dots, offset_dot, row_first, signed_dot, weight_first
from bankml.kernels.blocks.two_sums import one_row_in_two, two_sums
from bankml.kernels.blocks.walk import FOURS, many_rows, tile
from bankml.kernels.compiler.isa import VNNI, W
from bankml.kernels.compiler.native import kernel

__all__ = ["BLOCK", "BYTES", "MINUS_OFFSET", "PACKED", "gemm", "gemv", "get_rows", "pack", "unpack_row"]

_dot = offset_dot if VNNI else signed_dot


def _block(E, accs, w, ys, ds, xs):
    return lane_dots(E, scale(E, w), words(E, w), _dot, accs, ys, ds, xs)


def _careful_block(E, accs, w, ys, ds, xs):
    return lane_dots(E, scale(E, w), signed_words(E, w), signed_dot, accs, ys, ds, xs, row_first)


_COLUMNS = 3 if W == 16 else 2
_pair, _last, _zeros, _fold = two_sums("iq4_nl", PACKED, scale, words, _dot, lossless_totals)
_careful_pair, _, _, _ = two_sums("iq4_nl_careful", PACKED, scale, signed_words, signed_dot, lossless_totals, weight_first)
_step1, _zeros1, _result1 = tile("iq4_nl_odd", 1, 8, _block, hsum, PACKED)
_careful, _, _ = tile("iq4_nl_odd_careful", 1, 8, _careful_block, hsum, PACKED)
_stepn, _zerosn, _resultn = tile("iq4_nl_odd", _COLUMNS, 8, _block, hsum, PACKED)


@kernel
def gemv(args, chunk, thread):
    """One activation row, packed in the thread's scratch."""
    one_row_in_two(_pair, _careful_pair, _last, _zeros, _fold, PACKED, args, chunk, thread)


@kernel
def gemm(args, chunk, thread):
    """Many activation rows; a chunk is a part of the weight rows times a part of the columns."""
    many_rows(_stepn, _zerosn, _resultn, _COLUMNS, _step1, _careful, _zeros1, _result1, PACKED, 1, FOURS, None, args, chunk)
