# SPDX-License-Identifier: MIT OR Apache-2.0
"""Activation rows as q8_K, which the super-block types (256 weights) read.

A packed row is one record of RECORD bytes for each 256 values, so that a kernel needs one address a column:

* Q: ``int8 q[256]``;
* C: 64 words, one for each four quants; with VNNI ``int32``, minus the weights' offset times the sum of the four quants; else
  two ``int16``, the same for the first and the last two of them. Not written where the offset is 0;
* SUMS16: ``int16[16]``, the sum of each 16 quants; SUMS32: ``int16[8]``, the sum of each 32;
* D: ``float``, the scale;
* D4: ``float``, WILD: ``int32``. A block with NaN or infinities is wild; where the offset is 0, its C holds the 256 quants and D4
  the scale that it has in the reference when four rows are quantized at a time: quantize_by_fours.py.

After the last record ``int32`` says whether a block is wild.

Of a block of zeros the reference leaves the sums as they were; here they are 0. Its scale is 0, so no result shows it.

Source: quantize_row_q8_K_ref, ggml-quants.c, compiled without FMA.
"""

from __future__ import annotations

import numpy as np

from bankml.kernels.activations.quantize_by_fours import quantize_by_fours
from bankml.kernels.compiler import types
from bankml.kernels.compiler.isa import VNNI
from bankml.kernels.compiler.native import compiled
from bankml.kernels.compiler.simd import ADDR, F32, I8, I16, I32, V, copy4, ld_f32, ld_i8, ld_i32, mk, st_f32, st_i8, st_i32, tup

BLOCK = 256
Q, C, SUMS16, SUMS32, D, D4, WILD = 0, 256, 512, 544, 560, 564, 568
RECORD = 576


def row_bytes(k: int) -> int:
    """Bytes of a packed row of k values, whole cache lines, plus one against 4K aliasing."""
    return k // BLOCK * RECORD + 64


def _reduce(E, v):
    for step in (8, 4, 2, 1):
        other = E.shuffle(v, v, [(i + step) & 15 for i in range(16)])
        v = E.b.select(E.b.fcmp_ordered(">", v, other), v, other)
    return E.lane(v, 0)


def _sixteen(E, x, scale, minus_offset, q, c, sum16):
    """Quantize 16 values: round by adding 1.5 * 2^23, keep the low byte of what is at most 127; their sums."""
    product = E.mul(E.ld(V(F32, 16), x), E.splat(scale, 16))
    bits = E.b.bitcast(E.add(product, E.const(F32, 12582912.0, 16)), V(I32, 16))
    value = E.b.sub(E.b.and_(bits, E.const(I32, 0x007FFFFF, 16)), E.const(I32, 0x00400000, 16))
    limit = E.const(I32, 127, 16)
    quants = E.b.trunc(E.b.select(E.b.icmp_signed("<", value, limit), value, limit), V(I8, 16))
    E.st(quants, q)
    wide = E.b.sext(quants, V(I32, 16))
    two = E.b.add(wide, E.shuffle(wide, wide, [i ^ 1 for i in range(16)]))
    four = E.b.add(two, E.shuffle(two, two, [i ^ 2 for i in range(16)]))
    factor = E.b.trunc(minus_offset, I32)
    if VNNI:
        E.st(E.b.mul(E.shuffle(four, four, [0, 4, 8, 12]), E.splat(factor, 4)), c)
    else:
        E.st(E.b.trunc(E.b.mul(E.shuffle(two, two, range(0, 16, 2)), E.splat(factor, 8)), V(I16, 8)), c)
    eight = E.b.add(four, E.shuffle(four, four, [i ^ 4 for i in range(16)]))
    total = E.b.add(E.lane(eight, 0), E.lane(eight, 8))
    E.st(E.b.trunc(total, I16), sum16)


_pair = tup(types.float32, 2)


def _range(E, x, to):
    """The largest of x and of -x over 256 values, each at least 0; NaN is passed over. At `to`: whether any is not finite."""
    top = low = E.const(F32, 0.0, 16)
    wild = E.const(I32, 0, 16)
    for i in range(16):
        v = E.ld(V(F32, 16), x, 64 * i)
        # Of NaN and infinities it is NaN, of all else 0.
        wild = E.b.or_(wild, E.b.bitcast(E.sub(v, v), V(I32, 16)))
        negative = E.b.fneg(v)
        top = E.b.select(E.b.fcmp_ordered(">", v, top), v, top)
        low = E.b.select(E.b.fcmp_ordered(">", negative, low), negative, low)
    any_wild = E.b.icmp_signed("!=", wild, E.const(I32, 0, 16))
    E.st(E.b.zext(E.b.icmp_signed("!=", E.b.bitcast(any_wild, I16), E.const(I16, 0)), I32), to)
    return E.tup([_reduce(E, top), _reduce(E, low)])


_extent = mk("_q8k_extent", _pair, (ADDR, ADDR), _range)
_q16 = mk("_q8k_16", types.void, (ADDR, types.float32, ADDR, ADDR, ADDR, ADDR), _sixteen)


def _by_32(E, record):
    """Sums of 32 from the sums of 16."""
    sums = E.ld(V(I16, 16), record, SUMS16)
    E.st(E.b.add(E.shuffle(sums, sums, range(0, 16, 2)), E.shuffle(sums, sums, range(1, 16, 2))), record, SUMS32)


_sums32 = mk("_q8k_sums32", types.void, (ADDR,), _by_32)


@compiled("void(intp, intp, intp, intp)")
def quantize_row(x, k, packed, minus_offset):
    """Quantize k floats at x into records; `minus_offset` is minus the weights' offset (0, -4, -128)."""
    any_wild = 0
    for b in range(k // 256):
        at, record = x + 1024 * b, packed + 576 * b
        top, low = _extent(at, record + 568)
        largest = top
        if low > top:
            largest = -low
        elif low == top:
            i = 0
            while abs(ld_f32(at, i)) != top:
                i += 1
                if i == 256:
                    break
            if i < 256:
                largest = ld_f32(at, i)
        scale = np.float32(0.0)
        if largest != 0:
            scale = np.float32(-127.0) / largest
        for j in range(16):
            _q16(at + 64 * j, scale, minus_offset, record + 16 * j, record + 256 + 16 * j, record + 512 + 2 * j)
        _sums32(record)
        st_f32(record + 560, 0, np.float32(1.0) / scale if largest != 0 else np.float32(0.0))
        if ld_i32(record + 568, 0) != 0:
            any_wild = 1
            if minus_offset == 0:
                quantize_by_fours(at, record + 256, record + 564)
    st_i32(packed + k // 256 * 576, 0, any_wild)


@compiled("intp(intp, intp)")
def is_wild(row, blocks):
    """Whether a packed row of blocks has NaN or infinities."""
    return ld_i32(row + 576 * blocks, 0) != 0


@compiled("void(intp, intp, intp)")
def by_fours(record, stride, to):
    """Copy the records of one block of four rows, with what the reference quantizes otherwise four rows at a time."""
    for c in range(4):
        source, target = record + c * stride, to + 576 * c
        for i in range(144):
            copy4(target + 4 * i, source + 4 * i)
        if ld_i32(source + 568, 0) != 0:
            for i in range(64):
                copy4(target + 4 * i, source + 256 + 4 * i)
            copy4(target + 560, source + 564)
            for i in range(16):
                total = 0
                for e in range(16):
                    total += ld_i8(target + 16 * i, e)
                st_i8(target + 512, 2 * i, total & 255)
                st_i8(target + 512, 2 * i + 1, total >> 8)
            _sums32(target)
