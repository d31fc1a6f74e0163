# SPDX-License-Identifier: MIT OR Apache-2.0
"""Four-bit weights, two orders of sums, and what their types share: packing, unpacking, dot products of one block.

Packed group of W rows, per block: the scale words of W rows, then ``byte q[4][W][4]``: word j of a row holds elements 4j..4j+3 in
its low nibbles and 16+4j..19+4j in its high nibbles, as in the file.

``total_block``: the reference's repacked kernels, used when rows % 8 == 0: acc = fma(dot of 32, d*dy, acc), one accumulator.
``lanes_block``: its vec_dot and tinyBLAS: eight accumulators, acc[L] = fma(d*dy, dot of 4, acc[L]), then HS-A.
The reference multiplies |w| by y with w's sign, negated in 8 bits: -128 stays -128 there. A row with such a quant (NaN and
infinities give it) is multiplied that way too, by the ``careful`` functions; all other rows by exact sums. Where the reference
takes four rows at a time, it multiplies |y| by w with y's sign, which is exact. Where both scales of a product are NaN, these
functions keep the one that is the compiled reference's first operand.
Source: gemv_q4_b32_8x8_q8_0_lut_avx and its gemm, arch/x86/repack.cpp; arch/x86/quants.c; llamafile/sgemm.cpp.
"""

from __future__ import annotations

from llvmlite import ir

from bankml.kernels.compiler.isa import VNNI, W
from bankml.kernels.compiler.native import compiled
from bankml.kernels.compiler.simd import F32, I8, I16, I32, IW, Emit, V, copy4

_LOW = 0x0F0F0F0F


def splat_bytes(value):
    """A vector of W words whose every byte is `value`."""
    word = value * 0x01010101
    return ir.Constant(IW, [word - (1 << 32) if word >= 1 << 31 else word] * W)


