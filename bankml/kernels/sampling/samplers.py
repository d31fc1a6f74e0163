# SPDX-License-Identifier: MIT OR Apache-2.0
"""The samplers of b11192's chain over one set of candidates, with its float widths and its orders.

The candidates are ``ids`` (int32), ``logit`` (float32), ``p`` (float32) and ``state`` (int64): how many there are, whether
they are sorted, which one is selected. All is single precision without fused multiply-add unless said; functions such as
``expf`` are the C library's, as ``libm`` computes them.

Source: src/llama-sampler.cpp.
"""

from __future__ import annotations

import numpy as np

from bankml.kernels.compiler import types
from bankml.kernels.compiler.native import compiled, entry
from bankml.kernels.compiler.simd import stack_array
from bankml.kernels.libm.functions import expf, logf
from bankml.kernels.sampling.sorting import START, make_heap, partial_sort, sift, sort, sort_heap

SIZE, SORTED, SELECTED = 0, 1, 2
"""Places in ``state``."""

MT_WORDS = 625
"""Words of a generator: 624 of mt19937's state, then how many of them are used up."""

HEAP_LIMIT = 128
"""Up to this number, candidates are kept by a heap; more by buckets."""

_LAZY = np.int64(256)
_BLOCK = 64
_stack_count, _stack_start = stack_array(128), stack_array(129)

_F = types.float32[::1]
_I = types.int32[::1]
_S = types.int64[::1]
_MT = types.uint32[::1]


_INF = np.float32(np.inf)
_ZERO = np.float32(0)
_ONE = np.float32(1)
_LOWEST = np.float32(np.finfo(np.float32).min)
_BUCKET_SCALE = np.float32(6.4)
_BUCKET_SHIFT = np.float32(64)
_INT_MIN = np.float32(-2147483648)
_INT_END = np.float32(2147483648)


@entry(types.void(_MT, types.uint32))
def mt_seed(mt, seed):
    """Start the generator from a seed. Source: std::mt19937, ISO C++ [rand.eng.mers]."""
    mt[0] = seed
    for i in range(1, 624):
        mixed = np.uint64(mt[i - 1] ^ (mt[i - 1] >> np.uint32(30)))
        mt[i] = np.uint32(np.uint64(1812433253) * mixed + np.uint64(i))
    mt[624] = 624


@compiled(types.uint32(_MT))
def mt_next(mt):
    """The next 32-bit output of the generator."""
    if mt[624] == 624:
        for i in range(624):
            y = (mt[i] & np.uint32(0x80000000)) | (mt[(i + 1) % 624] & np.uint32(0x7FFFFFFF))
            x = mt[(i + 397) % 624] ^ (y >> np.uint32(1))
            mt[i] = x ^ np.uint32(0x9908B0DF) if y & np.uint32(1) else x
        mt[624] = 0
    y = mt[np.int64(mt[624])]
    mt[624] += np.uint32(1)
    y ^= y >> np.uint32(11)
    y ^= (y << np.uint32(7)) & np.uint32(0x9D2C5680)
    y ^= (y << np.uint32(15)) & np.uint32(0xEFC60000)
    return np.uint32(y ^ (y >> np.uint32(18)))


@compiled
def uniform(mt):
    """A double in [0, 1) from two outputs, the low word first. Source: libstdc++'s generate_canonical<double, 53>."""
    low = np.float64(mt_next(mt))
    high = np.float64(mt_next(mt))
    drawn = (low + high * 4294967296.0) / 18446744073709551616.0
    return drawn if drawn < 1.0 else 0.9999999999999999


@compiled
def uniform_float(mt):
    """A float in [0, 1) from one output. Source: libstdc++'s generate_canonical<float, 24>."""
    drawn = np.float32(mt_next(mt)) / np.float32(4294967296.0)
    return drawn if drawn < _ONE else np.float32(0.99999994)


@entry(types.void(_F, _I, _F, _S))
def load(logits, ids, logit, state):
    """All tokens are candidates, in the order of their ids. Source: set_logits, common/sampling.cpp."""
    n = logits.shape[0]
    for i in range(n):
        ids[i] = i
        logit[i] = logits[i]
    state[SIZE], state[SORTED], state[SELECTED] = n, 0, -1


@compiled
def _offer(logits, first, last, k, ids, logit):
    """Let each of ``logits[first:last]`` that beats the root of the heap of k replace it."""
    for i in range(first, last):
        if logits[i] > logit[0]:
            sift(logit, ids, START, START, k, logits[i], np.int32(i))


