# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which NaN a product of F32, F16 or BF16 weights is: sign and payload, where several NaNs meet.

Of an operation's NaNs x86 gives the first operand's, made quiet; of a fused one the first factor's, else the second's, else the
summand's; with none among the operands, that with the sign set. Sums and products commute in every other way, so the compiler
chose which operand stands first, and it chose anew for each place of a tile. Where a product came out as NaN, the functions here
compute it again with the operands as in the compiled reference. They give the same sums otherwise.

Source: the machine code of ggml_vec_dot_f32, _f16, _bf16 (ggml-cpu/vec.cpp) and tinyBLAS (llamafile/sgemm.cpp), by gcc 12.
"""

from __future__ import annotations

from math import isnan

import numpy as np

from bankml.kernels.compiler import types
from bankml.kernels.compiler.native import compiled
from bankml.kernels.compiler.simd import ADDR, F32, V, f32x8, fma32, ld_f32, mk, tup
from bankml.kernels.floats.numbers import BF16_ID, F16_ID, F32_ID, number, widen

_eight = tup(types.float32, 8)


def _step(type_id, y_first):
    """Accumulators of eight lanes, one for each of `y_first`, which says whether the activations are the first factor."""
    count = len(y_first)
    state = tup(f32x8, count)

    def emit(E, acc, w, y):
        out = []
        for j, a in enumerate(E.untup(acc, count)):
            u, v = widen(E, type_id, w, 8 * j), E.ld(V(F32, 8), y, 32 * j)
            one, other = (v, u) if y_first[j] else (u, v)
            out.append(E.first(one, E.first(other, E.fma(u, v, a))))
        return E.tup(out)

    name = f"_nan_step{type_id}_{''.join('wy'[f] for f in y_first)}"
    return mk(name, state, (state, ADDR, ADDR), emit)


def _zeros(count):
    return mk(f"_nan_zeros{count}", tup(f32x8, count), (ADDR,), lambda E, _: E.tup([E.const(F32, 0.0, 8)] * count))


def _fold(order):
    """The lanes of (a+b)+(c+d), the four accumulators by number."""

    def emit(E, acc):
        v = E.untup(acc, 4)
        a, b, c, d = (v[i] for i in order)
        one, two = E.first(a, E.add(a, b)), E.first(c, E.add(c, d))
        total = E.first(one, E.add(one, two))
        return E.tup([E.lane(total, i) for i in range(8)])

    return mk(f"_nan_fold{''.join(map(str, order))}", _eight, (tup(f32x8, 4),), emit)


_zeros1, _zeros4 = _zeros(1), _zeros(4)
_lanes = mk(
    "_nan_lanes", _eight, (tup(f32x8, 1),), lambda E, acc: E.tup([E.lane(v, i) for v in E.untup(acc, 1) for i in range(8)])
)
_fold_f32, _fold_f16, _fold_bf16 = _fold((0, 2, 1, 3)), _fold((1, 3, 0, 2)), _fold((0, 2, 3, 1))
_dot_f32, _dot_f16 = _step(F32_ID, (0,) * 4), _step(F16_ID, (0,) * 4)
_dot_bf16 = _step(BF16_ID, (0, 1, 1, 1))
_tile_f32, _tile_f32_y = _step(F32_ID, (0,)), _step(F32_ID, (1,))
_tile_f16, _tile_bf16 = _step(F16_ID, (0,)), _step(BF16_ID, (0,))


@compiled
def _sum(a, b):
    return a if isnan(a) else a + b


@compiled
def _times(a, b):
    # A NaN plus itself is that NaN made quiet.
    return a + a if isnan(a) else a * b


@compiled
def _fused(a, b, c):
    if isnan(a):
        return a + a
    return b + b if isnan(b) else fma32(a, b, c)


@compiled
def _across(v, upper, later):
    """HS-A. `upper`: v[4..7] stand first; `later`: then the third and fourth sum do."""
    if upper:
        t0, t1, t2, t3 = _sum(v[4], v[0]), _sum(v[5], v[1]), _sum(v[6], v[2]), _sum(v[7], v[3])
    else:
        t0, t1, t2, t3 = _sum(v[0], v[4]), _sum(v[1], v[5]), _sum(v[2], v[6]), _sum(v[3], v[7])
    if later:
        return _sum(_sum(t2, t0), _sum(t3, t1))
    return _sum(_sum(t0, t2), _sum(t1, t3))


@compiled
def _neighbours(v):
    """HS-B."""
    return _sum(_sum(_sum(v[4], v[0]), _sum(v[5], v[1])), _sum(_sum(v[6], v[2]), _sum(v[7], v[3])))


@compiled("float32(intp, intp, intp)")
def _dot32(w, y, k):
    acc = _zeros4(0)
    n = k // 32 * 32
    for i in range(0, n, 32):
        acc = _dot_f32(acc, w + 4 * i, y + 4 * i)
    total = _neighbours(_fold_f32(acc))
    left = k - n
    eights = n + left // 8 * 8
    unfused = eights + 4 if k - eights >= 4 else eights
    for i in range(n, unfused):
        product = _times(ld_f32(w, i), ld_f32(y, i))
        total = _sum(product, total) if i < eights and i % 8 == 0 else _sum(total, product)
    for i in range(unfused, k):
        total = _fused(ld_f32(w, i), ld_f32(y, i), total)
    return total


@compiled("float32(intp, intp, intp, intp)")
def _dot16(type_id, w, y, k):
    acc = _zeros4(0)
    n = k // 32 * 32
    if type_id == 1:
        for i in range(0, n, 32):
            acc = _dot_f16(acc, w + 2 * i, y + 4 * i)
        total = np.float64(_neighbours(_fold_f16(acc)))
    else:
        for i in range(0, n, 32):
            acc = _dot_bf16(acc, w + 2 * i, y + 4 * i)
        total = np.float64(_across(_fold_bf16(acc), True, True))
    for i in range(n, k):
        total = _sum(total, np.float64(_times(ld_f32(y, i), number(type_id, w, i))))
    return np.float32(total)


@compiled("float32(intp, intp, intp, intp)")
def dot(type_id, w, y, k):
    """As vec_dot gives it."""
    return _dot32(w, y, k) if type_id == 0 else _dot16(type_id, w, y, k)


@compiled("float32(intp, intp, intp, intp, intp, intp, intp)")
def tiled(type_id, w, y, k, row, column, columns):
    """As tinyBLAS gives it for this row and column: in tiles of 4 x 3, then of 4 x 2 for the columns left."""
    tiles = (columns + 2) // 3
    threes = 3 * (tiles - (3 * tiles - columns))
    width = 3 if column < threes else 2
    place = column % 3 if width == 3 else (column - threes) % 2
    upper = place == 0
    later = upper
    if width == 3 and place == 1:
        later = row % 4 < (2 if type_id == 0 else 1)
        upper = row % 4 < (1 if type_id == 1 else 2)
    acc = _zeros1(0)
    if type_id == 1:
        for i in range(0, k, 8):
            acc = _tile_f16(acc, w + 2 * i, y + 4 * i)
    elif type_id != 0:
        for i in range(0, k, 8):
            acc = _tile_bf16(acc, w + 2 * i, y + 4 * i)
    elif width == 3:
        for i in range(0, k, 8):
            acc = _tile_f32(acc, w + 4 * i, y + 4 * i)
    else:
        for i in range(0, k, 8):
            acc = _tile_f32_y(acc, w + 4 * i, y + 4 * i)
    return _across(_lanes(acc), upper, later)
