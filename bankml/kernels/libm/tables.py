# SPDX-License-Identifier: MIT OR Apache-2.0
"""The tables of the C library's functions, each entry made from its rule when a kernel that reads it is compiled.

Source: the rules that glibc 2.36 states beside its tables in sysdeps/ieee754; the method is Tang's, "Table-driven
implementation of the exponential function in IEEE floating-point arithmetic", 1989.
"""

from __future__ import annotations

import struct
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from functools import cache

from llvmlite import ir

from bankml.kernels.compiler import types
from bankml.kernels.compiler.simd import F64, I32, I64, mk

# More digits than any rounding here needs.
_DIGITS = 50

LOG_FIRST = 0x3FE6955500000000
"""The first of the 128 intervals of the logarithm in float64, as bits: about 0.706."""


def _bits(value):
    return struct.unpack("<q", struct.pack("<d", value))[0]


def _value(bits):
    return struct.unpack("<d", struct.pack("<q", bits))[0]


@cache
def exp2_rows(count):
    """[bits of 2^(i/count) less i/count of the exponent field, what rounding took from it as a part of it] for i below count.

    Adding k/count of the exponent field to entry k % count gives 2^(k/count).
    """
    with localcontext() as context:
        context.prec = _DIGITS
        step = (Decimal(2).ln() / count).exp()
        value, rows = Decimal(1), []
        for i in range(count):
            near = float(value)
            rows.append((_bits(near) - i * (1 << 52) // count, float(value / Decimal(near) - 1)))
            value *= step
        return rows


# 1/c for a c near the middle of each sixteenth of [0.699, 1.398). These are chosen and follow from no rule: both 1/c and log(c)
# lie close to a float64.
_INVERSES = (
    "0x1.661ec79f8f3bep+0 0x1.571ed4aaf883dp+0 0x1.49539f0f010bp+0 0x1.3c995b0b80385p+0 0x1.30d190c8864a5p+0 "
    "0x1.25e227b0b8eap+0 0x1.1bb4a4a1a343fp+0 0x1.12358f08ae5bap+0 0x1.0953f419900a7p+0 0x1p+0 0x1.e608cfd9a47acp-1 "
    "0x1.ca4b31f026aap-1 0x1.b2036576afce6p-1 0x1.9c2d163a1aa2dp-1 0x1.886e6037841edp-1 0x1.767dcf5534862p-1"
)


@cache
def _log_rows():
    """[1/c, log(c), log2(c)] of the sixteen."""
    inverses = list(map(float.fromhex, _INVERSES.split()))
    with localcontext() as context:
        context.prec = _DIGITS
        logs = [-Decimal(inverse).ln() for inverse in inverses]
        return [(inverse, float(log), float(log / Decimal(2).ln())) for inverse, log in zip(inverses, logs, strict=True)]


@cache
def _pow_rows():
    """[1/c to 128ths above 1 and to 256ths below, log(c) to 2^-43, what that rounding took] of the 128 intervals' middles."""
    rows = []
    with localcontext() as context:
        context.prec = _DIGITS
        fine = 1 << 43
        for i in range(128):
            ends = (_value(LOG_FIRST + (j << 45)) for j in (i, i + 1))
            middle = 2 / sum(map(Decimal, ends))
            part = 128 if middle > 1 else 256
            inverse = (middle * part).to_integral_value(ROUND_HALF_EVEN) / part
            log = -inverse.ln()
            head = (log * fine).to_integral_value(ROUND_HALF_EVEN) / fine
            rows.append((float(inverse), float(head), float(log - head)))
    return rows


# The first 192 bits of 2/pi.
_TWO_OVER_PI = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041


def _two_over_pi():
    """Of 2/pi the 32 bits that end with each byte."""
    return [_TWO_OVER_PI >> 8 * (23 - i) & 0xFFFFFFFF for i in range(24)]


def entry(E, name, element, make, index):
    """The entry of a constant table at an IR index; ``make()`` gives the table's values."""
    module = E.b.module
    name = f"bankml.{name}"
    table = module.globals.get(name)
    if table is None:
        values = make()
        kind = ir.ArrayType(element, len(values))
        table = ir.GlobalVariable(module, kind, name)
        table.linkage, table.global_constant, table.initializer = "internal", True, ir.Constant(kind, values)
    return E.b.load(E.b.gep(table, [ir.Constant(I32, 0), index], inbounds=True), typ=element)


def _lookup(name, element, make):
    """An intrinsic that reads a table of 64-bit entries."""
    ret = types.int64 if element is I64 else types.float64
    return mk(name, ret, (types.int64,), lambda E, index: entry(E, name, element, make, index))


def _column(rows, place):
    return lambda: [row[place] for row in rows()]


EXP2_32 = ("exp2_32", I64, _column(lambda: exp2_rows(32), 0))
exp2_32 = _lookup(*EXP2_32)
exp2_128 = _lookup("exp2_128", I64, _column(lambda: exp2_rows(128), 0))
exp2_128_tail = _lookup("exp2_128_tail", F64, _column(lambda: exp2_rows(128), 1))
log_inverse = _lookup("log_inverse", F64, _column(_log_rows, 0))
log_of = _lookup("log_of", F64, _column(_log_rows, 1))
log2_of = _lookup("log2_of", F64, _column(_log_rows, 2))
pow_inverse = _lookup("pow_inverse", F64, _column(_pow_rows, 0))
pow_log = _lookup("pow_log", F64, _column(_pow_rows, 1))
pow_log_tail = _lookup("pow_log_tail", F64, _column(_pow_rows, 2))
two_over_pi = _lookup("two_over_pi", I64, _two_over_pi)
