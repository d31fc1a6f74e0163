# SPDX-License-Identifier: MIT OR Apache-2.0
"""How the grid types IQ1, IQ2 and IQ3 are packed: each weight as a code of its own of two, three or four bits.

A file's block has indices into a grid; looking eight of them up for each 64 weights is what bounds the reference. Packing looks
them up once. A code is the place of the weight's value among a few, with its sign. It costs memory: see docs/kernels.md.

Packed group of W rows, per block: ``half d[W], byte small[n][W], free up to 4 bytes a row, byte codes[8 lanes][bits][W][4]``. The
small bytes hold scales as codes of four bits, (s-1)/2 of groups 2p and 2p+1 or of the halves of each group, and IQ1's shifts.
A lane's words hold groups of 32 weights: with two bits words 0 and 1 hold four each, with four bits each word two; with three
bits word i holds 2i and 2i+1 in its low six bits, and groups 6 and 7 lie in the upper two bits of the three.
"""

from __future__ import annotations

from bankml.kernels.compiler.isa import W
from bankml.kernels.compiler.native import compiled
from bankml.kernels.compiler.simd import I32, IW, ld_u8, st_i8
from bankml.kernels.superblocks.steps import field, ld_bytes, scale_of_pair


@compiled
def codes_at(small):
    """Where a packed block's codes begin, from the number of small bytes of a row."""
    return (2 + small + 3) // 4 * 4 * W


def packed_bytes(small, bits):
    """Bytes of a packed block."""
    return codes_at(small) + 32 * bits * W


# --- emitters
def group_codes(E, at, bits, group, up=0):
    """A lane's codes in one group, a byte each, shifted `up`; `at` is the address of the lane's words."""
    mask = (1 << bits) - 1 << up
    if bits != 3:
        each = 8 // bits
        return field(E, _word(E, at, group // each), bits * (group % each) - up, mask)
    if group < 6:
        return field(E, _word(E, at, group // 2), 3 * (group % 2) - up, mask)
    low = field(E, _word(E, at, group - 6), 6 - up, 3 << up)
    return E.b.or_(low, field(E, _word(E, at, 2), group - 2 - up, 4 << up))


def _word(E, at, i):
    return E.ld(IW, at, 4 * W * i)


def lane_address(E, w, small, bits, lane):
    """Address of a lane's words."""
    return E.b.add(w, E.i64(codes_at(small) + lane * bits * 4 * W))


def small_pairs(E, w, p):
    """Small byte p: its low four bits at bit 0 of a word, its upper four at bit 16; other bits are not cleared."""
    byte = ld_bytes(E, w, 2 * W + W * p)
    return E.b.or_(byte, E.b.shl(byte, E.const(I32, 12, W)))


def scale_pairs(E, w, count, mask=0x000F000F):
    """`count` pairs of scales as int16: 2*code + 1, the code being what `mask` leaves of each four bits."""
    out = []
    for p in range(count):
        both = E.b.and_(small_pairs(E, w, p), E.const(I32, mask, W))
        out.append(E.b.add(E.b.add(both, both), E.const(I32, 0x00010001, W)))
    return out


def lane_scales(E, pairs):
    """The scales that lanes.Layout wants, from the pairs of groups, or of halves of groups."""
    if len(pairs) == 4:
        return [scale_of_pair(E, pair, half) for pair in pairs for half in (0, 1)]
    return [scale_of_pair(E, pair, half) for half in (0, 1) for pair in pairs]


# --- packed memory, one weight at a time
@compiled
def _put_codes(codes, bits, at, i):
    """256 codes of row i."""
    for lane in range(8):
        for e in range(4):
            for word in range(bits):
                byte = 0
                if bits == 3:
                    byte = codes[64 * word + 4 * lane + e] | codes[64 * word + 32 + 4 * lane + e] << 3
                    six, seven = codes[192 + 4 * lane + e], codes[224 + 4 * lane + e]
                    byte |= (six & 3, seven & 3, six >> 2 | seven >> 2 << 1)[word] << 6
                else:
                    for n in range(8 // bits):
                        byte |= codes[32 * (8 // bits * word + n) + 4 * lane + e] << bits * n
                st_i8(at + ((bits * lane + word) * W + i) * 4, e, byte)


@compiled
def code_of(block, small, bits, i, e):
    """The code of weight e of row i."""
    g = e // 32
    at = block + codes_at(small) + (bits * (e % 32 // 4) * W + i) * 4 + e % 4
    if bits != 3:
        each = 8 // bits
        return ld_u8(at + 4 * W * (g // each), 0) >> bits * (g % each) & (1 << bits) - 1
    if g < 6:
        return ld_u8(at + 4 * W * (g // 2), 0) >> 3 * (g % 2) & 7
    return ld_u8(at + 4 * W * (g - 6), 0) >> 6 | (ld_u8(at + 8 * W, 0) >> g & 1) << 2


@compiled
def scale_of(block, i, n):
    """Scale n of row i."""
    return 2 * (ld_u8(block + 2 * W + n // 2 * W, i) >> 4 * (n % 2) & 15) + 1


@compiled
def take_entry(places, codes, n):
    """The places of a grid entry."""
    for j in range(len(places)):
        codes[n + j] = places[j]


@compiled
def put_scale(small, n, code):
    """Scale n of a block, as a code of four bits."""
    small[n // 2] = small[n // 2] & 15 | code << 4 if n % 2 else code


@compiled
def put_block(block, i, d, small, count, codes, bits):
    """Row i of a packed block: the bits of its half d, `count` small bytes, 256 codes."""
    st_i8(block, 2 * i, d & 255)
    st_i8(block, 2 * i + 1, d >> 8)
    for n in range(count):
        st_i8(block + 2 * W + n * W, i, small[n])
    _put_codes(codes, bits, block + codes_at(count), i)
