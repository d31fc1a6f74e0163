# SPDX-License-Identifier: MIT OR Apache-2.0
"""IQ3_XXS weights times q8_K activations, in the orders of the reference's vec_dot and panel product.

File block, 256 weights: ``half d, byte index[64], word32 more[8]``; a word holds four times seven signs and, in its upper four
bits, a scale; weight = d/4*(2*scale+1)*value.
Packed as codes of four bits, see grid_blocks.py. Orders: signed_grids.py.
"""

from __future__ import annotations

from bankml.kernels.compiler.isa import W
from bankml.kernels.compiler.native import compiled, entry, kernel
from bankml.kernels.compiler.simd import ld_i32, ld_u8, ld_u16, stack_array
from bankml.kernels.superblocks import lanes, panels
from bankml.kernels.superblocks.grid_blocks import packed_bytes, put_block, put_scale, take_entry
from bankml.kernels.superblocks.grids import IQ3_XXS
from bankml.kernels.superblocks.signed_grids import steps, table, take_sevens, unpack_rows

BLOCK, BYTES = 256, 98
MINUS_OFFSET = -62
_BITS, _SMALL, _UNIT = 4, 4, 0.25
PACKED = packed_bytes(_SMALL, _BITS)
_stack_codes, _stack_small = stack_array(256), stack_array(_SMALL)
_PLACES, _VALUES = IQ3_XXS.places, table(IQ3_XXS)
_zeros, _step, _result, _tile, _tile_zeros, _one, _one_zeros = steps("iq3_xxs", IQ3_XXS, _BITS, _SMALL, _UNIT)


@compiled
def _take(block, codes, small):
    for n in range(64):
        take_entry(_PLACES[ld_u8(block + 2, n)], codes, 4 * n)
    for g in range(8):
        more = ld_i32(block + 66, g)
        put_scale(small, g, more >> 28 & 15)
        take_sevens(more, codes, 32 * g, 3)
    return ld_u16(block, 0)


@kernel
def gemv(args, chunk, thread):
    """One activation row, packed in the thread's scratch."""
    lanes.one_row(_zeros, _step, _result, PACKED, args, chunk, thread)


@kernel
def gemm(args, chunk, thread):
    """Many activation rows; a chunk is a part of the weight rows times a part of the columns."""
    panels.many_rows(_zeros, _step, _result, _tile, _tile_zeros, _one, _one_zeros, PACKED, args, chunk)


@entry("void(intp, intp, intp, intp, intp, intp)")
def pack(source, packed, rows, blocks, first, last):
    """Pack groups first..last of a matrix of `rows` file rows; `packed` holds zeros before."""
    codes, small = _stack_codes(0), _stack_small(0)
    for r in range(first * W, min(rows, last * W)):
        for b in range(blocks):
            d = _take(source + (r * blocks + b) * BYTES, codes, small)
            put_block(packed + (r // W * blocks + b) * PACKED, r % W, d, small, _SMALL, codes, _BITS)


@kernel
def get_rows(args, chunk, thread):
    """Dequantize the rows that `Y` (int64 row numbers) names; a chunk is a part of them."""
    unpack_rows(_VALUES, _SMALL, _BITS, _UNIT, PACKED, args, chunk)
