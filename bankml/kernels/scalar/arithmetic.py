# SPDX-License-Identifier: MIT OR Apache-2.0
"""Single roundings of float32: fused products, narrow formats, the two orders of adding eight lanes, the C library's functions.

Every function takes scalars or arrays and works element by element.
"""

from __future__ import annotations

import numpy as np

from bankml.kernels.libm import functions as libm

F32 = np.float32


@np.errstate(all="ignore")
def fma(a, b, c):
    """a*b+c with one rounding.

    The product of two float32 is exact in float64. The sum is rounded to odd there, whose rounding to float32 is then that of
    the exact sum. Source: Boldo, Melquiond, "Emulation of a FMA and correctly rounded sums", 2008.
    """
    product = np.asarray(a, np.float64) * np.asarray(b, np.float64)
    c = np.asarray(c, np.float64)
    total = product + c
    part = total - product
    error = (product - (total - part)) + (c - part)
    even = (total.view(np.int64) & 1) == 0
    inexact = np.isfinite(total) & (error != 0) & even
    odd = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    return np.where(inexact, odd, total).astype(F32)[()]


@np.errstate(all="ignore")
def half(x):
    """The nearest half-precision value, ties to even, as float32."""
    return np.asarray(x, F32).astype(np.float16).astype(F32)[()]


def bfloat(x):
    """The nearest bfloat16 value, ties to even, as float32; NaN is made quiet."""
    bits = np.asarray(x, F32).view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    picked = np.where(np.isnan(x), bits | np.uint32(0x400000), rounded)
    return (picked & np.uint32(0xFFFF0000)).view(F32)[()]


def halves(data):
    """Bytes of half-precision values as float32."""
    return np.asarray(data, np.uint8).view("<f2").astype(F32)


@np.errstate(all="ignore")
def hs_a(v):
    """Eight lanes added as ((v0+v4)+(v2+v6)) + ((v1+v5)+(v3+v7)). Source: hsum_float_8, ggml-cpu/arch/x86/quants.c."""
    t = v[:4] + v[4:]
    return (t[0] + t[2]) + (t[1] + t[3])


@np.errstate(all="ignore")
def hs_b(v):
    """Eight lanes added as ((v0+v4)+(v1+v5)) + ((v2+v6)+(v3+v7)). Source: GGML_F32x8_REDUCE, ggml-cpu/simd-mappings.h."""
    t = v[:4] + v[4:]
    return (t[0] + t[1]) + (t[2] + t[3])


def lanes(values):
    """Integer sums of each four of 32: lane L holds elements 4L to 4L+3."""
    return np.asarray(values, np.int32).reshape(-1, 4).sum(axis=1, dtype=np.int32)


def expf(x):
    """The C library's expf."""
    return F32(libm.expf(F32(x)))


def logf(x):
    """The C library's logf."""
    return F32(libm.logf(F32(x)))


def powf(x, y):
    """The C library's powf."""
    return F32(libm.powf(F32(x), F32(y)))


def sincosf(x):
    """The C library's sincosf: (sin, cos)."""
    sin, cos = libm.sincosf(F32(x))
    return F32(sin), F32(cos)
