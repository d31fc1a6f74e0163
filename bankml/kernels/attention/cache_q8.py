# SPDX-License-Identifier: MIT OR Apache-2.0
"""A q8_0 cache: keys and values rotated, quantized, and attended by the reference kernel alone.

Keys of one head lie as a packed Q8_0 matrix whose rows are cells (``q8_0.PACKED`` bytes for W cells of a block of 32), so that a
vector lane is a cell. Values lie cell by cell: ``half d[dim/32], int8 q[dim]``.

Source: ggml_compute_forward_fwht, ggml_compute_forward_flash_attn_ext_f16_one_chunk, ggml-cpu/ops.cpp; build_input_k_rot,
llama-kv-cache.cpp.
"""

from __future__ import annotations

import numpy as np

from bankml.kernels.activations.quantize import quantize_row, row_bytes
from bankml.kernels.activations.rows import rms_norm_row
from bankml.kernels.attention import rope, tiled
from bankml.kernels.attention.rope import rotate
from bankml.kernels.attention.rows import sum_of_weights, weigh_cells
from bankml.kernels.blocks.q8_0 import FLIP, PACKED, careful, result1, step1, zeros1
from bankml.kernels.blocks.walk import FOURS, one_group
from bankml.kernels.compiler import types
from bankml.kernels.compiler.isa import W
from bankml.kernels.compiler.native import compiled, kernel
from bankml.kernels.compiler.simd import (
    ADDR,
    F32,
    I8,
    I32,
    V,
    f32xw,
    ld_f32,
    ld_i8,
    ld_i32,
    ld_i64,
    mk,
    sqrt32,
    st_f16,
    st_f32,
    st_i8,
    tup,
    vmul,
    vsplat,
    vst,
)

# Words of `rope_store`'s block beyond rope.rope_store's: the keys' rotation (0: none), the values', scratch and its stride.
FIELDS = 24
K_TURN, V_TURN, SCRATCH, SCRATCH_STRIDE = range(20, 24)
# Words of `attend_rows`' block beyond attention's.
ATTENTION_FIELDS = 28
Q_TURN, OUT_TURN = 24, 25


BLOCK = 32
"""Values that share a scale."""


def value_bytes(dim: int) -> int:
    """Bytes of one cell's values of one head."""
    return dim + dim // 16


def key_bytes(dim: int, cells: int) -> int:
    """Bytes of one head's keys."""
    return cells // W * (dim // 32) * int(PACKED)


@compiled("void(intp, intp, intp)")
def walsh_hadamard(x, n, width):
    """Rotate n floats in place, in runs of `width`: scale by 1/sqrt(width), then butterflies of growing span."""
    scale = np.float32(1.0) / sqrt32(np.float32(width))
    for start in range(0, n, width):
        at = x + 4 * start
        for i in range(width):
            st_f32(at, i, ld_f32(at, i) * scale)
        span = 1
        while span < width:
            for i in range(0, width, 2 * span):
                for j in range(i, i + span):
                    u, v = ld_f32(at, j), ld_f32(at, j + span)
                    st_f32(at, j, u + v)
                    st_f32(at, j + span, u - v)
            span *= 2


