# SPDX-License-Identifier: MIT OR Apache-2.0
"""MXFP4 weights whose rows do not divide by 8, in the order of the reference's vec_dot, whatever the number of rows.

Blocks, packing and dequantization are those of mxfp4.py; the order is two_sums.py's.
"""

from __future__ import annotations

from bankml.kernels.blocks.mxfp4 import (
    BLOCK,
    BYTES,
    MINUS_OFFSET,
    PACKED,
    get_rows,
    pack,
    scales,
    signed_words,
    totals,
    unpack_row,
    words,
)
from bankml.kernels.blocks.nibbles import offset_dot, signed_dot
from bankml.kernels.blocks.two_sums import many_rows_in_two, one_row_in_two, two_sums
from bankml.kernels.compiler.native import kernel

__all__ = ["BLOCK", "BYTES", "MINUS_OFFSET", "PACKED", "gemm", "gemv", "get_rows", "pack", "unpack_row"]

_pair, _last, _zeros, _fold = two_sums("mxfp4", PACKED, scales, words, offset_dot, totals)
_careful, _, _, _ = two_sums("mxfp4_careful", PACKED, scales, signed_words, signed_dot, totals)


@kernel
def gemv(args, chunk, thread):
    """One activation row, packed in the thread's scratch."""
    one_row_in_two(_pair, _careful, _last, _zeros, _fold, PACKED, args, chunk, thread)


@kernel
def gemm(args, chunk, thread):
    """Many activation rows; a chunk is a part of the weight rows times a part of the columns."""
    many_rows_in_two(_pair, _careful, _last, _zeros, _fold, PACKED, args, chunk)
