# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reading memory and doing nothing else: the speed that products are quoted against."""

from __future__ import annotations

import numpy as np

from bankml.kernels.compiler.isa import W
from bankml.kernels.compiler.native import kernel
from bankml.kernels.compiler.simd import ld_i64, vadd, vld, vsplat, vst

# Words of the argument block: the buffer, bytes of a chunk, and 64 bytes a thread for what was read.
FIELDS = 3
SOURCE, PART, SINK = range(3)
STEP = 32 * W
"""Bytes that one turn of the loop reads: a part is a multiple of them."""


@kernel
def read(args, chunk, thread):
    """Add up a chunk of float32 in eight vectors, which together wait for memory alone."""
    at = ld_i64(args, SOURCE) + chunk * ld_i64(args, PART)
    end = at + ld_i64(args, PART)
    a = b = c = d = e = f = g = h = vsplat(np.float32(0.0))
    while at < end:
        a = vadd(a, vld(at))
        b = vadd(b, vld(at + 4 * W))
        c = vadd(c, vld(at + 8 * W))
        d = vadd(d, vld(at + 12 * W))
        e = vadd(e, vld(at + 16 * W))
        f = vadd(f, vld(at + 20 * W))
        g = vadd(g, vld(at + 24 * W))
        h = vadd(h, vld(at + 28 * W))
        at += 32 * W
    vst(ld_i64(args, SINK) + 64 * thread, vadd(vadd(vadd(a, b), vadd(c, d)), vadd(vadd(e, f), vadd(g, h))))