@entry(types.void(_F, types.int64, _I, _F, _S))
def load_top_k(logits, k, ids, logit, state):
    """``load`` and ``top_k`` for 1 <= k <= 128 in one pass that writes only what is kept.

    A block of 64 logits none of which beats the smallest kept one is passed over in vector code.
    """
    n = logits.shape[0]
    k = min(k, n)
    for i in range(k):
        ids[i] = i
        logit[i] = logits[i]
    make_heap(logit, ids, START, k)
    blocks = (n - k) // _BLOCK
    for at in range(k, k + blocks * _BLOCK, _BLOCK):
        # A view of fixed length: only so does LLVM make vector code of the loop.
        block = logits[at : at + _BLOCK]
        root = logit[0]
        beaten = np.int32(0)
        for i in range(_BLOCK):
            beaten |= np.int32(block[i] > root)
        if beaten != 0:
            _offer(logits, at, at + _BLOCK, k, ids, logit)
    _offer(logits, k + blocks * _BLOCK, n, k, ids, logit)
    sort_heap(logit, ids, START, k)
    state[SIZE], state[SORTED], state[SELECTED] = k, 1, -1


@compiled
def _bucket(x):
    """The bucket of a logit: 128 of them over [-10, 10]; what no int holds goes to the lowest, as cvttss2si makes it."""
    scaled = _BUCKET_SCALE * x + _BUCKET_SHIFT
    if not (scaled >= _INT_MIN and scaled < _INT_END):
        return 0
    return min(max(np.int64(scaled), 0), 127)


@compiled
def sort_top_buckets(logit, size, k, key, index):
    """``sort_top`` by buckets whatever k is, as top-p asks for its first 256.

    Source: llama_token_data_array_partial_sort.
    """
    count = _stack_count(0)
    for i in range(size):
        count[_bucket(logit[i])] += 1
    have = 0
    lowest = 127
    while lowest >= 0:
        have += count[lowest]
        if have >= k:
            break
        lowest -= 1
    start, place = _stack_start(0), _stack_start(0)
    for b in range(126, -1, -1):
        start[b] = place[b] = start[b + 1] + count[b + 1]
    for i in range(size):
        b = _bucket(logit[i])
        if b >= lowest:
            key[place[b]] = logit[i]
            index[place[b]] = i
            place[b] += 1
    for b in range(127, lowest, -1):
        sort(key, index, start[b], start[b] + count[b])
    partial_sort(key, index, start[lowest], k, start[lowest] + count[lowest])
    return have


@compiled
def sort_top(logit, size, k, key, index):
    """Into ``key`` and ``index``: the largest k of ``logit[:size]`` in order, with their places; returns how many were moved.

    Source: llama_token_data_array_partial_sort (buckets, for k > 128), else std::partial_sort as its in-place form has it.
    """
    if k <= HEAP_LIMIT:
        for i in range(size):
            key[i] = logit[i]
            index[i] = i
        partial_sort(key, index, START, k, size)
        return size
    return sort_top_buckets(logit, size, k, key, index)


@compiled
def _take(ids, logit, p, n, key, index):
    """The candidates become those at ``index[:n]``, whose logits are ``key[:n]``; both are used up."""
    for i in range(n):
        logit[i] = key[i]
        key[i] = p[index[i]]
        index[i] = ids[index[i]]
    for i in range(n):
        ids[i], p[i] = index[i], key[i]


@compiled
def keep_top(ids, logit, p, state, k, key, index):
    """Sort and keep the largest k. Source: llama_token_data_array_partial_sort_inplace."""
    sort_top(logit, state[SIZE], k, key, index)
    _take(ids, logit, p, k, key, index)
    state[SIZE], state[SORTED] = k, 1


@entry(types.void(_I, _F, _F, _S, types.int64, _F, _I))
def top_k(ids, logit, p, state, k, key, index):
    """Keep the k largest logits, in order. Source: llama_sampler_top_k_impl."""
    if k <= 0:
        return
    k = min(k, state[SIZE])
    if not state[SORTED]:
        keep_top(ids, logit, p, state, k, key, index)
    state[SIZE] = k


@compiled
def _largest(logit, state):
    """The largest logit: the first where they are sorted."""
    top = logit[0]
    if not state[SORTED]:
        for i in range(1, state[SIZE]):
            top = logit[i] if top < logit[i] else top
    return top


