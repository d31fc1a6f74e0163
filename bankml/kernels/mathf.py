# SPDX-License-Identifier: MIT OR Apache-2.0
"""Exponentials as the reference computes them: ggml's polynomial on vectors, the C library's on scalars.

The C library's functions are called, not rewritten: their bits are the reference's bits where the library is the same.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types

from .isa import W
from .simd import ADDR, F32, I32, V, f32xw, mk


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
