# SPDX-License-Identifier: MIT OR Apache-2.0
"""TQ2_0 weights times q8_K activations, in the order of the reference's vec_dot. TQ1_0 is packed into the same codes.

File block, 256 weights: ``byte q[64], half d``; weight = (code - 1)*d; byte m of each 32 holds elements m, m+32, m+64, m+96 of
128, two bits each, low bits first.
Packed group of W rows, per block: ``half d[W], byte q[8 lanes][2 halves][W][4]``: the words of a half hold its four groups.

Per output: acc[L] = fma(d*dy, s[L], acc[L]), result HS-A(acc), where s[L] takes codes as they are stored, and lane L then takes
off the sum of the quants 32L to 32L+31, whichever lanes those are in.
Source: ggml_vec_dot_tq2_0_q8_K, ggml-cpu/arch/x86/quants.c; the sums are contracted by the compiler.
"""

from __future__ import annotations

from llvmlite import ir

from bankml.kernels.activations.quantize_k import SUMS16
from bankml.kernels.compiler.isa import VNNI, W
from bankml.kernels.compiler.native import compiled, entry, kernel
from bankml.kernels.compiler.simd import I16, I32, IW, V, copy2, copy4, ld_f16, ld_i64, ld_u8, st_f32
from bankml.kernels.products.matmul import BLOCKS, COLUMN_PART, COLUMNS, OUT, OUT_STRIDE, WEIGHTS, Y
from bankml.kernels.superblocks import lanes
from bankml.kernels.superblocks.steps import add_pairs, field, pairs_u8s8, zero

BLOCK, BYTES = 256, 66
MINUS_OFFSET = 0
QUANTS = 2 * W
PACKED = BYTES * W
_TILE = 4
_PAIRS = V(I16, 2 * W)


def _words(E, at):
    """The two words of a lane."""
    return [E.ld(IW, at, 4 * W * half) for half in range(2)]


def _lane(E, tile, words, scales):
    """The sums of codes as they are stored, less the sum of the lane's 32 quants."""
    if not VNNI:
        return _sums_16(E, tile, words)
    totals = [add_pairs(E, zero(E), E.const(I32, -1, W), E.splat_ld(I32, tile.sums(c, SUMS16))) for c in range(tile.columns)]
    for g in range(8):
        u = field(E, words[g // 4], g % 4 * 2, 0x03)
        totals = [E.dot_u8s8(t, u, E.splat_ld(I32, tile.sums(c, 32 * g))) for c, t in enumerate(totals)]
    return totals


def _sums_16(E, tile, words):
    """The same on AVX2, in 16 bits to the end: 32 * 3 * 128 fits."""
    codes = [field(E, q, bits, 0x03) for q in words for bits in (0, 2, 4, 6)]
    ones = ir.Constant(_PAIRS, [1] * 2 * W)
    out = []
    for c in range(tile.columns):
        total = E.b.sub(ir.Constant(_PAIRS, [0] * 2 * W), E.b.bitcast(E.splat_ld(I32, tile.sums(c, SUMS16)), _PAIRS))
        for g, u in enumerate(codes):
            total = E.b.add(total, pairs_u8s8(E, u, E.splat_ld(I32, tile.sums(c, 32 * g))))
        out.append(E.call("llvm.x86.avx2.pmadd.wd", V(I32, W), [total, ones]))
    return out


_LAYOUT = lanes.Layout(name="tq2_0", quants=QUANTS, lane_bytes=8 * W, scales=lambda E, w: [], words=_words, lane=_lane)
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


@entry("void(intp, intp, intp, intp, intp, intp)")
def pack(source, packed, rows, blocks, first, last):
    """Pack groups first..last of a matrix of `rows` file rows; `packed` holds zeros before."""
    for r in range(first * W, min(rows, last * W)):
        i = r % W
        for b in range(blocks):
            src = source + (r * blocks + b) * BYTES
            dst = packed + (r // W * blocks + b) * PACKED
            copy2(dst + 2 * i, src + 64)
            for lane in range(8):
                for h in range(2):
                    copy4(dst + QUANTS + ((2 * lane + h) * W + i) * 4, src + 32 * h + 4 * lane)


@compiled("void(intp, intp, intp, intp)")
def unpack_row(packed, row, blocks, out):
    """Dequantize one row of packed weights: (code - 1)*d, rounded."""
    i = row % W
    for b in range(blocks):
        src = packed + (row // W * blocks + b) * PACKED
        d = ld_f16(src, i)
        for e in range(256):
            byte = ld_u8(src + QUANTS + ((e % 32 // 4 * 2 + e // 128) * W + i) * 4, e % 4)
            st_f32(out, 256 * b + e, ((byte >> (e // 32 % 4 * 2) & 3) - 1) * d)


@kernel
def get_rows(args, chunk, thread):
    """Dequantize the rows that `Y` (int64 row numbers) names; a chunk is a part of them."""
    packed, blocks, part = ld_i64(args, WEIGHTS), ld_i64(args, BLOCKS), ld_i64(args, COLUMN_PART)
    for j in range(chunk * part, min(ld_i64(args, COLUMNS), chunk * part + part)):
        unpack_row(packed, ld_i64(ld_i64(args, Y), j), blocks, ld_i64(args, OUT) + 4 * j * ld_i64(args, OUT_STRIDE))
