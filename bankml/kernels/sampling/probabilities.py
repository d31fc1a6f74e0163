# SPDX-License-Identifier: MIT OR Apache-2.0
"""Probabilities of tokens: of the raw logits with b11192's float sum, and of what the sampler chain left.

The sum is single precision over the whole vocabulary in the order that libstdc++'s partial_sort leaves, so it depends on
how many tokens are asked for. ``expf`` and ``logf`` are ``libm``'s.

Source: get_token_probabilities, tools/server/server-common.cpp; common_sampler_get_candidates, common/sampling.cpp.
"""

from __future__ import annotations

import numpy as np

from bankml.kernels.compiler import types
from bankml.kernels.compiler.native import compiled, entry
from bankml.kernels.libm.functions import expf, logf
from bankml.kernels.sampling.sorting import START, make_heap, sift, sort, sort_heap

_BLOCK = 64
# expf of anything below is under 2^-24, half a unit in the last place of a sum of 1 or more: adding it changes nothing.
_NOTHING = np.float32(-16.75)
_ZERO = np.float32(0)
_LOWEST = np.float32(np.finfo(np.float32).min)

_F = types.float32[::1]
_I = types.int32[::1]


@compiled
def _offer(key, ids, first, last, k):
    """Let each of ``key[first:last]`` that beats the root of the heap of k change places with it."""
    for i in range(first, last):
        if key[i] > key[0]:
            beats = key[i]
            key[i] = key[0]
            sift(key, ids, START, START, k, beats, np.int32(i))


@compiled
def _select(logits, k, key, ids):
    """``key``: the logits as partial_sort leaves them; ``ids[:k]``: whose the first k are.

    A block of 64 none of which beats the root is passed over in vector code.
    """
    n = logits.shape[0]
    for i in range(n):
        key[i] = logits[i]
    for i in range(k):
        ids[i] = i
    make_heap(key, ids, START, k)
    blocks = (n - k) // _BLOCK
    for at in range(k, k + blocks * _BLOCK, _BLOCK):
        # A view of fixed length: only so does LLVM make vector code of the loop.
        block = key[at : at + _BLOCK]
        root = key[0]
        beaten = np.int32(0)
        for i in range(_BLOCK):
            beaten |= np.int32(block[i] > root)
        if beaten != 0:
            _offer(key, ids, at, at + _BLOCK, k)
    _offer(key, ids, k + blocks * _BLOCK, n, k)
    sort_heap(key, ids, START, k)


@compiled
def _sum(key, n):
    """Sum of expf(key - key[0]) from left to right; ``key`` is used up.

    Blocks of 64 that add nothing are passed over in vector code; of the others all are added, for what adds nothing may be.
    """
    top = key[0]
    total = _ZERO
    blocks = n // _BLOCK
    for at in range(0, blocks * _BLOCK, _BLOCK):
        block = key[at : at + _BLOCK]
        counts = np.int32(0)
        for i in range(_BLOCK):
            counts |= np.int32(not block[i] - top < _NOTHING)
        if counts != 0:
            for i in range(_BLOCK):
                block[i] = expf(block[i] - top)
            for i in range(_BLOCK):
                total += block[i]
    for i in range(blocks * _BLOCK, n):
        total += expf(key[i] - top)
    return total


@compiled
def _log(p):
    """logf, the lowest float for 0. Source: completion_token_output::logarithm, tools/server/server-task.cpp."""
    return _LOWEST if p == _ZERO else logf(p)


@entry(types.float32(_F, types.int64, types.int64, _F, _I, _F))
def logprobs(logits, token, k, key, ids, values):
    """The logarithm of the token's probability; in ``ids[:k]`` and ``values[:k]`` the k most probable tokens and theirs.

    ``key`` is room for all logits, 1 <= k <= their number.
    """
    _select(logits, k, key, ids)
    top = key[0]
    for i in range(k):
        values[i] = key[i]
    total = _sum(key, logits.shape[0])
    for i in range(k):
        values[i] = _log(expf(values[i] - top) / total)
    return _log(expf(logits[token] - top) / total)


@entry(types.void(_F, types.int64, _F, _I))
def order_by_p(p, size, key, index):
    """``key`` and ``index``: ``p[:size]`` as std::sort orders it from largest to smallest, and the places they had."""
    for i in range(size):
        key[i] = p[i]
        index[i] = i
    sort(key, index, START, size)
