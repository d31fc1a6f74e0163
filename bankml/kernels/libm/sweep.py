# SPDX-License-Identifier: MIT OR Apache-2.0
"""The functions of ``libm`` over many arguments, and a C library's over the same.

Arguments and values are the bits of floats as int64, of float32 in the low half; a function of one argument leaves the second
array unread, and only sincosf writes the second of its values. Every NaN is written as the same one.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir

from bankml.kernels.compiler import types
from bankml.kernels.compiler.native import compiled, entry
from bankml.kernels.compiler.simd import ADDR, F32, F64, bits32, bits64, float32, float64, mk, st_f32
from bankml.kernels.libm import functions as libm
from bankml.kernels.libm.vectors import expf_row

EXPF, LOGF, LOG2F, TANHF, POWF, SINCOSF, EXP, POW = range(8)
_NAN32, _NAN64 = 0x7FC00000, 0x7FF8000000000000

_ARGUMENTS = types.int64[::1]
_VALUES = types.int64[:, ::1]
_F = types.float32[::1]


def _calls(count, element):
    """An emitter of a call to the function at an address."""

    def emit(E, address, *arguments):
        function = ir.FunctionType(element, [element] * count).as_pointer()
        return E.b.call(E.b.inttoptr(address, function), list(arguments))

    return emit


def _call_sincosf(E, address, x, sin, cos):
    pointer = F32.as_pointer()
    function = ir.FunctionType(ir.VoidType(), [F32, pointer, pointer]).as_pointer()
    E.b.call(E.b.inttoptr(address, function), [x, E.ptr(sin, 0, F32), E.ptr(cos, 0, F32)])


_call_f = mk("_call_f", types.float32, (ADDR, types.float32), _calls(1, F32))
_call_ff = mk("_call_ff", types.float32, (ADDR, types.float32, types.float32), _calls(2, F32))
_call_d = mk("_call_d", types.float64, (ADDR, types.float64), _calls(1, F64))
_call_dd = mk("_call_dd", types.float64, (ADDR, types.float64, types.float64), _calls(2, F64))
_call_sc = mk("_call_sc", types.void, (ADDR, types.float32, ADDR, ADDR), _call_sincosf)


@compiled
def _bits_of32(x):
    return np.int64(_NAN32) if np.isnan(x) else bits32(x)


@compiled
def _bits_of64(x):
    return np.int64(_NAN64) if np.isnan(x) else bits64(x)


@entry(types.void(types.int64, _ARGUMENTS, _ARGUMENTS, _VALUES))
def ours(function, x, y, values):
    """values[i] = the function of x[i] (and y[i])."""
    for i in range(x.shape[0]):
        if function == EXPF:
            values[i, 0] = _bits_of32(libm.expf(float32(x[i])))
        elif function == LOGF:
            values[i, 0] = _bits_of32(libm.logf(float32(x[i])))
        elif function == LOG2F:
            values[i, 0] = _bits_of32(libm.log2f(float32(x[i])))
        elif function == TANHF:
            values[i, 0] = _bits_of32(libm.tanhf(float32(x[i])))
        elif function == POWF:
            values[i, 0] = _bits_of32(libm.powf(float32(x[i]), float32(y[i])))
        elif function == SINCOSF:
            sin, cos = libm.sincosf(float32(x[i]))
            values[i, 0], values[i, 1] = _bits_of32(sin), _bits_of32(cos)
        elif function == EXP:
            values[i, 0] = _bits_of64(libm.exp(float64(x[i])))
        else:
            values[i, 0] = _bits_of64(libm.pow(float64(x[i]), float64(y[i])))


@entry(types.void(ADDR, types.int64, _ARGUMENTS, _ARGUMENTS, _VALUES, _F))
def theirs(address, function, x, y, values, pair):
    """The same by the C function at an address; ``pair`` is room for two floats."""
    sin = pair.ctypes.data
    for i in range(x.shape[0]):
        if function == POWF:
            values[i, 0] = _bits_of32(_call_ff(address, float32(x[i]), float32(y[i])))
        elif function == SINCOSF:
            _call_sc(address, float32(x[i]), sin, sin + 4)
            values[i, 0], values[i, 1] = _bits_of32(pair[0]), _bits_of32(pair[1])
        elif function == EXP:
            values[i, 0] = _bits_of64(_call_d(address, float64(x[i])))
        elif function == POW:
            values[i, 0] = _bits_of64(_call_dd(address, float64(x[i]), float64(y[i])))
        else:
            values[i, 0] = _bits_of32(_call_f(address, float32(x[i])))


@entry(types.void(_ARGUMENTS, _F, _VALUES))
def vectors(x, room, values):
    """expf as attention takes it of a whole row, for arguments up to 88; ``room`` holds the row, padded to whole vectors."""
    n = x.shape[0]
    row = room.ctypes.data
    for i in range(n):
        st_f32(row, i, float32(x[i]))
    expf_row(row, n)
    for i in range(n):
        values[i, 0] = _bits_of32(room[i])
