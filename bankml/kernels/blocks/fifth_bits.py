# SPDX-License-Identifier: MIT OR Apache-2.0
"""Five-bit weights: the nibbles of nibbles.py and a fifth bit for each.

Packed after the nibbles, in place of the file's 32 bits a row. AVX-512: ``uint64 mask[8]``: bit 4*row+e of mask[lane] belongs to
byte e of that lane. AVX2: ``byte[W][4]``: bit `lane` of byte e of a row.
"""

from __future__ import annotations

from llvmlite import ir

from bankml.kernels.blocks.nibbles import nibble_words, splat_bytes
from bankml.kernels.compiler.isa import W
from bankml.kernels.compiler.native import compiled
from bankml.kernels.compiler.simd import I1, I8, I32, I64, IW, V, ld_u8, st_i8


def five_bit_words(E, w, offset):
    """(lane, weights 0..31 as bytes); the nibbles lie at w + offset."""
    bits = offset + 16 * W
    lanes = V(I8, 4 * W)
    if W == 16:
        sixteen = ir.Constant(lanes, [16] * 4 * W)
        for lane, q in nibble_words(E, w, offset):
            mask = E.b.bitcast(E.ld(I64, w, bits + 8 * lane), V(I1, 64))
            low = E.b.bitcast(q, lanes)
            yield lane, E.b.bitcast(E.b.select(mask, E.b.or_(low, sixteen), low), IW)
        return
    high = E.ld(IW, w, bits)
    for lane, q in nibble_words(E, w, offset):
        moved = E.b.shl(high, E.const(I32, 4 - lane, W)) if lane < 4 else E.b.lshr(high, E.const(I32, lane - 4, W))
        yield lane, E.b.or_(q, E.b.and_(moved, splat_bytes(16)))


@compiled("void(intp, intp, intp)")
def pack_fifth(source, packed, i):
    """Spread the 32 bits at source over row i of a packed group."""
    for lane in range(8):
        four = (ld_u8(source, lane // 2) >> (4 * (lane % 2))) & 15
        if W == 16:
            at = packed + 8 * lane
            st_i8(at, i // 2, ld_u8(at, i // 2) | (four << (4 * (i % 2))))
        else:
            for e in range(4):
                st_i8(packed + 4 * i, e, ld_u8(packed + 4 * i, e) | (((four >> e) & 1) << lane))


@compiled("intp(intp, intp, intp)")
def fifth(packed, i, element):
    """The fifth bit, as 16, of an element of row i."""
    lane, e = element // 4, element % 4
    bit = ld_u8(packed + 8 * lane, i // 2) >> (4 * (i % 2) + e) if W == 16 else ld_u8(packed + 4 * i, e) >> lane
    return (bit & 1) << 4
