# SPDX-License-Identifier: MIT OR Apache-2.0
"""The C library's functions that decide bits, on scalars: what glibc 2.36 gives on a CPU with FMA, whatever library is here.

The reference's answers hold the bits of these functions, and another C library rounds some of them otherwise; so they are
computed here, in float64 as glibc computes them, and held to a record of its values (``bankml.core.exact``). A NaN is a NaN:
its sign and payload are not kept. Where a product and a sum are fused follows the compiled library, not its source.

Source: sysdeps/ieee754/flt-32 and dbl-64 of glibc 2.36, x86_64 multiarch, and libm.so.6 of Debian 12; the methods are those of
Arm's optimized routines and, of tanhf, of Sun's fdlibm.
"""

from __future__ import annotations

import math

import numpy as np

from bankml.kernels.compiler import types
from bankml.kernels.compiler.native import compiled
from bankml.kernels.compiler.simd import bits32, bits64, float32, float64, fma64
from bankml.kernels.libm.tables import (
    LOG_FIRST,
    exp2_32,
    exp2_128,
    exp2_128_tail,
    log2_of,
    log_inverse,
    log_of,
    pow_inverse,
    pow_log,
    pow_log_tail,
    two_over_pi,
)

_hex = float.fromhex

_INF = np.float32(math.inf)
_NAN = np.float32(math.nan)
_ZERO, _HALF, _ONE, _TWO, _THREE, _SIX = (np.float32(x) for x in (0, 0.5, 1, 2, 3, 6))
_ROUNDER = 1.5 * 2.0**52

# --- expf, and the power of two in powf
EXP2_CUBIC = _hex("0x1.c6af84b912394p-5"), _hex("0x1.ebfce50fac4f3p-3"), _hex("0x1.62e42ff0c52d6p-1")
INVERSE_LN2 = _hex("0x1.71547652b82fep+0")
EXPF_LOWEST, EXPF_HIGHEST = np.float32(_hex("-0x1.9fe368p6")), np.float32(_hex("0x1.62e42ep6"))
_E0, _E1, _E2 = EXP2_CUBIC
_N0, _N1, _N2 = _E0 / 32**3, _E1 / 32**2, _E2 / 32


@compiled("float32(float32)")
def expf(x):
    """e^x. Source: e_expf.c."""
    if x < EXPF_LOWEST:
        return _ZERO
    if not x <= EXPF_HIGHEST:
        return x * _INF
    wide = np.float64(x)
    shifted = fma64(INVERSE_LN2 * 32, wide, _ROUNDER)
    k = bits64(shifted)
    r = fma64(INVERSE_LN2 * 32, wide, -(shifted - _ROUNDER))
    scale = float64(exp2_32(k & 31) + (k << 47))
    y = fma64(fma64(_N0, r, _N1), r * r, fma64(_N2, r, 1.0))
    return np.float32(y * scale)


# --- logf, log2f, and the logarithm in powf
_LN2 = _hex("0x1.62e42fefa39efp-1")
_L0, _L1, _L2 = _hex("-0x1.00ea348b88334p-2"), _hex("0x1.5575b0be00b6ap-2"), _hex("-0x1.ffffef20a4123p-2")
_B0, _B1 = _hex("-0x1.712b6f70a7e4dp-2"), _hex("0x1.ecabf496832ep-2")
_B2, _B3 = _hex("-0x1.715479ffae3dep-1"), _hex("0x1.715475f35c8b8p+0")
_SUBNORMAL = np.float32(2.0**23)
_SMALLEST_NORMAL = np.float32(2.0**-126)


@compiled
def _split(bits):
    """x = 2^k z: (place of z in the tables, bits of z, k); z lies in [0.699, 1.398)."""
    above = bits - 0x3F330000
    return (above >> 19) & 15, bits - ((above >> 23) << 23), above >> 23


@compiled
def _normal_bits(x):
    """The bits of a positive float as if the exponent had no least value."""
    return bits32(x * _SUBNORMAL) - (23 << 23) if x < _SMALLEST_NORMAL else bits32(x)


@compiled
def _log_edge(x):
    """The logarithm, to any base, of what is no positive number."""
    if x == _ZERO:
        return -_INF
    return x if x > _ZERO else _NAN


