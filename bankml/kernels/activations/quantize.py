# SPDX-License-Identifier: MIT OR Apache-2.0
"""Activation rows as the products read them: q8_0 and q8_1, quantized as the reference's AVX2 code does.

A packed row of k values, nb = k/32 blocks, starts at any address and is laid out as
``int8 q[k] | float32 d[nb] | float32 s[nb] | int32 c[8*nb] | int32 t[nb] | int32 wild``: the quants; the scale as it reads after
its rounding to half; q8_1's scaled sum after its rounding to half; for weights stored with an offset, minus that offset times the
sum of each four quants (lane L of a block holds elements 4L..4L+3), and of the whole block; and whether a quant is -128, which
only NaN and infinities give, or a scale infinite or NaN. The reference negates quants in 8 bits, where -128 is its own negative;
see nibbles.py.

Source: quantize_row_q8_0, quantize_row_q8_1, ggml-cpu/arch/x86/quants.c (AVX2 branch).
"""

from __future__ import annotations

from llvmlite import ir

from bankml.kernels.compiler import types
from bankml.kernels.compiler.native import compiled
from bankml.kernels.compiler.simd import ADDR, F16, F32, I8, I16, I32, V, mk, st_i32

BLOCK = 32


def row_bytes(k: int) -> int:
    """Bytes of a packed row of k values, rounded up to a cache line, plus one against 4K aliasing."""
    blocks = k // BLOCK
    return (k + blocks * 8 + blocks * 32 + blocks * 4 + 4 + 63) // 64 * 64 + 64


def _max(E, a, b):
    """x86's maxps: b where either is NaN."""
    return E.b.select(E.b.fcmp_ordered(">", a, b), a, b)


def _quants(E, x):
    """One block: (largest magnitude, four vectors of eight int32 quants)."""
    values = [E.ld(V(F32, 8), x, 32 * i) for i in range(4)]
    top = E.fabs(values[0])
    for v in values[1:]:
        top = _max(E, top, E.fabs(v))
    top4 = _max(E, E.half(top, 1), E.half(top, 0))
    top4 = _max(E, top4, E.shuffle(top4, top4, [2, 3, 2, 3]))
    amax = _max(E, E.lane(top4, 0), E.lane(top4, 1))
    zero, full = E.const(F32, 0.0), E.const(F32, 127.0)
    inverse = E.b.select(E.b.fcmp_unordered("!=", amax, zero), E.b.fdiv(full, amax), zero)
    scale = E.splat(inverse, 8)
    quants = [E.call("llvm.x86.avx.cvt.ps2dq.256", V(I32, 8), [E.mul(v, scale)]) for v in values]
    return amax, quants


def _pack(E, quants):
    """Four vectors of int32 to 32 int8 in order, saturating."""
    a = E.call("llvm.x86.avx2.packssdw", V(I16, 16), quants[:2])
    b = E.call("llvm.x86.avx2.packssdw", V(I16, 16), quants[2:])
    bytes_ = E.call("llvm.x86.avx2.packsswb", V(I8, 32), [a, b])
    words = E.b.bitcast(bytes_, V(I32, 8))
    return E.shuffle(words, words, [0, 4, 1, 5, 2, 6, 3, 7])


def _halved(E, value):
    """Rounded to half, as it reads afterwards; of a NaN only the sign is left, as in GGML_COMPUTE_FP32_TO_FP16, ggml-impl.h."""
    nan = E.b.or_(E.b.and_(E.b.bitcast(value, I32), E.const(I32, -(1 << 31))), E.const(I32, 0x7FC00000))
    halved = E.b.fpext(E.b.fptrunc(value, F16), F32)
    return E.b.select(E.b.fcmp_unordered("uno", value, value), E.b.bitcast(nan, F32), halved)


def _block(E, x, q, d, s, c, t, wild, minus_offset):
    amax, quants = _quants(E, x)
    packed = _pack(E, quants)
    E.st(packed, q)
    scale = E.b.fdiv(amax, E.const(F32, 127.0))
    halved = _halved(E, scale)
    E.st(halved, d)
    total = E.b.add(E.b.add(quants[0], quants[1]), E.b.add(quants[2], quants[3]))
    for step in (4, 2, 1):
        total = E.b.add(total, E.shuffle(total, total, [(i + step) & 7 for i in range(8)]))
    E.st(_halved(E, E.mul(scale, E.b.sitofp(E.lane(total, 0), F32))), s)
    ones = ir.Constant(V(I8, 32), [1] * 32)
    words = E.call("llvm.x86.avx2.pmadd.ub.sw", V(I16, 16), [ones, E.b.bitcast(packed, V(I8, 32))])
    sums = E.call("llvm.x86.avx2.pmadd.wd", V(I32, 8), [words, ir.Constant(V(I16, 16), [1] * 16)])
    offset = E.b.trunc(minus_offset, I32)
    E.st(E.b.mul(sums, E.splat(offset, 8)), c)
    # From the bytes, not from `total`: a quant that saturated differs.
    for step in (4, 2, 1):
        sums = E.b.add(sums, E.shuffle(sums, sums, [(i + step) & 7 for i in range(8)]))
    E.st(E.b.mul(E.lane(sums, 0), offset), t)
    least = E.b.icmp_signed("==", E.b.bitcast(packed, V(I8, 32)), ir.Constant(V(I8, 32), [-128] * 32))
    endless = E.b.icmp_signed(">=", E.b.bitcast(halved, I32), E.const(I32, 0x7F800000))
    E.st(E.b.or_(E.ld(I32, wild), E.b.or_(E.b.bitcast(least, I32), E.b.zext(endless, I32))), wild)


round_f16_by_code = mk("round_f16_by_code", types.float32, (types.float32,), _halved)
_q8_block = mk("_q8_block", types.void, (ADDR,) * 8, _block)


@compiled("void(intp, intp, intp, intp)")
def quantize_row(x, k, packed, minus_offset):
    """Quantize k floats at x into a packed row; `minus_offset` is minus the weights' offset (0, -128, ...)."""
    blocks = k // 32
    d = packed + k
    s = d + 4 * blocks
    c = s + 4 * blocks
    t = c + 32 * blocks
    wild = t + 4 * blocks
    st_i32(wild, 0, 0)
    for b in range(blocks):
        _q8_block(x + 128 * b, packed + 32 * b, d + 4 * b, s + 4 * b, c + 32 * b, t + 4 * b, wild, minus_offset)
