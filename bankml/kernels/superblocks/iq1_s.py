# SPDX-License-Identifier: MIT OR Apache-2.0
"""IQ1_S weights times q8_K activations, in the orders of the reference's vec_dot and panel product.

File block, 256 weights: ``half d, byte low[32], word16 more[8]``; a word holds, for 32 weights, three high bits of each of four
grid indices, a scale of three bits and whether the shift is negative; weight = d*(2*scale+1)*(value + shift).
Packed as codes of two bits, see grid_blocks.py; the upper bit of a scale's four is set where the shift is positive.

vec_dot, beside the lanes: e = fma(d*dy, the sum of shift*scale*sum of 32 quants, e) with shifts of 1 and -1; HS-A(acc) + e/8.
The rest: shifted_grids.py.
"""

from __future__ import annotations

from bankml.kernels.compiler.isa import W
from bankml.kernels.compiler.native import compiled, entry, kernel
from bankml.kernels.compiler.simd import F32, I16, V, ld_u8, ld_u16, stack_array
from bankml.kernels.superblocks import lanes, panels
from bankml.kernels.superblocks.grid_blocks import packed_bytes, put_block, put_scale, scale_pairs, small_pairs, take_entry
from bankml.kernels.superblocks.grids import IQ1
from bankml.kernels.superblocks.shifted_grids import BITS, OFFSET, UNIT, bit_mask, negate, steps, unpack_rows
from bankml.kernels.superblocks.steps import ld_bytes, minima

BLOCK, BYTES = 256, 50
MINUS_OFFSET = -OFFSET
_SMALL = 4
PACKED = packed_bytes(_SMALL, BITS)
_stack_codes, _stack_small = stack_array(256), stack_array(_SMALL)
_PLACES = IQ1.places


def _pairs(E, w):
    return scale_pairs(E, w, _SMALL, mask=0x00070007)


def _positive(E, w):
    masks = [bit_mask(E, ld_bytes(E, w, (2 + g // 2) * W), 3 + 4 * (g % 2)) for g in range(8)]
    return lambda g, quarter: masks[g]


def _begin(E, tile):
    """The shifts of a whole super-block."""
    words, signed = V(I16, 2 * W), []
    for p, pair in enumerate(_pairs(E, tile.w)):
        up = E.b.shl(E.b.bitcast(small_pairs(E, tile.w, p), words), E.const(I16, 12, 2 * W))
        positive = E.b.ashr(up, E.const(I16, 15, 2 * W))
        signed.append(negate(E, pair, E.b.not_(positive)))
    tile.fma(tile.extra_at(0, 0), tile.factor(0), minima(E, signed, tile.ys[0]))


_zeros, _step, _result, _tile, _tile_zeros, _one, _one_zeros = steps(
    "iq1_s",
    _SMALL,
    _pairs,
    _positive,
    extra=1,
    begin=_begin,
    lane=lambda E, tile, words, scales: lanes.lane_sums(E, tile, words, scales, offset=True),
    end=lambda E, total, extra: E.add(total, E.mul(extra[0], E.const(F32, UNIT, W))),
)


@compiled
def _take(block, codes, small):
    for g in range(8):
        more = ld_u16(block + 34, g)
        put_scale(small, g, (more >> 12 & 7) | (8 - (more >> 15) * 8))
        for n in range(4):
            take_entry(_PLACES[ld_u8(block + 2, 4 * g + n) | (more >> 3 * n & 7) << 8], codes, 32 * g + 8 * n)
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
            put_block(packed + (r // W * blocks + b) * PACKED, r % W, d, small, _SMALL, codes, BITS)


@kernel
def get_rows(args, chunk, thread):
    """Dequantize the rows that `Y` (int64 row numbers) names; a chunk is a part of them."""
    unpack_rows(_SMALL, 8, 8, 3, 4, PACKED, args, chunk)
