# SPDX-License-Identifier: MIT OR Apache-2.0
"""A block with NaN or infinities as the reference quantizes four rows to q8_K at a time, for its repacked Q4_K.

Of finite values both of its quantizers make the same products. Of a block with others this one keeps other largest magnitudes:
x86's maximum is the second operand where one is NaN, so that a NaN hides what came before it in its lane.

Source: ggml_quantize_mat_q8_K_4x8, ggml-cpu/arch/x86/repack.cpp (AVX2 branch).
"""

from __future__ import annotations

from math import isnan

import numpy as np
from llvmlite import ir

from bankml.kernels.compiler import types
from bankml.kernels.compiler.native import compiled
from bankml.kernels.compiler.simd import ADDR, F32, I8, I32, V, bits32, float32, ld_f32, mk, st_f32, stack_array


def _sixteen(E, x, scale, q):
    """Quantize 16 values; what has no integer is -128."""
    halves = []
    for i in range(2):
        product = E.mul(E.ld(V(F32, 8), x, 32 * i), E.splat(scale, 8))
        halves.append(E.call("llvm.x86.avx.cvt.ps2dq.256", V(I32, 8), [product]))
    quants = E.join(*halves)
    for predicate, limit in (("<", 127), (">", -128)):
        bound = ir.Constant(V(I32, 16), [limit] * 16)
        quants = E.b.select(E.b.icmp_signed(predicate, quants, bound), quants, bound)
    E.st(E.b.trunc(quants, V(I8, 16)), q)


_quants = mk("_by_fours_16", types.void, (ADDR, types.float32, ADDR), _sixteen)

_stack_eight = stack_array(8)


@compiled
def _larger(a, b):
    return a if a > b else b


@compiled
def _of_two(largest, lane):
    return _larger(float32(largest[lane + 4]), float32(largest[lane]))


@compiled("void(intp, intp, intp)")
def quantize_by_fours(x, q, d):
    """Quantize 256 floats at x: int8 q[256], and the scale at d."""
    # The bits of each lane's largest magnitude, and whether it stands there with a positive sign.
    largest, positive = _stack_eight(0), _stack_eight(0)
    for lane in range(8):
        top = abs(ld_f32(x, lane))
        for part in range(8):
            before = top
            for i in range(4 * part, 4 * part + 4):
                if i > 0:
                    top = _larger(top, abs(ld_f32(x, 8 * i + lane)))
            if before != top:
                positive[lane] = 0
            for i in range(4 * part, 4 * part + 4):
                if top == ld_f32(x, 8 * i + lane):
                    positive[lane] = 1
        largest[lane] = bits32(top)
    top = _larger(
        _larger(_of_two(largest, 0), _of_two(largest, 2)),
        _larger(_of_two(largest, 1), _of_two(largest, 3)),
    )
    scale, inverse = np.float32(0.0), np.float32(0.0)
    if top != 0:
        scale = np.float32(127.0) / top
        for lane in range(8):
            if positive[lane] and float32(largest[lane]) == top:
                scale = np.float32(-127.0) / top
                break
        inverse = scale if isnan(scale) else np.float32(1.0) / scale
    for i in range(16):
        _quants(x + 64 * i, scale, q + 16 * i)
    st_f32(d, 0, inverse)