@compiled("float32(float32)")
def logf(x):
    """The natural logarithm. Source: e_logf.c."""
    if not (x > _ZERO and x < _INF):
        return _log_edge(x)
    i, z, k = _split(_normal_bits(x))
    r = fma64(np.float64(float32(z)), log_inverse(i), -1.0)
    whole = fma64(np.float64(k), _LN2, log_of(i))
    r2 = r * r
    y = fma64(_L0, r2, fma64(_L1, r, _L2))
    return np.float32(fma64(y, r2, r + whole))


@compiled("float32(float32)")
def log2f(x):
    """The logarithm to base 2. Source: e_log2f.c."""
    if not (x > _ZERO and x < _INF):
        return _log_edge(x)
    i, z, k = _split(_normal_bits(x))
    r = fma64(np.float64(float32(z)), log_inverse(i), -1.0)
    whole = np.float64(k) + log2_of(i)
    r2 = r * r
    y = fma64(_B0, r2, fma64(_B1, r, _B2))
    return np.float32(fma64(y, r2, fma64(r, _B3, whole)))


# --- powf
_P0, _P1 = _hex("0x1.27616c9496e0bp-2"), _hex("-0x1.71969a075c67ap-2")
_P2, _P3 = _hex("0x1.ec70a6ca7baddp-2"), _hex("-0x1.7154748bef6c8p-1")
_P4 = _hex("0x1.71547652ab82bp+0")
_POW_HIGHEST, _POW_LOWEST = _hex("0x1.fffffffd1d571p6"), -150.0


@compiled
def _log2(bits):
    """log2 of a positive float32 from its bits, in float64. Source: log2_inline, e_powf.c."""
    i, z, k = _split(bits)
    r = fma64(np.float64(float32(z)), log_inverse(i), -1.0)
    r2 = r * r
    q = fma64(fma64(_P2, r, _P3), r2, fma64(r, _P4, np.float64(k) + log2_of(i)))
    return fma64(fma64(_P0, r, _P1), r2 * r2, q)


@compiled
def _exp2(x):
    """2^x rounded to float32. Source: exp2_inline and what surrounds it, e_powf.c."""
    if x > _POW_HIGHEST:
        return _INF
    if x <= _POW_LOWEST:
        return _ZERO
    shifted = x + _ROUNDER / 32
    k = bits64(shifted)
    r = x - (shifted - _ROUNDER / 32)
    scale = float64(exp2_32(k & 31) + (k << 47))
    y = fma64(fma64(_E0, r, _E1), r * r, fma64(_E2, r, 1.0))
    return np.float32(y * scale)


@compiled("float32(float32, float32)")
def powf(x, y):
    """x^y, the cases of C's Annex F included. Source: e_powf.c."""
    if y == _ZERO or x == _ONE:
        return _ONE
    if math.isnan(x) or math.isnan(y):
        return _NAN
    size = abs(x)
    if abs(y) == _INF:
        if size == _ONE:
            return _ONE
        return _INF if (size > _ONE) == (y > _ZERO) else _ZERO
    whole = np.floor(y) == y
    odd = whole and abs(y) < np.float32(2.0**24) and np.int64(y) & 1 == 1
    negative = bits32(x) >> 31 == 1
    if not _ZERO < size < _INF:
        result = _INF if (size == _INF) == (y > _ZERO) else _ZERO
    elif negative and not whole:
        return _NAN
    else:
        result = _exp2(np.float64(y) * _log2(_normal_bits(size)))
    return -result if negative and odd else result


# --- sincosf
_PER_QUARTER, _QUARTER = _hex("0x1.45f306dc9c883p+23"), _hex("0x1.921fb54442d18p+0")
_QUARTER_62 = _hex("0x1.921fb54442d18p-62")
_C1, _C2 = _hex("-0x1.ffffffd0c621cp-2"), _hex("0x1.55553e1068f19p-5")
_C3, _C4 = _hex("-0x1.6c087e89a359dp-10"), _hex("0x1.99343027bf8c3p-16")
_S1, _S2, _S3 = _hex("-0x1.555545995a603p-3"), _hex("0x1.1107605230bc4p-7"), _hex("-0x1.994eb3774cf24p-13")
_SMALL, _FEW, _TINY = np.float32(0.75), np.float32(120), np.float32(2.0**-12)


