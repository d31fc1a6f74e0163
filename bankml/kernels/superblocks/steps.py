# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the super-block types (256 weights, q8_K activations) share: integer dots, scales of six bits, sums of minima.

Weights are held as words of four quants of one row: word (g, L) of a super-block holds elements 32g+4L .. 32g+4L+3, which is lane
L of the reference's vectors in its group g. All sums are exact integers; nothing saturates.
"""

from __future__ import annotations

from bankml.kernels.activations.quantize_k import SUMS32
from bankml.kernels.compiler.isa import VNNI, W
from bankml.kernels.compiler.native import compiled
from bankml.kernels.compiler.simd import ADDR, F32, I8, I16, I32, V, f32xw, ld_u8, mk, tup

BLOCK = 256


def zero(E):
    """W zeros, int32."""
    return E.const(I32, 0, W)


def byte_mask(E, byte):
    """The byte in all bytes of W words."""
    word = byte * 0x01010101
    return E.const(I32, word - (1 << 32) if word >> 31 else word, W)


def shift(E, a, bits):
    """Logical shift of each word: right where bits is positive, left where negative."""
    if bits == 0:
        return a
    return E.b.lshr(a, E.const(I32, bits, W)) if bits > 0 else E.b.shl(a, E.const(I32, -bits, W))


def field(E, a, bits, byte):
    """The bits of `byte` in each byte of a, after a shift by `bits` (see shift)."""
    return E.b.and_(shift(E, a, bits), byte_mask(E, byte))


def add_pairs(E, total, a, b):
    """total + the two int16 products of each word."""
    words = V(I16, 2 * W)
    a, b = E.b.bitcast(a, words), E.b.bitcast(b, words)
    if VNNI:
        return E.call(f"llvm.x86.avx512.vpdpwssd.{32 * W}", total.type, [total, a, b])
    return E.b.add(total, E.call("llvm.x86.avx2.pmadd.wd", V(I32, W), [a, b]))


def pairs_u8s8(E, u, s):
    """int16 sums of two u8*s8 products."""
    name = "llvm.x86.avx512.pmaddubs.w.512" if W == 16 else "llvm.x86.avx2.pmadd.ub.sw"
    bytes_ = V(I8, 4 * W)
    return E.call(name, V(I16, 2 * W), [E.b.bitcast(u, bytes_), E.b.bitcast(s, bytes_)])


def ld_bytes(E, address, offset, *, signed=False):
    """W bytes, one a word."""
    v = E.ld(V(I8, W), address, offset)
    return E.b.sext(v, V(I32, W)) if signed else E.b.zext(v, V(I32, W))


def ld_byte_pairs(E, address, offset, *, signed=False):
    """2W bytes, two a word, as int16."""
    v = E.ld(V(I8, 2 * W), address, offset)
    return E.b.bitcast(E.b.sext(v, V(I16, 2 * W)) if signed else E.b.zext(v, V(I16, 2 * W)), V(I32, W))


def scale_operand(E, scale):
    """A scale as `add_scaled` wants it: int16, with VNNI in the low half alone, else in both halves."""
    low = E.b.and_(scale, E.const(I32, 0xFFFF, W))
    return low if VNNI else E.b.or_(low, E.b.shl(scale, E.const(I32, 16, W)))


def add_scaled(E, total, u, y, scale, offset=None):
    """total + scale * (the four u8*s8 products of each word, plus `offset`, the row's C word where weights have an offset).

    The dot with its offset must fit 16 bits. `scale` comes from scale_operand; y and offset are words in every lane.
    """
    if VNNI:
        return add_pairs(E, total, E.dot_u8s8(zero(E) if offset is None else offset, u, y), scale)
    two = pairs_u8s8(E, u, y)
    if offset is not None:
        two = E.b.add(two, E.b.bitcast(offset, V(I16, 2 * W)))
    return add_pairs(E, total, two, scale)


def scale_of_pair(E, pair, half):
    """One of two int16 scales as add_scaled wants it."""
    if VNNI:
        return shift(E, pair, 16) if half else E.b.and_(pair, E.const(I32, 0xFFFF, W))
    return E.b.bitcast(twice(E, pair, half), V(I32, W))


def twice(E, pair, half):
    """One of two int16 in both halves of each word, as int16."""
    words = E.b.bitcast(pair, V(I16, 2 * W))
    return E.shuffle(words, words, [i // 2 * 2 + half for i in range(2 * W)])


def pair_sums(E, pair, y, at):
    """The sum of a pair of int16 of each weight row times the pair at y + at."""
    return add_pairs(E, zero(E), pair, E.splat_ld(I32, y, at))


def minima(E, mins, y, pairs=range(4)):
    """Sum over the pairs of two groups: minimum times the sum of the row's 32 quants. `mins[p]` holds the pair as two int16."""
    total = zero(E)
    for p in pairs:
        total = add_pairs(E, total, mins[p], E.splat_ld(I32, y, SUMS32 + 4 * p))
    return total


def columns_of(E, y, stride, columns):
    """Addresses of `columns` rows from y on."""
    return [E.b.add(y, E.b.mul(stride, E.i64(c))) for c in range(columns)]


def separate(E):
    """Start a part of a step: no load moves across. LLVM's scheduler would unpack the words of all parts first and spill them."""
    E.b.fence("seq_cst", targetscope="singlethread")


def zeros(name, count):
    """An intrinsic that gives `count` vectors of zeros."""
    state = tup(f32xw, count)
    return mk(f"{name}_zeros{count}", state, (ADDR,), lambda E, _: E.tup([E.const(F32, 0.0, W)] * count))


@compiled("uint8(intp, intp)")
def scale_6bit(scales, g):
    """Scale g of the twelve bytes that hold eight scales and eight minima of six bits.

    Source: get_scale_min_k4, ggml-quants.c.
    """
    if g < 4:
        return ld_u8(scales, g) & 63
    return (ld_u8(scales, g + 4) & 15) | (ld_u8(scales, g - 4) >> 6 << 4)


@compiled("uint8(intp, intp)")
def minimum_6bit(scales, g):
    """Minimum g of the same twelve bytes."""
    if g < 4:
        return ld_u8(scales, g + 4) & 63
    return (ld_u8(scales, g + 4) >> 4) | (ld_u8(scales, g) >> 6 << 4)
