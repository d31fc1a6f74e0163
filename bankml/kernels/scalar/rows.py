# SPDX-License-Identifier: MIT OR Apache-2.0
"""RMS norm and SwiGLU.

Source: ggml_compute_forward_rms_norm_f32, ggml-cpu/ops.cpp; ggml_vec_swiglu_f32, ggml-cpu/vec.cpp; ggml_v_expf, vec.h.
"""

from __future__ import annotations

import numpy as np

from .arithmetic import F32, expf, fma

_hex = float.fromhex


@np.errstate(all="ignore")
def rms_norm(x, epsilon, weight):
    """Squares in float32, their sum in order in float64; scaled, then weighted."""
    total = np.float64(0)
    for value in x:
        total += np.float64(value * value)
    mean = F32(total / np.float64(len(x)))
    scale = F32(1) / np.sqrt(mean + F32(epsilon))
    return (x * scale) * weight


@np.errstate(all="ignore")
def vector_exp(x):
    """ggml's exponential on vectors: 2^n times a polynomial of what is left of x."""
    x = np.asarray(x, F32)
    shift = F32(_hex("0x1.8p23"))
    z = fma(x, F32(_hex("0x1.715476p+0")), shift)
    n = z - shift
    b = fma(-n, F32(_hex("0x1.7f7d1cp-20")), fma(-n, F32(_hex("0x1.62e4p-1")), x))
    e = z.view(np.uint32) << np.uint32(23)
    k = (e + np.uint32(0x3F800000)).view(F32)
    u = b * b
    low = fma(F32(_hex("0x1.0e4020p-7")), b, F32(_hex("0x1.573e2ep-5")))
    high = fma(F32(_hex("0x1.555e66p-3")), b, F32(_hex("0x1.fffdb6p-2")))
    j = fma(fma(low, u, high), u, F32(_hex("0x1.ffffecp-1")) * b)
    # Past |n| = 126 the power of two does not fit one float and is applied in two steps.
    g = np.where(n <= 0, np.uint32(0x82000000), np.uint32(0))
    s1 = (g + np.uint32(0x7F000000)).view(F32)
    s2 = (e - g).view(F32)
    far = np.where(np.abs(n) > 192, s1 * s1, fma(s2, j, s2) * s1)
    return np.where(np.abs(n) > 126, far, fma(j, k, k)).astype(F32)


@np.errstate(all="ignore")
def swiglu(gate, up):
    """silu(gate) * up; the last n % 8 values take the C library's exponential."""
    whole = len(gate) // 8 * 8
    powers = np.concatenate([vector_exp(F32(0) - gate[:whole]), np.array([expf(-g) for g in gate[whole:]], F32)])
    return (gate / (F32(1) + powers)) * up
