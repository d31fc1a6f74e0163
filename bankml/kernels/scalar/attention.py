# SPDX-License-Identifier: MIT OR Apache-2.0
"""The three attention kernels for one head and one row: q float32[dim], k and v half[cells, dim] of the visible cells.

Source: ggml_compute_forward_flash_attn_ext_f16_one_chunk, ..._tiled, ggml_flash_attn_ext_reduce_partials, ggml-cpu/ops.cpp.
"""

from __future__ import annotations

import numpy as np

from .arithmetic import F32, expf, fma, half, hs_a
from .floats import vec_dot_f16
from .rows import vector_exp

TILE = 64


@np.errstate(all="ignore")
def span(q, k, v, scale):
    """Online softmax cell by cell: (maximum, sum, values), the value sums rounded to half after every cell."""
    top, total, acc = F32(-np.inf), F32(0), np.zeros(v.shape[1], F32)
    rounded = half(q)
    for key, value in zip(k.astype(F32), v.astype(F32), strict=True):
        score = vec_dot_f16(key, rounded) * scale
        by, weight = F32(1), F32(1)
        if score > top:
            by = expf(top - score)
            top = score
            acc = half(acc * by)
        else:
            weight = expf(score - top)
        acc = half(fma(value, weight, acc))
        total = fma(total, by, weight)
    return top, total, acc


@np.errstate(all="ignore")
def reference(q, k, v, scale):
    """Fewer than 64 rows, and one row under 512 padded cells."""
    _, total, acc = span(q, k, v, scale)
    return acc * (F32(1) / total)


@np.errstate(all="ignore")
def split(q, k, v, scale, cells_per_span):
    """One row, 512 padded cells and more: a span for each of the reference's threads, then joined in order."""
    top, total, acc = F32(-np.inf), F32(0), np.zeros(v.shape[1], F32)
    for first in range(0, len(k), cells_per_span):
        part_top, part_total, part = span(q, k[first : first + cells_per_span], v[first : first + cells_per_span], scale)
        new = max(top, part_top)
        old_by, new_by = expf(top - new), expf(part_top - new)
        acc = fma(acc, old_by, part * new_by)
        total = fma(total, old_by, part_total * new_by)
        top = new
    return acc * (F32(1) / total)


@np.errstate(all="ignore")
def tiled(q, k, v, scale):
    """64 rows and more: tiles of 64 cells, float32 throughout; cells past the last visible one weigh nothing."""
    top, total, acc = F32(-np.inf), F32(0), np.zeros(v.shape[1], F32)
    keys, values = k.astype(F32), v.astype(F32)
    for first in range(0, len(k), TILE):
        tile = keys[first : first + TILE]
        dots = np.zeros(len(tile), F32)
        for d in range(len(q)):
            dots = fma(tile[:, d], q[d], dots)
        scores = np.full(TILE, -np.inf, F32)
        scores[: len(tile)] = dots * scale
        new = max(top, scores.max())
        if new > top:
            by = expf(top - new)
            acc, total, top = acc * by, total * by, new
        weights = vector_exp(scores - top)
        total = F32(np.float64(total) + _sum_by_eights(weights))
        for c in range(len(tile)):
            acc = fma(values[first + c], weights[c], acc)
    return acc * (F32(1) / total)


def _sum_by_eights(weights):
    total = np.float64(0)
    for start in range(0, len(weights), 8):
        total += np.float64(hs_a(weights[start : start + 8]))
    return total
