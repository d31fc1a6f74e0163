# SPDX-License-Identifier: MIT OR Apache-2.0
"""Byte-pair merging of many or long words at once: a hash table of pairs, a heap of merges that wait."""

from __future__ import annotations

import numpy as np

from bankml.kernels.compiler import types
from bankml.kernels.compiler.native import compiled, entry

_I4 = types.int32[::1]
_U1 = types.uint8[::1]
_I8 = types.int64[::1]

EMPTY = -1
_MIX = np.uint64(0x9E3779B97F4A7C15)


@compiled(types.int64(types.int64, types.int64))
def _slot(key, bits):
    return np.int64((np.uint64(key) * _MIX) >> np.uint64(64 - bits))


@entry(types.void(_I4, _I4, _I8, _I4, types.int64))
def fill(lefts, rights, keys, ranks, bits):
    """Put every pair into the open table ``keys`` (2**bits places, filled with EMPTY); ``ranks`` gets the pair's index.

    Of a pair that comes twice the first stays.
    """
    mask = (1 << bits) - 1
    for rank in range(lefts.size):
        key = np.int64(lefts[rank]) << 32 | np.int64(rights[rank])
        place = _slot(key, bits)
        while keys[place] != EMPTY and keys[place] != key:
            place = (place + 1) & mask
        if keys[place] == EMPTY:
            keys[place] = key
            ranks[place] = rank


@compiled(types.int64(types.int32, types.int32, _I8, _I4, types.int64))
def _rank(left, right, keys, ranks, bits):
    mask = (1 << bits) - 1
    key = np.int64(left) << 32 | np.int64(right)
    place = _slot(key, bits)
    while keys[place] != EMPTY:
        if keys[place] == key:
            return np.int64(ranks[place])
        place = (place + 1) & mask
    return np.int64(-1)


@compiled(types.void(_I8, types.int64, types.int64))
def _push(heap, size, item):
    place = size
    while place > 0:
        parent = (place - 1) >> 1
        if heap[parent] <= item:
            break
        heap[place] = heap[parent]
        place = parent
    heap[place] = item


@compiled(types.int64(_I8, types.int64))
def _pop(heap, size):
    top = heap[0]
    size -= 1
    item = heap[size]
    place = 0
    child = 1
    while child < size:
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if item <= heap[child]:
            break
        heap[place] = heap[child]
        place = child
        child = 2 * place + 1
    heap[place] = item
    return top


@entry(types.void(_U1, _I8, _I4, _I8, _I4, types.int64, _I4, _I4, _I8, types.int32[:, ::1], _I8))
def merge(data, ends, letters, keys, ranks, bits, results, symbols, counts, links, heap):
    """Merge each word; its symbols come to stand at the start of its span in ``symbols``.

    Args:
        data: the bytes of all words.
        ends: where each word ends in ``data``.
        letters: symbol of each byte.
        keys, ranks, bits: the table that :func:`fill` made.
        results: symbol that each merge makes, by rank.
        symbols: (out) as long as ``data``.
        counts: (out) how many symbols each word comes to.
        links: room for three rows of one more than the bytes of the longest word.
        heap: room for three times as many.
    """
    after, before, worth = links[0], links[1], links[2]
    start = 0
    for word in range(ends.size):
        size = ends[word] - start
        here = symbols[start : start + size]
        for place in range(size):
            here[place] = letters[data[start + place]]
            after[place] = place + 1
            before[place] = place - 1
        waiting = 0
        for place in range(size - 1):
            rank = _rank(here[place], here[place + 1], keys, ranks, bits)
            worth[place] = rank
            if rank >= 0:
                _push(heap, waiting, rank << 32 | place)
                waiting += 1
        while waiting > 0:
            item = _pop(heap, waiting)
            waiting -= 1
            place = item & 0xFFFFFFFF
            rank = item >> 32
            if worth[place] != rank:
                continue
            right = after[place]
            here[place] = results[rank]
            here[right] = EMPTY
            worth[right] = -1
            worth[place] = -1
            following = after[right]
            after[place] = following
            if following < size:
                before[following] = place
                rank = _rank(here[place], here[following], keys, ranks, bits)
                worth[place] = rank
                if rank >= 0:
                    _push(heap, waiting, rank << 32 | place)
                    waiting += 1
            ahead = before[place]
            if ahead >= 0:
                rank = _rank(here[ahead], here[place], keys, ranks, bits)
                worth[ahead] = rank
                if rank >= 0:
                    _push(heap, waiting, rank << 32 | ahead)
                    waiting += 1
        kept = 0
        for place in range(size):
            if here[place] != EMPTY:
                here[kept] = here[place]
                kept += 1
        counts[word] = kept
        start = ends[word]