@compiled
def softmax(logit, p, state):
    """p_i = exp(l_i - max) / sum, the sum in single precision from left to right. Source: llama_sampler_softmax_impl."""
    top = _largest(logit, state)
    total = _ZERO
    for i in range(state[SIZE]):
        p[i] = expf(logit[i] - top)
        total += p[i]
    for i in range(state[SIZE]):
        p[i] /= total


@compiled
def sorted_softmax(ids, logit, p, state, key, index):
    """``softmax`` after sorting. Source: llama_sampler_softmax_impl with do_sort."""
    if not state[SORTED]:
        keep_top(ids, logit, p, state, state[SIZE], key, index)
    softmax(logit, p, state)


@entry(types.void(_I, _F, _F, _S, types.float32, types.int64, _F, _I))
def top_p(ids, logit, p, state, limit, min_keep, key, index):
    """Keep the largest candidates until their probabilities reach ``limit``.

    Unsorted ones are sorted only as far as they are needed: 256 at first where there are more than 1024.

    Source: llama_sampler_top_p_apply.
    """
    if limit >= _ONE:
        return
    softmax(logit, p, state)
    size = state[SIZE]
    lazy = False
    have = size
    if not state[SORTED]:
        if size > 1024:
            lazy = True
            have = _LAZY
            sort_top_buckets(logit, size, have, key, index)
        else:
            keep_top(ids, logit, p, state, size, key, index)
    total = _ZERO
    last = size
    for i in range(size):
        total += p[index[i]] if lazy else p[i]
        if total >= limit and i + 1 >= min_keep:
            last = i + 1
            break
        if lazy and i == have - 1:
            have = size
            sort_top_buckets(logit, size, have, key, index)
    if lazy:
        _take(ids, logit, p, last, key, index)
        state[SORTED] = 1
    state[SIZE] = last


@entry(types.void(_I, _F, _F, _S, types.float32, types.int64, _F, _I))
def min_p(ids, logit, p, state, limit, min_keep, key, index):
    """Keep candidates whose probability is at least ``limit`` of the largest: logit >= max + logf(limit).

    Source: llama_sampler_min_p_apply.
    """
    size = state[SIZE]
    if limit <= _ZERO or size == 0:
        return
    if not state[SORTED]:
        top = _LOWEST
        for i in range(size):
            top = logit[i] if top < logit[i] else top
        floor = top + logf(limit)
        kept = 0
        for i in range(size):
            kept += logit[i] >= floor
        if kept > 0 and kept >= min_keep:
            to = 0
            for i in range(size):
                if logit[i] >= floor:
                    ids[to], logit[to], p[to] = ids[i], logit[i], p[i]
                    to += 1
            state[SIZE] = kept
            return
        keep_top(ids, logit, p, state, size, key, index)
    floor = logit[0] + logf(limit)
    at = 1
    while at < size and not (logit[at] < floor and at >= min_keep):
        at += 1
    state[SIZE] = at


@entry(types.void(_F, _S, types.float32))
def temperature(logit, state, t):
    """Divide the logits by t; t <= 0 leaves only the first of the largest. Source: llama_sampler_temp_impl."""
    size = state[SIZE]
    if size == 0:
        return
    if t <= _ZERO:
        at = 0
        for i in range(1, size):
            if logit[i] > logit[at]:
                logit[at] = -_INF
                at = i
            else:
                logit[i] = -_INF
        return
    for i in range(size):
        logit[i] /= t


@entry(types.int64(_I, _F, _F, _S, _MT))
def dist(ids, logit, p, state, mt):
    """Select a candidate with its probability and return its id; p is normalized. One draw, even among one.

    p_i = expf(l_i - max) is single, their sum double; the first i whose running double sum reaches sum x draw.

    Source: llama_sampler_dist_apply.
    """
    size = state[SIZE]
    if size == 0:
        return -1
    drawn = uniform(mt)
    state[SELECTED] = 0
    if size == 1:
        p[0] = _ONE
        return ids[0]
    top = _largest(logit, state)
    total = np.float64(0)
    for i in range(size):
        p[i] = expf(logit[i] - top)
        total += np.float64(p[i])
    target = total * drawn
    running = np.float64(0)
    selected = size - 1
    found = False
    for i in range(size):
        if not found:
            running += np.float64(p[i])
            if running >= target:
                selected = i
                found = True
        p[i] = np.float32(np.float64(p[i]) / total)
    state[SELECTED] = selected
    return ids[selected]