@compiled
def _far(x):
    """Quarter turns in |x|, and the rest, for any size: 96 bits of |x| times 2/pi. Source: reduce_large, s_sincosf.h."""
    bits = bits32(x)
    mantissa = ((bits & 0x7FFFFF) | 0x800000) << ((bits >> 23) & 7)
    first = (bits >> 26) & 15
    high = mantissa * two_over_pi(first) << 32
    product = (high | ((mantissa * two_over_pi(first + 8)) >> 32) & 0xFFFFFFFF) + mantissa * two_over_pi(first + 4)
    turns = ((product + (1 << 61)) >> 62) & 3
    return turns, np.float64(product - (turns << 62)) * _QUARTER_62


@compiled(types.Tuple((types.float32,) * 2)(types.float32))
def sincosf(x):
    """(sin x, cos x). Source: s_sincosf.c, s_sincosf.h."""
    size = abs(x)
    if size < _TINY:
        return x, _ONE
    if not size < _INF:
        return _NAN, _NAN
    r = np.float64(x)
    turns = swapped = np.int64(0)
    if size >= _SMALL:
        if size < _FEW:
            turns = swapped = (np.int64(r * _PER_QUARTER) + 0x800000) >> 24
            r = fma64(-np.float64(turns), _QUARTER, r)
        else:
            swapped, r = _far(x)
            turns = swapped + (bits32(x) >> 31)
    # Of four quarters the sine has its sign in 0 and 3 as r has, the cosine in 0 and 1.
    s = -r if (turns + 1) & 2 else r
    c = -1.0 if turns & 2 else 1.0
    r2 = r * r
    r3, r4 = r2 * s, r2 * r2
    sin = np.float32(fma64(fma64(_S3, r2, _S2), r2 * r3, fma64(r3, _S1, s)))
    cos = np.float32(fma64(fma64(c * _C4, r2, c * _C3), r2 * r4, fma64(r4, c * _C2, fma64(r2, c * _C1, c))))
    if swapped & 1:
        return cos, sin
    return sin, cos


# --- tanhf
_LN2_HIGH, _LN2_LOW = np.float32(_hex("0x1.62e3p-1")), np.float32(_hex("0x1.2fefa2p-17"))
_F32_INVERSE_LN2 = np.float32(INVERSE_LN2)
_Q1, _Q2 = np.float32(_hex("-0x1.111112p-5")), np.float32(_hex("0x1.a01a02p-10"))
_Q3, _Q4 = np.float32(_hex("-0x1.4ce19ap-14")), np.float32(_hex("0x1.0cfca8p-18"))
_Q5 = np.float32(_hex("-0x1.afdb76p-23"))
_HALF_LN2, _MORE_LN2 = np.float32(_hex("0x1.62e43p-2")), np.float32(_hex("0x1.0a2b24p+0"))
_UNSEEN, _SATURATED = np.float32(2.0**-25), np.float32(22)


@compiled
def _expm1f(x):
    """e^x - 1 for x in (-2, 44). Source: s_expm1f.c."""
    size = abs(x)
    if size < _UNSEEN:
        return x
    k, lost = np.int64(0), _ZERO
    if size > _HALF_LN2:
        if size < _MORE_LN2:
            k = np.int64(-1) if x < _ZERO else np.int64(1)
        else:
            k = np.int64(_F32_INVERSE_LN2 * x + (-_HALF if x < _ZERO else _HALF))
        high = x - np.float32(k) * _LN2_HIGH
        low = np.float32(k) * _LN2_LOW
        x = high - low
        lost = (high - x) - low
    half = _HALF * x
    square = x * half
    ratio = _ONE + square * (_Q1 + square * (_Q2 + square * (_Q3 + square * (_Q4 + square * _Q5))))
    t = _THREE - ratio * half
    e = square * ((ratio - t) / (_SIX - x * t))
    if k == 0:
        return x - (x * e - square)
    e = (x * (e - lost) - lost) - square
    if k == -1:
        return _HALF * (x - e) - _HALF
    if k == 1:
        return -_TWO * (e - (x + _HALF)) if x < np.float32(-0.25) else _ONE + _TWO * (x - e)
    if k < -1 or k > 56:
        return float32(bits32(_ONE - (e - x)) + (k << 23)) - _ONE
    if k < 23:
        return float32(bits32((_ONE - float32((127 - k) << 23)) - (e - x)) + (k << 23))
    return float32(bits32((x - (e + float32((127 - k) << 23))) + _ONE) + (k << 23))


