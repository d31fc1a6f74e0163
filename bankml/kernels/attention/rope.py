# SPDX-License-Identifier: MIT OR Apache-2.0
"""Rotary position embedding, and the store of keys and values into the cache.

Source: ggml_rope_cache_init, rope_yarn, rotate_pairs, ggml-cpu/ops.cpp.
"""

from __future__ import annotations

import numpy as np

from bankml.kernels.activations.rows import rms_norm_row
from bankml.kernels.compiler.native import compiled, entry, kernel
from bankml.kernels.compiler.simd import fma32, ld_f32, ld_i64, st_f16, st_f32
from bankml.kernels.libm.functions import logf, powf, sincosf

# Keys are stored transposed in blocks of this many cells, so that a vector lane is a cell.
CELL_BLOCK = 16

# Words of the argument block.
FIELDS = 20
(
    Q,
    Q_STRIDE,
    KEYS,
    KV_STRIDE,
    VALUES,
    TABLE,
    K_CACHE,
    V_CACHE,
    HEADS,
    KV_HEADS,
    HEAD_DIM,
    ROT,
    NEOX,
    POSITION,
    ROWS,
    ROW_PART,
) = range(16)
# Cells of the cache; addresses of the heads' norm weights or 0; the norms' epsilon as float32 in the word's low half.
CELLS, Q_NORM, K_NORM, EPSILON = range(16, 20)


@entry("void(float32, float32, intp, float32, float32, float32, float32, intp, intp, intp, intp)")
def fill_table(step, freq_scale, factors, ext_factor, attn_factor, low, high, rot, first, last, table):
    """cos and sin of every pair for positions first..last: float32 table[position][pair][2].

    `step` is `theta_scale`; `factors` the address of the pairs' frequency factors, or 0; low and high bound YaRN's ramp.
    """
    half = rot // 2
    stretched = fma32(np.float32(0.1), logf(np.float32(1.0) / freq_scale), np.float32(1.0)) * attn_factor
    for position in range(first, last):
        theta = np.float32(position)
        for i in range(half):
            te = theta / ld_f32(factors, i) if factors != 0 else theta
            ti = freq_scale * te
            angle = ti
            magnitude = attn_factor
            if ext_factor != np.float32(0.0):
                y = (np.float32(i) - low) / max(np.float32(0.001), high - low)
                ramp = np.float32(1.0) - min(np.float32(1.0), max(np.float32(0.0), y))
                mix = ramp * ext_factor
                angle = fma32(ti, np.float32(1.0) - mix, te * mix)
                magnitude = stretched
            at = table + (position * half + i) * 8
            sin, cos = sincosf(angle)
            st_f32(at, 0, cos * magnitude)
            st_f32(at, 1, sin * magnitude)
            theta = theta * step


@compiled("void(intp, intp, intp, intp)")
def rotate(x, rot, neox, table):
    """Rotate one head in place by a row of the table."""
    half = rot // 2
    for i in range(half):
        a, b = (i, i + half) if neox else (2 * i, 2 * i + 1)
        c, s = ld_f32(table, 2 * i), ld_f32(table, 2 * i + 1)
        x0, x1 = ld_f32(x, a), ld_f32(x, b)
        if not neox and half % 2 == 1 and i == half - 1:
            # The compiler leaves the odd last pair unfused.
            st_f32(x, a, x0 * c - x1 * s)
            st_f32(x, b, x0 * s + x1 * c)
        else:
            st_f32(x, a, fma32(x0, c, -(x1 * s)))
            st_f32(x, b, fma32(x0, s, x1 * c))


@kernel
def rope_store(args, chunk, thread):
    """Norm (where asked) and rotate queries and keys of a chunk of rows in place; round keys and values to half into the cache.

    K cache: half[kv head][cell block][head_dim][16]; V cache: half[kv head][cell][head_dim].
    """
    heads, kv_heads, dim = ld_i64(args, HEADS), ld_i64(args, KV_HEADS), ld_i64(args, HEAD_DIM)
    rot, neox, cells = ld_i64(args, ROT), ld_i64(args, NEOX), ld_i64(args, CELLS)
    part = ld_i64(args, ROW_PART)
    for row in range(chunk * part, min(ld_i64(args, ROWS), chunk * part + part)):
        cell = ld_i64(args, POSITION) + row
        table = ld_i64(args, TABLE) + cell * rot * 4
        q = ld_i64(args, Q) + 4 * row * ld_i64(args, Q_STRIDE)
        q_norm, k_norm = ld_i64(args, Q_NORM), ld_i64(args, K_NORM)
        for h in range(heads):
            if q_norm != 0:
                rms_norm_row(q + 4 * h * dim, dim, ld_f32(args, 2 * EPSILON), q_norm, q + 4 * h * dim)
            rotate(q + 4 * h * dim, rot, neox, table)
        k = ld_i64(args, KEYS) + 4 * row * ld_i64(args, KV_STRIDE)
        v = ld_i64(args, VALUES) + 4 * row * ld_i64(args, KV_STRIDE)
        for h in range(kv_heads):
            if k_norm != 0:
                rms_norm_row(k + 4 * h * dim, dim, ld_f32(args, 2 * EPSILON), k_norm, k + 4 * h * dim)
            rotate(k + 4 * h * dim, rot, neox, table)
            kc = ld_i64(args, K_CACHE) + ((h * cells + cell // 16 * 16) * dim + cell % 16) * 2
            vc = ld_i64(args, V_CACHE) + (h * cells + cell) * dim * 2
            for d in range(dim):
                st_f16(kc, 16 * d, ld_f32(k, h * dim + d))
                st_f16(vc, d, ld_f32(v, h * dim + d))


@entry("float32(float32, intp)")
def theta_scale(base, rot):
    """base^(-2/rot)."""
    return powf(base, np.float32(-2.0) / np.float32(rot))


@entry("float32(float32)")
def logf_of(x):
    """libm.logf."""
    return logf(x)
