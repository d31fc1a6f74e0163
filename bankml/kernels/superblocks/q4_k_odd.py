# SPDX-License-Identifier: MIT OR Apache-2.0
"""Q4_K weights times q8_K activations where the rows do not divide by 8: the order of the reference's vec_dot.

The packed form is q4_k's. Per output: acc[L] = fma(d*dy, s[L], acc[L]); minima in four lanes of two groups each,
am[j] = fma(-dy*dmin, p[j], am[j]); result HS-A(acc) + ((am0+am2) + (am1+am3)).
Source: ggml_vec_dot_q4_K_q8_K, ggml-cpu/arch/x86/quants.c.
"""

from __future__ import annotations

from bankml.kernels.compiler.isa import W
from bankml.kernels.compiler.native import kernel
from bankml.kernels.compiler.simd import IW
from bankml.kernels.superblocks import lanes
from bankml.kernels.superblocks.q4_k import BLOCK, BYTES, MINIMA, MINUS_OFFSET, PACKED, QUANTS, SCALES, get_rows, pack, unpack_row
from bankml.kernels.superblocks.steps import field, ld_byte_pairs, ld_bytes, minima, scale_operand

__all__ = ["BLOCK", "BYTES", "MINUS_OFFSET", "PACKED", "gemm", "gemv", "get_rows", "pack", "unpack_row"]
_TILE = 4


def _words(E, at):
    """The eight groups' words of a lane."""
    q = [E.ld(IW, at, 32 * W * p) for p in range(4)]
    return [field(E, x, bits, 0x0F) for x in q for bits in (0, 4)]


def _scales(E, w):
    return 2 * [scale_operand(E, ld_bytes(E, w, SCALES + W * g)) for g in range(8)]


def _begin(E, tile):
    """The minima of two groups each, four vectors for each column."""
    tile.set_negative(E.ld_f16(tile.w, 2 * W))
    mins = [ld_byte_pairs(E, tile.w, MINIMA + 2 * W * p) for p in range(4)]
    for c, y in enumerate(tile.ys):
        for p in range(4):
            tile.fma(tile.extra_at(c, p), tile.negative(c), minima(E, mins, y, (p,)))


def _end(E, total, extra):
    return lanes.first_nan(E, E.add(E.add(extra[0], extra[2]), E.add(extra[1], extra[3])), total)


_LAYOUT = lanes.Layout(
    name="q4_k_odd",
    quants=QUANTS,
    lane_bytes=1 * 4 * W,
    scales=_scales,
    words=_words,
    lane=lanes.lane_sums,
    extra=4,
    begin=_begin,
    end=_end,
)

_zeros, _step, _result = lanes.column(_LAYOUT)
_scratch, _clear, _begin, _lanes, _results = lanes.tiles(_LAYOUT, _TILE)


@kernel
def gemv(args, chunk, thread):
    """One activation row, packed in the thread's scratch."""
    lanes.one_row(_zeros, _step, _result, PACKED, args, chunk, thread)


@kernel
def gemm(args, chunk, thread):
    """Many activation rows; a chunk is a part of the weight rows times a part of the columns."""
    lanes.many_rows(_scratch, _clear, _begin, _lanes, _results, _TILE, _zeros, _step, _result, PACKED, args, chunk)
