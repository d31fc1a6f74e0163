# SPDX-License-Identifier: MIT OR Apache-2.0
"""Work on activation rows between the matrix products: norm, SwiGLU, and the form in which the next product reads a row.

Each comes as a *prologue* (row 0 into the calling thread's scratch) and as an operation over many rows in chunks. A row's form is
one of the ``FORM_*`` below. Buffers hold float32 rows whose strides are counted in floats; strides of formed rows in bytes.
"""

from __future__ import annotations

import numpy as np

from bankml.kernels.activations import quantize, quantize_k
from bankml.kernels.activations.quantize import quantize_row, round_f16_by_code
from bankml.kernels.activations.quantize_k import quantize_row as quantize_row_k
from bankml.kernels.compiler.isa import W
from bankml.kernels.compiler.native import compiled, kernel
from bankml.kernels.compiler.simd import ld_f32, ld_i64, round_bf16, round_f16, sqrt32, st_f32, vld, vmul, vsplat, vst
from bankml.kernels.libm.functions import expf
from bankml.kernels.libm.vectors import vswiglu

FORM_F32, FORM_F16, FORM_BF16, FORM_Q8, FORM_Q8K = range(5)

# Words of the argument block.
FIELDS = 16
(
    X,
    X_STRIDE,
    K,
    TO,
    TO_THREAD_STRIDE,
    TO_STRIDE,
    FORM,
    MINUS_OFFSET,
    ROWS,
    ROW_PART,
    WEIGHT,
    EPSILON,
    SCRATCH,
    SCRATCH_STRIDE,
    Y,
) = range(15)


def formed_bytes(form: int, k: int) -> int:
    """Bytes from one formed row of k values to the next."""
    if form == FORM_Q8:
        return quantize.row_bytes(k)
    return quantize_k.row_bytes(k) if form == FORM_Q8K else 4 * k + 64


@compiled("void(intp, intp, intp, intp, intp)")
def form_row(x, k, to, form, minus_offset):
    """Write k floats at x in the form that a product reads."""
    if form == FORM_Q8:
        quantize_row(x, k, to, minus_offset)
    elif form == FORM_Q8K:
        quantize_row_k(x, k, to, minus_offset)
    elif form == FORM_F16:
        for i in range(k // 4 * 4):
            st_f32(to, i, round_f16(ld_f32(x, i)))
        # What does not fill a vector of four the reference rounds by code.
        for i in range(k // 4 * 4, k):
            st_f32(to, i, round_f16_by_code(ld_f32(x, i)))
    elif form == FORM_BF16:
        for i in range(k):
            st_f32(to, i, round_bf16(ld_f32(x, i)))
    else:
        for i in range(k):
            st_f32(to, i, ld_f32(x, i))


@compiled("void(intp, intp, float32, intp, intp)")
def rms_norm_row(x, k, epsilon, weight, y):
    """y = x / rms(x) * weight: squares in float32, summed in order in float64.

    Source: ggml_compute_forward_rms_norm_f32, ggml-cpu/ops.cpp.
    """
    total = 0.0
    for i in range(k):
        v = ld_f32(x, i)
        total += np.float64(v * v)
    mean = np.float32(total / np.float64(k))
    scale = np.float32(1.0) / sqrt32(np.float32(mean + epsilon))
    factor = vsplat(scale)
    i = 0
    while i + W <= k:
        vst(y + 4 * i, vmul(vmul(vld(x + 4 * i), factor), vld(weight + 4 * i)))
        i += W
    while i < k:
        st_f32(y, i, ld_f32(x, i) * scale * ld_f32(weight, i))
        i += 1


@compiled("void(intp, intp, intp, intp)")
def swiglu_row(gate, up, k, y):
    """y = silu(gate) * up, with ggml's exponential, and the C library's for the last k % 8 values."""
    i = 0
    while i + W <= k:
        vst(y + 4 * i, vswiglu(vld(gate + 4 * i), vld(up + 4 * i)))
        i += W
    if i < k:
        # Buffers are padded to whole vectors; values past k are computed and overwritten or never read.
        vst(y + 4 * i, vswiglu(vld(gate + 4 * i), vld(up + 4 * i)))
        for t in range(k // 8 * 8, k):
            g = ld_f32(gate, t)
            st_f32(y, t, g / (np.float32(1.0) + expf(-g)) * ld_f32(up, t))


@compiled("void(intp, intp, intp)")
def _form(args, row, thread):
    """Form one row of X."""
    to = ld_i64(args, TO) + thread * ld_i64(args, TO_THREAD_STRIDE) + row * ld_i64(args, TO_STRIDE)
    form_row(
        ld_i64(args, X) + 4 * row * ld_i64(args, X_STRIDE), ld_i64(args, K), to, ld_i64(args, FORM), ld_i64(args, MINUS_OFFSET)
    )


@compiled("void(intp, intp, intp)")
def _norm(args, row, thread):
    """Norm one row of X, then form it."""
    k = ld_i64(args, K)
    to = ld_i64(args, TO) + thread * ld_i64(args, TO_THREAD_STRIDE) + row * ld_i64(args, TO_STRIDE)
    normed = ld_i64(args, SCRATCH) + thread * ld_i64(args, SCRATCH_STRIDE)
    rms_norm_row(ld_i64(args, X) + 4 * row * ld_i64(args, X_STRIDE), k, ld_f32(args, 2 * EPSILON), ld_i64(args, WEIGHT), normed)
    form_row(normed, k, to, ld_i64(args, FORM), ld_i64(args, MINUS_OFFSET))


@compiled("void(intp, intp, intp)")
def _swiglu(args, row, thread):
    """SwiGLU of one row of X (gate) and Y (up), then form it."""
    k = ld_i64(args, K)
    to = ld_i64(args, TO) + thread * ld_i64(args, TO_THREAD_STRIDE) + row * ld_i64(args, TO_STRIDE)
    product = ld_i64(args, SCRATCH) + thread * ld_i64(args, SCRATCH_STRIDE)
    at = 4 * row * ld_i64(args, X_STRIDE)
    swiglu_row(ld_i64(args, X) + at, ld_i64(args, Y) + at, k, product)
    form_row(product, k, to, ld_i64(args, FORM), ld_i64(args, MINUS_OFFSET))


@kernel
def form_rows(args, chunk, thread):
    """Form a chunk of rows."""
    part = ld_i64(args, ROW_PART)
    for row in range(chunk * part, min(ld_i64(args, ROWS), chunk * part + part)):
        _form(args, row, thread)


@kernel
def norm_rows(args, chunk, thread):
    """Norm and form a chunk of rows."""
    part = ld_i64(args, ROW_PART)
    for row in range(chunk * part, min(ld_i64(args, ROWS), chunk * part + part)):
        _norm(args, row, thread)


@kernel
def swiglu_rows(args, chunk, thread):
    """SwiGLU and form a chunk of rows."""
    part = ld_i64(args, ROW_PART)
    for row in range(chunk * part, min(ld_i64(args, ROWS), chunk * part + part)):
        _swiglu(args, row, thread)