def look_up(E, indices, table):
    """Bytes table[index]; indices below 16, in a vector of words."""
    lanes = V(I8, 4 * W)
    name = "llvm.x86.avx512.pshuf.b.512" if W == 16 else "llvm.x86.avx2.pshuf.b"
    values = ir.Constant(lanes, [v - 256 if v > 127 else v for v in table] * (W // 4))
    return E.b.bitcast(E.call(name, lanes, [values, E.b.bitcast(indices, lanes)]), IW)


def nibble_words(E, w, offset):
    """(lane, nibbles of that lane as bytes) in the order of memory."""
    for j in range(4):
        q = E.ld(IW, w, offset + 4 * W * j)
        yield j, E.b.and_(q, ir.Constant(IW, [_LOW] * W))
        yield j + 4, E.b.and_(E.b.lshr(q, E.const(I32, 4, W)), ir.Constant(IW, [_LOW] * W))


def _word(E, y, lane):
    return E.splat_ld(I32, y, 4 * lane)


def unsigned_totals(E, words, ys, xs, largest):
    """Whole-block dot products of unsigned bytes up to `largest`, started at the word at xs."""
    sums = [E.splat_ld(I32, x) for x in xs]
    if VNNI:
        for lane, u in words:
            sums = [E.dot_u8s8(s, u, _word(E, y, lane)) for s, y in zip(sums, ys, strict=True)]
        return sums
    # Pairs may be summed in 16 bits as long as `room` of them stay below 32768.
    room = 32767 // (largest * 256)
    halves, ones = [None] * len(ys), ir.Constant(V(I16, 16), [1] * 16)
    for number, (lane, u) in enumerate(words):
        for c, y in enumerate(ys):
            pair = _pairs16(E, u, _word(E, y, lane))
            halves[c] = pair if halves[c] is None else E.b.add(halves[c], pair)
        if (number + 1) % room == 0 or number == 7:
            for c, half in enumerate(halves):
                sums[c] = E.b.add(sums[c], E.call("llvm.x86.avx2.pmadd.wd", V(I32, 8), [half, ones]))
            halves = [None] * len(ys)
    return sums


def _pairs16(E, u, s):
    lanes = V(I8, 32)
    return E.call("llvm.x86.avx2.pmadd.ub.sw", V(I16, 16), [E.b.bitcast(u, lanes), E.b.bitcast(s, lanes)])


def signed_totals(E, words, ys):
    """Whole-block dot products of signed bytes, as the reference multiplies."""
    sums = [E.const(I32, 0, W)] * len(ys)
    for lane, w in words:
        for c, y in enumerate(ys):
            sums[c] = E.b.add(sums[c], signed_dot(E, w, _word(E, y, lane), None, lane))
    return sums


def exact_totals(E, words, ys):
    """Whole-block dot products of signed bytes without loss: on AVX2, |y| times w with y's sign."""
    sums = [E.const(I32, 0, W)] * len(ys)
    for lane, w in words:
        for c, y in enumerate(ys):
            word = _word(E, y, lane)
            sums[c] = E.b.add(sums[c], E.dot_s8s8(word, w))
    return sums


def less(E, words, offset):
    """Words of bytes with an offset taken off again: signed weights."""
    lanes = V(I8, 4 * W)
    taken = ir.Constant(lanes, [offset] * 4 * W)
    return ((lane, E.b.bitcast(E.b.sub(E.b.bitcast(u, lanes), taken), IW)) for lane, u in words)


def weight_first(E, d, dy):
    """d*dy, and d where both are NaN."""
    return E.first(d, E.mul(d, dy))


def row_first(E, d, dy):
    """d*dy, and dy where both are NaN."""
    return E.first(dy, E.mul(d, dy))


def total_block(scale, totals, times=Emit.mul):
    """A block step with one accumulator a column.

    `scale(E, w)` gives W scales, `totals(E, w, ys, xs)` the dot products, `times(E, d, dy)` multiplies two scales.
    """

    def block(E, accs, w, ys, ds, xs):
        d = scale(E, w)
        sums = totals(E, w, ys, xs)
        return [[E.fma(E.i2f(s), times(E, d, E.splat_ld(F32, at)), acc[0])] for s, at, acc in zip(sums, ds, accs, strict=True)]

    return block


def lane_dots(E, scale, words, dot, accs, ys, ds, xs, times=Emit.mul):
    """Eight accumulators a column: acc[lane] = fma(scale*dy, dot(u, y word, x word), acc[lane]); `times` makes scale*dy."""
    scales = [times(E, scale, E.splat_ld(F32, at)) for at in ds]
    accs = [list(acc) for acc in accs]
    for lane, u in words:
        for c, y in enumerate(ys):
            value = dot(E, u, _word(E, y, lane), xs[c], lane)
            accs[c][lane] = E.fma(scales[c], E.i2f(value), accs[c][lane])
    return accs


def offset_dot(E, u, word, x, lane):
    """u*y from the row's own correction on: weights stored with an offset."""
    return E.dot_u8s8(E.splat_ld(I32, x, 4 * lane), u, word)


def plain_dot(E, u, word, x, lane):
    """u*y of unsigned weights."""
    return E.dot_u8s8(E.const(I32, 0, W), u, word)


def signed_dot(E, w, word, x, lane):
    """|w| times y with w's sign, the negation in 8 bits."""
    if not VNNI:
        return E.dot_s8s8(w, word)
    lanes = V(I8, 4 * W)
    w, y, zero = E.b.bitcast(w, lanes), E.b.bitcast(word, lanes), ir.Constant(lanes, [0] * 4 * W)
    negative = E.b.icmp_signed("<", w, zero)
    magnitude = E.b.select(negative, E.b.sub(zero, w), w)
    return E.dot_u8s8(E.const(I32, 0, W), magnitude, E.b.select(negative, E.b.sub(zero, y), y))


def hsum(E, vectors):
    """HS-A of a column's eight accumulators."""
    return E.hsum_a(vectors[:8])


def only(E, vectors):
    """A column's one accumulator."""
    return vectors[0]


@compiled("void(intp, intp, intp)")
def pack_nibbles(source, packed, i):
    """Spread the 16 bytes at source over row i of a packed group."""
    for j in range(4):
        copy4(packed + (j * W + i) * 4, source + 4 * j)
