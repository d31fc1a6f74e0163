# SPDX-License-Identifier: MIT OR Apache-2.0
"""Exponentials on vectors: ggml's polynomial, and the C library's expf lane by lane."""

from __future__ import annotations

from llvmlite import ir

from bankml.kernels.compiler.isa import W
from bankml.kernels.compiler.native import compiled
from bankml.kernels.compiler.simd import F32, F64, I32, I64, V, f32xw, ld_f32, mk, st_f32, vld, vst
from bankml.kernels.libm.functions import EXP2_CUBIC, EXPF_LOWEST, INVERSE_LN2, expf
from bankml.kernels.libm.tables import exp2_rows


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


def _table_lanes(E, k):
    """The table's word k % 32 for each of eight lanes, by permutes of registers."""
    ty = k.type
    index = E.b.and_(k, ir.Constant(ty, [15] * 8))
    words = [row[0] for row in exp2_rows(32)]
    quarters = [ir.Constant(ty, words[8 * i : 8 * i + 8]) for i in range(4)]
    low, high = (E.call("llvm.x86.avx512.vpermi2var.q.512", ty, [quarters[i], index, quarters[i + 1]]) for i in (0, 2))
    upper = E.b.icmp_unsigned("!=", E.b.and_(k, ir.Constant(ty, [16] * 8)), ir.Constant(ty, [0] * 8))
    return E.b.select(upper, high, low)


def emit_expf(E, x):
    """libm.expf of each lane, for arguments up to 88."""
    n = x.type.count
    if n > 8:
        return E.join(emit_expf(E, E.half(x, 0)), emit_expf(E, E.half(x, 1)))
    dl, ll = V(F64, n), V(I64, n)

    def c(value):
        return ir.Constant(dl, [value] * n)

    wide = E.b.fpext(x, dl)
    inverse, shift = c(INVERSE_LN2 * 32), c(1.5 * 2.0**52)
    shifted = E.fma(inverse, wide, shift)
    k = E.b.bitcast(shifted, ll)
    r = E.fma(inverse, wide, E.b.fneg(E.sub(shifted, shift)))
    scale = E.b.bitcast(E.b.add(_table_lanes(E, k), E.b.shl(k, ir.Constant(ll, [47] * n))), dl)
    c0, c1, c2 = (c(value / 32**power) for value, power in zip(EXP2_CUBIC, (3, 2, 1), strict=True))
    y = E.mul(E.fma(E.fma(c0, r, c1), E.mul(r, r), E.fma(c2, r, c(1.0))), scale)
    result = E.b.fptrunc(y, x.type)
    under = E.b.fcmp_ordered("<", x, ir.Constant(x.type, [float(EXPF_LOWEST)] * n))
    return E.b.select(under, ir.Constant(x.type, [0.0] * n), result)


def _swiglu(E, gate, up):
    one, zero = E.const(F32, 1.0, W), E.const(F32, 0.0, W)
    return E.mul(E.b.fdiv(gate, E.add(one, emit_vexp(E, E.sub(zero, gate)))), up)


# silu(gate) * up. Source: ggml_vec_swiglu_f32, ggml-cpu/vec.cpp.
vswiglu = mk("vswiglu", f32xw, (f32xw, f32xw), _swiglu)


_vexpf = mk("_vexpf", f32xw, (f32xw,), emit_expf) if W == 16 else None


@compiled("void(intp, intp)")
def expf_row(x, n):
    """x[i] = libm.expf(x[i]) for arguments up to 88; the buffer is padded to whole vectors."""
    if W == 16:
        for i in range(0, n, 16):
            vst(x + 4 * i, _vexpf(vld(x + 4 * i)))
    else:
        for i in range(n):
            st_f32(x, i, expf(ld_f32(x, i)))