@compiled("float32(float32)")
def tanhf(x):
    """The hyperbolic tangent. Source: s_tanhf.c."""
    size = abs(x)
    if size == _ZERO or math.isnan(x):
        return x
    if not size < _SATURATED:
        z = _ONE
    elif size < np.float32(2.0**-55):
        return x * (_ONE + x)
    elif size >= _ONE:
        z = _ONE - _TWO / (_expm1f(_TWO * size) + _TWO)
    else:
        t = _expm1f(-_TWO * size)
        z = -t / (t + _TWO)
    return -z if x < _ZERO else z


# --- exp and pow in float64
_W_INVERSE = INVERSE_LN2 * 128
_W_HIGH, _W_LOW = _hex("-0x1.62e42fefa0000p-8"), _hex("-0x1.cf79abc9e3b3ap-47")
_W2, _W3 = _hex("0x1.ffffffffffdbdp-2"), _hex("0x1.555555555543cp-3")
_W4, _W5 = _hex("0x1.55555cf172b91p-5"), _hex("0x1.1111167a4d017p-7")


@compiled
def _exp_parts(x, more):
    """e^(x + more) as (k, the bits of 2^(k/128), what times that is added to it). Source: exp_inline, e_pow.c; e_exp.c."""
    shifted = fma64(_W_INVERSE, x, _ROUNDER)
    k = bits64(shifted)
    turns = shifted - _ROUNDER
    r = fma64(turns, _W_LOW, fma64(turns, _W_HIGH, x)) + more
    r2 = r * r
    y = fma64(fma64(_W3, r, _W2), r2, r + exp2_128_tail(k & 127))
    return k, exp2_128(k & 127) + (k << 45), fma64(r2 * r2, fma64(r, _W5, _W4), y)


@compiled("float64(float64)")
def exp(x):
    """e^x in float64. Source: e_exp.c."""
    size = abs(x)
    if size < 2.0**-54:
        return 1.0 + x
    if not size < 1024.0:
        return 0.0 if x < 0.0 else x * math.inf
    k, bits, more = _exp_parts(x, 0.0)
    if size < 512.0:
        scale = float64(bits)
        return fma64(scale, more, scale)
    if k & 0x80000000 == 0:
        scale = float64(bits - (1009 << 52))
        return fma64(scale, more, scale) * 2.0**1009
    scale = float64(bits + (1022 << 52))
    y = scale + scale * more
    if y < 1.0:
        # The result may be subnormal: it is rounded once, where its last bit will be.
        high = 1.0 + y
        low = 1.0 - high + y + (scale - y + scale * more)
        y = (high + low) - 1.0
    return y * 2.0**-1022


_LN2_43, _LN2_REST = _hex("0x1.62e42fefa38p-1"), _hex("0x1.ef35793c7673p-45")
_A1, _A2 = _hex("-0x1.555555555556p-1"), _hex("0x1.0000000000006p-1")
_A3, _A4 = _hex("0x1.999999959554ep-1"), _hex("-0x1.555555529a47ap-1")
_A5, _A6 = _hex("-0x1.2495b9b4845e9p+0"), _hex("0x1.0002b8b263fc3p+0")


@compiled("float64(float64, float64)")
def pow(x, y):
    """x^y in float64 for x from 1 and y from 0, where the result is below e^512 or x is infinite. Source: e_pow.c."""
    if y == 0.0:
        return 1.0
    if not x < math.inf:
        return x
    bits = bits64(x)
    above = bits - LOG_FIRST
    i, k = (above >> 45) & 127, np.float64(above >> 52)
    r = fma64(float64(bits - ((above >> 52) << 52)), pow_inverse(i), -1.0)
    t1 = fma64(_LN2_43, k, pow_log(i))
    t2 = t1 + r
    low = fma64(_LN2_REST, k, pow_log_tail(i)) + (t1 - t2 + r)
    half = -0.5 * r
    square = r * half
    high = t2 + square
    low = (low + fma64(half, r, -square)) + (t2 - high + square)
    p = fma64(square, fma64(fma64(r, _A6, _A5), square, fma64(_A4, r, _A3)), fma64(_A2, r, _A1))
    low = fma64(r * square, p, low)
    log = high + low
    tail = high - log + low
    product = y * log
    more = fma64(y, tail, fma64(log, y, -product))
    if abs(product) < 2.0**-54:
        return 1.0 + product
    _, bits, more = _exp_parts(product, more)
    scale = float64(bits)
    return fma64(more, scale, scale)