@kernel
def rope_store(args, chunk, thread):
    """Norm (where asked) and rotate queries and keys, then turn keys and values and store them as q8_0."""
    heads, kv_heads, dim = ld_i64(args, rope.HEADS), ld_i64(args, rope.KV_HEADS), ld_i64(args, rope.HEAD_DIM)
    rot, neox, cells = ld_i64(args, rope.ROT), ld_i64(args, rope.NEOX), ld_i64(args, rope.CELLS)
    q_norm, k_norm = ld_i64(args, rope.Q_NORM), ld_i64(args, rope.K_NORM)
    part = ld_i64(args, rope.ROW_PART)
    blocks = dim // 32
    packed = ld_i64(args, SCRATCH) + thread * ld_i64(args, SCRATCH_STRIDE)
    for row in range(chunk * part, min(ld_i64(args, rope.ROWS), chunk * part + part)):
        cell = ld_i64(args, rope.POSITION) + row
        table = ld_i64(args, rope.TABLE) + cell * rot * 4
        q = ld_i64(args, rope.Q) + 4 * row * ld_i64(args, rope.Q_STRIDE)
        for h in range(heads):
            if q_norm != 0:
                rms_norm_row(q + 4 * h * dim, dim, ld_f32(args, 2 * rope.EPSILON), q_norm, q + 4 * h * dim)
            rotate(q + 4 * h * dim, rot, neox, table)
        for h in range(kv_heads):
            k = ld_i64(args, rope.KEYS) + 4 * (row * ld_i64(args, rope.KV_STRIDE) + h * dim)
            v = ld_i64(args, rope.VALUES) + 4 * (row * ld_i64(args, rope.KV_STRIDE) + h * dim)
            if k_norm != 0:
                rms_norm_row(k, dim, ld_f32(args, 2 * rope.EPSILON), k_norm, k)
            rotate(k, rot, neox, table)
            if ld_i64(args, K_TURN) != 0:
                walsh_hadamard(k, dim, ld_i64(args, K_TURN))
            quantize_row(k, dim, packed, 0)
            kc = ld_i64(args, rope.K_CACHE) + h * cells // W * blocks * PACKED + cell // W * blocks * PACKED
            lane = cell % W
            for b in range(blocks):
                at = kc + b * PACKED
                st_f16(at, lane, ld_f32(packed + dim, b))
                for e in range(32):
                    st_i8(at + 2 * W + (e // 4 * W + lane) * 4, e % 4, ld_i8(packed, 32 * b + e) ^ FLIP)
            if ld_i64(args, V_TURN) != 0:
                walsh_hadamard(v, dim, ld_i64(args, V_TURN))
            quantize_row(v, dim, packed, 0)
            vc = ld_i64(args, rope.V_CACHE) + (h * cells + cell) * (dim + 2 * blocks)
            for b in range(blocks):
                st_f16(vc, b, ld_f32(packed + dim, b))
            for d in range(dim):
                st_i8(vc + 2 * blocks, d, ld_i8(packed, d))


_VECTORS = 32 // W
_slab = tup(f32xw, _VECTORS)


def _step(E, acc, q, d, p):
    """32 dimensions of one cell: A = fma(q*d, p, A)."""
    scale, weight = E.splat(d), E.splat(p)
    out = []
    for i, a in enumerate(E.untup(acc, _VECTORS)):
        wide = E.b.sext(E.ld(V(I8, W), q, W * i), V(I32, W))
        out.append(E.fma(E.mul(E.i2f(wide), scale), weight, a))
    return E.tup(out)


def _store(E, acc, out):
    for i, a in enumerate(E.untup(acc, _VECTORS)):
        E.st(a, out, 4 * W * i)


def _rescale(E, acc, by):
    factor = E.splat(by)
    return E.tup([E.mul(a, factor) for a in E.untup(acc, _VECTORS)])


_slab_zero = mk("_slab_zero_q8", _slab, (ADDR,), lambda E, _: E.tup([E.const(F32, 0.0, W)] * _VECTORS))
_slab_step = mk("_slab_step_q8", _slab, (_slab, ADDR, types.float32, types.float32), _step)
_slab_rescale = mk("_slab_rescale_q8", _slab, (_slab, types.float32), _rescale)
_slab_store = mk("_slab_store_q8", types.void, (_slab, ADDR), _store)
_ld_half = mk(
    "_ld_half_q8", types.float32, (ADDR, ADDR), lambda E, p, i: E.lane(E.ld_f16(E.b.add(p, E.b.mul(i, E.i64(2))), 0, 1), 0)
)


@compiled("void(intp, intp, intp, intp, float32, intp)")
def _scores(keys, packed, dim, last, scale, out):
    """out[c] = (K[c] . q) * scale for whole groups of cells up to `last`; `packed` is the quantized query."""
    blocks = dim // 32
    for group in range((last + W - 1) // W):
        acc = one_group(step1, careful, zeros1, PACKED, 1, FOURS, keys + group * blocks * PACKED, packed, blocks)
        vst(out + 4 * W * group, vmul(result1(acc)[0], vsplat(scale)))


@kernel
def attend_rows(args, chunk, thread):
    """The reference kernel over a q8_0 cache: chunk = row * HEADS + head; the output is turned back."""
    heads, dim, cells = ld_i64(args, tiled.HEADS), ld_i64(args, tiled.DIM), ld_i64(args, tiled.CELLS)
    row, head = chunk // heads, chunk % heads
    kv = head // ld_i64(args, tiled.GROUP)
    blocks = dim // 32
    keys = ld_i64(args, tiled.K_CACHE) + kv * (cells // W * blocks * PACKED)
    values = ld_i64(args, tiled.V_CACHE) + kv * cells * (dim + 2 * blocks)
    last = ld_i64(args, tiled.POSITION) + row + 1
    query = ld_i64(args, tiled.SCRATCH) + thread * ld_i64(args, tiled.SCRATCH_STRIDE)
    packed = query + 4 * dim
    weights = packed + 4 * dim + 64
    rescales = weights + 4 * cells
    maxima = rescales + 4 * cells
    q = ld_i64(args, tiled.Q) + (row * ld_i64(args, tiled.Q_STRIDE) + head * dim) * 4
    for i in range(dim):
        st_f32(query, i, ld_f32(q, i))
    if ld_i64(args, Q_TURN) != 0:
        walsh_hadamard(query, dim, ld_i64(args, Q_TURN))
    quantize_row(query, dim, packed, -FLIP)
    _scores(keys, packed, dim, last, ld_f32(args, 2 * tiled.SCALE), weights)
    weigh_cells(weights, rescales, maxima, 0, last)
    total = sum_of_weights(weights, rescales, maxima, 0, last)
    inverse = np.float32(1.0) / total if total != np.float32(0.0) else np.float32(0.0)
    out = ld_i64(args, tiled.OUT) + (row * ld_i64(args, tiled.OUT_STRIDE) + head * dim) * 4
    for b in range(blocks):
        acc = _slab_zero(0)
        c = number = 0
        while c < last:
            if ld_i32(maxima, number) == c:
                acc = _slab_rescale(acc, ld_f32(rescales, c))
                number += 1
            end = ld_i32(maxima, number)
            while c < end:
                at = values + c * (dim + 2 * blocks)
                acc = _slab_step(acc, at + 2 * blocks + 32 * b, _ld_half(at, b), ld_f32(weights, c))
                c += 1
        _slab_store(_slab_rescale(acc, inverse), out + 128 * b)
    if ld_i64(args, OUT_TURN) != 0:
        walsh_hadamard(out, dim, ld_i64(args, OUT_TURN))


def scratch_bytes(dim: int, cells: int) -> int:
    """Scratch that one thread needs for either kernel."""
    return (8 * dim + 2 * row_bytes(dim) + 12 * cells + 4 * W + 320 + 63) // 64 * 64
