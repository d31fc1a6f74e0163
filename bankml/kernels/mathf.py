# SPDX-License-Identifier: MIT OR Apache-2.0
"""Exponentials as the reference computes them: ggml's polynomial on vectors, the C library's on scalars.

The C library's functions are called, not rewritten: their bits are the reference's bits where the library is the same.
"""

from __future__ import annotations

import struct
from decimal import Decimal, getcontext

from llvmlite import ir
from numba import njit, types

from .isa import W
from .simd import ADDR, F32, F64, I32, I64, V, f32xw, ld_f32, mk, st_f32, vld, vst


def emit_vexp(E, x):
    """exp of each lane. Source: ggml_v_expf, ggml-cpu/vec.h (AVX2 and FMA branch; the 512-bit one gives the same lanes)."""
    n = x.type.count
    fl, il = V(F32, n), V(I32, n)

    def c(value):
        return ir.Constant(fl, [value] * n)

    def i(value):
        return ir.Constant(il, [value] * n)

    hexf = float.fromhex
    r = c(hexf("0x1.8p23"))
    z = E.fma(x, c(hexf("0x1.715476p+0")), r)
    k_n = E.sub(z, r)
    minus_n = E.b.fneg(k_n)
    b = E.fma(minus_n, c(hexf("0x1.7f7d1cp-20")), E.fma(minus_n, c(hexf("0x1.62e4p-1")), x))
    e = E.b.shl(E.b.bitcast(z, il), i(23))
    k = E.b.bitcast(E.b.add(e, i(0x3F800000)), fl)
    size = E.fabs(k_n)
    u = E.mul(b, b)
    p1 = E.fma(c(hexf("0x1.0e4020p-7")), b, c(hexf("0x1.573e2ep-5")))
    p2 = E.fma(c(hexf("0x1.555e66p-3")), b, c(hexf("0x1.fffdb6p-2")))
    j = E.fma(E.fma(p1, u, p2), u, E.mul(c(hexf("0x1.ffffecp-1")), b))
    plain = E.fma(j, k, k)
    g = E.b.select(E.b.fcmp_ordered("<=", k_n, c(0.0)), i(-0x7E000000), i(0))
    s1 = E.b.bitcast(E.b.add(g, i(0x7F000000)), fl)
    s2 = E.b.bitcast(E.b.sub(e, g), fl)
    far = E.b.select(E.b.fcmp_ordered(">", size, c(192.0)), E.mul(s1, s1), E.mul(E.fma(s2, j, s2), s1))
    return E.b.select(E.b.fcmp_ordered(">", size, c(126.0)), far, plain)


def _exp2_table():
    """2^(i/32) for i in 0..31, as float64 bits less i/32 of the exponent field."""
    getcontext().prec = 60
    step = (Decimal(2).ln() / 32).exp()
    words, value = [], Decimal(1)
    for i in range(32):
        words.append(struct.unpack("<q", struct.pack("<d", float(value)))[0] - (i << 47))
        value *= step
    return words


_TABLE = _exp2_table()


def _table_lanes(E, k):
    """The table's word k % 32 for each of eight lanes, by permutes of registers."""
    ty = k.type
    index = E.b.and_(k, ir.Constant(ty, [15] * 8))
    quarters = [ir.Constant(ty, _TABLE[8 * i : 8 * i + 8]) for i in range(4)]
    low, high = (E.call("llvm.x86.avx512.vpermi2var.q.512", ty, [quarters[i], index, quarters[i + 1]]) for i in (0, 2))
    upper = E.b.icmp_unsigned("!=", E.b.and_(k, ir.Constant(ty, [16] * 8)), ir.Constant(ty, [0] * 8))
    return E.b.select(upper, high, low)


def emit_expf(E, x):
    """The C library's expf on each lane, for arguments up to 88: equal on every float there is (see the test).

    Source: the published algorithm of glibc's expf (2^(k/32) from a table, a cubic in float64), its FMA build.
    """
    n = x.type.count
    if n > 8:
        return E.join(emit_expf(E, E.half(x, 0)), emit_expf(E, E.half(x, 1)))
    dl, ll = V(F64, n), V(I64, n)

    def c(text, divide=1):
        return ir.Constant(dl, [float.fromhex(text) / divide] * n)

    wide = E.b.fpext(x, dl)
    shift = c("0x1.8p52")
    inverse = ir.Constant(dl, [float.fromhex("0x1.71547652b82fep+0") * 32] * n)
    # The compiler fused both uses of the product x * 32/ln2.
    shifted = E.fma(inverse, wide, shift)
    k = E.b.bitcast(shifted, ll)
    r = E.fma(inverse, wide, E.b.fneg(E.sub(shifted, shift)))
    scale = E.b.bitcast(E.b.add(_table_lanes(E, k), E.b.shl(k, ir.Constant(ll, [47] * n))), dl)
    p = E.fma(c("0x1.c6af84b912394p-5", 32**3), r, c("0x1.ebfce50fac4f3p-3", 32**2))
    q = E.fma(c("0x1.62e42ff0c52d6p-1", 32), r, c("0x1p0"))
    y = E.mul(E.fma(p, E.mul(r, r), q), scale)
    result = E.b.fptrunc(y, x.type)
    under = E.b.fcmp_ordered("<", x, ir.Constant(x.type, [float.fromhex("-0x1.9fe368p6")] * n))
    return E.b.select(under, ir.Constant(x.type, [0.0] * n), result)


vexp = mk("vexp", f32xw, (f32xw,), emit_vexp)
expf = mk("expf", types.float32, (types.float32,), lambda E, x: E.call("expf", F32, [x]))
powf = mk("powf", types.float32, (types.float32, types.float32), lambda E, x, y: E.call("powf", F32, [x, y]))
logf = mk("logf", types.float32, (types.float32,), lambda E, x: E.call("logf", F32, [x]))


def _sincosf(E, x, sin_out, cos_out):
    E.call("sincosf", ir.VoidType(), [x, E.ptr(sin_out, 0, F32), E.ptr(cos_out, 0, F32)])


# Writes sin(x) and cos(x) to two addresses.
sincosf = mk("sincosf", types.void, (types.float32, ADDR, ADDR), _sincosf)


def _swiglu(E, gate, up):
    one, zero = E.const(F32, 1.0, W), E.const(F32, 0.0, W)
    return E.mul(E.b.fdiv(gate, E.add(one, emit_vexp(E, E.sub(zero, gate)))), up)


# silu(gate) * up. Source: ggml_vec_swiglu_f32, ggml-cpu/vec.cpp.
vswiglu = mk("vswiglu", f32xw, (f32xw, f32xw), _swiglu)


_vexpf = mk("_vexpf", f32xw, (f32xw,), emit_expf) if W == 16 else None


@njit("void(intp, intp)", cache=True, nogil=True, error_model="numpy")
def expf_row(x, n):
    """x[i] = expf(x[i]), the C library's bits; the buffer is padded to whole vectors."""
    if W == 16:
        for i in range(0, n, 16):
            vst(x + 4 * i, _vexpf(vld(x + 4 * i)))
    else:
        for i in range(n):
            st_f32(x, i, expf(ld_f32(x, i)))
