# SPDX-License-Identifier: MIT OR Apache-2.0
"""IQ1_M weights times q8_K activations, in the orders of the reference's vec_dot and panel product.

File block, 256 weights: ``byte low[32], byte more[16], word16 scales[4]``; four bits of `more` are three high bits of a grid
index and whether the shift is negative; a word of scales holds four of three bits and four bits of the half d;
weight = d*(2*scale+1)*(value + shift), a scale for each 16, a shift for each 8.
Packed as codes of two bits, see grid_blocks.py; after the scales four bytes of positive shifts, a bit each.

vec_dot, beside the lanes: e[L] = fma(d*dy, the sum of shift*scale*sum of 4 quants, e[L]); fma(1/8, HS-A(e), HS-A(acc)).
The rest: shifted_grids.py.
"""

from __future__ import annotations

from bankml.kernels.activations.quantize_k import C
from bankml.kernels.compiler.isa import W
from bankml.kernels.compiler.native import compiled, entry, kernel
from bankml.kernels.compiler.simd import F32, I32, ld_u8, ld_u16, stack_array
from bankml.kernels.superblocks import lanes, panels
from bankml.kernels.superblocks.grid_blocks import lane_scales, packed_bytes, put_block, put_scale, scale_pairs, take_entry
from bankml.kernels.superblocks.grids import IQ1
from bankml.kernels.superblocks.shifted_grids import BITS, OFFSET, UNIT, bit_mask, negate, steps, unpack_rows
from bankml.kernels.superblocks.steps import add_pairs, ld_bytes, separate, zero

BLOCK, BYTES = 256, 56
MINUS_OFFSET = -OFFSET
_SMALL = 12
PACKED = packed_bytes(_SMALL, BITS)
_stack_codes, _stack_small = stack_array(256), stack_array(_SMALL)
_PLACES = IQ1.places


def _pairs(E, w):
    return scale_pairs(E, w, 8)


def _positive(E, w):
    bytes_ = [ld_bytes(E, w, (10 + p) * W) for p in range(4)]
    return lambda g, quarter: bit_mask(E, bytes_[g // 2], 4 * (g % 2) + quarter)


def _begin(E, tile):
    """The shifts: a row's words of minus four quants' sum make their sum."""
    positive = _positive(E, tile.w)
    scales = lane_scales(E, _pairs(E, tile.w))
    for quarter in range(4):
        separate(E)
        signed = [negate(E, scales[8 * (quarter // 2) + g], positive(g, quarter)) for g in range(8)]
        for tile.lane in (2 * quarter, 2 * quarter + 1):
            total = zero(E)
            for g in range(8):
                total = add_pairs(E, total, signed[g], E.splat_ld(I32, tile.sums(0, C + 32 * g)))
            tile.fma(tile.extra_at(0, tile.lane), tile.factor(0), total)


_zeros, _step, _result, _tile, _tile_zeros, _one, _one_zeros = steps(
    "iq1_m",
    _SMALL,
    _pairs,
    _positive,
    extra=8,
    begin=_begin,
    lane=lambda E, tile, words, scales: lanes.lane_sums(E, tile, words, scales, offset=True),
    end=lambda E, total, extra: E.fma(E.const(F32, UNIT, W), E.hsum_a(extra), total),
)


@compiled
def _take(block, codes, small):
    small[8:] = 0
    d = 0
    for n in range(4):
        word = ld_u16(block + 48, n)
        d |= word >> 12 << 4 * n
        for part in range(4):
            put_scale(small, 4 * n + part, word >> 3 * part & 7)
    for n in range(32):
        more = ld_u8(block + 32, n // 2) >> 4 * (n % 2)
        take_entry(_PLACES[ld_u8(block, n) | (more & 7) << 8], codes, 8 * n)
        small[8 + n // 8] |= (1 - (more >> 3 & 1)) << n % 8
    return d


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
    unpack_rows(_SMALL, 16, 32, 64, 1, PACKED, args, chunk)
