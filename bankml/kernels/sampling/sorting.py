# SPDX-License-Identifier: MIT OR Apache-2.0
"""libstdc++'s partial_sort and sort, with the order that they leave equal keys in.

Neither is stable, and an answer depends on which of two equal logits comes first. Every function here orders
``key[first:last]`` from largest to smallest (the comparison is ``a > b``) and moves ``index`` along; a NaN compares
false with everything, as in C++.

Source: GCC's libstdc++, bits/stl_heap.h and bits/stl_algo.h (the same since GCC 4.8).
"""

from __future__ import annotations

import numpy as np

from bankml.kernels.compiler import types
from bankml.kernels.compiler.native import compiled
from bankml.kernels.compiler.simd import stack_array

_KEYS, _PLACES = types.float32[::1], types.int32[::1]

START = np.int64(0)
"""Place 0. A plain 0 is a type of its own to numba, and would have every function here compiled once more."""

_INSERTION = 16  # _S_threshold of stl_algo.h
_stack_todo = stack_array(3 * 128)


@compiled
def sift(key, index, first, hole, length, k, i):
    """Put (k, i) into the heap ``[first, first + length)`` whose smallest key is its root, starting at ``hole``.

    Source: __adjust_heap, then __push_heap.
    """
    top = hole
    child = hole
    while child < (length - 1) // 2:
        child = 2 * (child + 1)
        if key[first + child] > key[first + child - 1]:
            child -= 1
        key[first + hole] = key[first + child]
        index[first + hole] = index[first + child]
        hole = child
    if length % 2 == 0 and child == (length - 2) // 2:
        child = 2 * (child + 1)
        key[first + hole] = key[first + child - 1]
        index[first + hole] = index[first + child - 1]
        hole = child - 1
    parent = (hole - 1) // 2
    while hole > top and key[first + parent] > k:
        key[first + hole] = key[first + parent]
        index[first + hole] = index[first + parent]
        hole = parent
        parent = (hole - 1) // 2
    key[first + hole] = k
    index[first + hole] = i


@compiled
def make_heap(key, index, first, last):
    """Heap of ``[first, last)``. Source: __make_heap."""
    length = last - first
    if length < 2:
        return
    parent = (length - 2) // 2
    while parent >= 0:
        sift(key, index, first, parent, length, key[first + parent], index[first + parent])
        parent -= 1


@compiled
def sort_heap(key, index, first, last):
    """The heap ``[first, last)`` in order. Source: __sort_heap, __pop_heap."""
    while last - first > 1:
        last -= 1
        k, i = key[last], index[last]
        key[last], index[last] = key[first], index[first]
        sift(key, index, first, START, last - first, k, i)


@compiled(types.void(_KEYS, _PLACES, types.int64, types.int64, types.int64))
def partial_sort(key, index, first, middle, last):
    """The largest ``middle - first`` of ``[first, last)`` in order at its front; the rest as evictions left it.

    An empty front still walks the rest in C++ (it compares with the first element and moves it); nothing is read of
    that, so it is left out here.

    Source: std::partial_sort = __heap_select, __sort_heap.
    """
    if middle == first:
        return
    make_heap(key, index, first, middle)
    for at in range(middle, last):
        if key[at] > key[first]:
            k, i = key[at], index[at]
            key[at], index[at] = key[first], index[first]
            sift(key, index, first, START, middle - first, k, i)
    sort_heap(key, index, first, middle)


@compiled
def _swap(key, index, a, b):
    key[a], key[b] = key[b], key[a]
    index[a], index[b] = index[b], index[a]


@compiled
def _insert_back(key, index, at, floor):
    """Move the element at ``at`` down to its place. Source: __unguarded_linear_insert; ``floor`` only guards against NaN."""
    k, i = key[at], index[at]
    while at > floor and k > key[at - 1]:
        key[at], index[at] = key[at - 1], index[at - 1]
        at -= 1
    key[at], index[at] = k, i


@compiled
def _insertion_sort(key, index, first, last):
    """Source: __insertion_sort."""
    for at in range(first + 1, last):
        if key[at] > key[first]:
            k, i = key[at], index[at]
            for to in range(at, first, -1):
                key[to], index[to] = key[to - 1], index[to - 1]
            key[first], index[first] = k, i
        else:
            _insert_back(key, index, at, first)


@compiled
def _partition(key, index, first, last):
    """Where ``[first, last)`` is cut after its pivot went to the front.

    Source: __unguarded_partition_pivot, __move_median_to_first, __unguarded_partition. The scans stop at the ends of the
    range, which only a NaN could make them leave.
    """
    a, b, c = first + 1, first + (last - first) // 2, last - 1
    if key[a] > key[b]:
        median = b if key[b] > key[c] else (c if key[a] > key[c] else a)
    else:
        median = a if key[a] > key[c] else (c if key[b] > key[c] else b)
    _swap(key, index, first, median)
    pivot = key[first]
    low, high = first + 1, last
    while True:
        while low < last and key[low] > pivot:
            low += 1
        high -= 1
        while high > first and pivot > key[high]:
            high -= 1
        if low >= high:
            return low
        _swap(key, index, low, high)
        low += 1


@compiled(types.void(_KEYS, _PLACES, types.int64, types.int64))
def sort(key, index, first, last):
    """``[first, last)`` in order. Source: std::sort = __introsort_loop, __final_insertion_sort."""
    if last - first < 2:
        return
    depth = 0
    length = last - first
    while length > 1:
        length >>= 1
        depth += 1
    todo = _stack_todo(0)
    todo[0], todo[1], todo[2] = first, last, 2 * depth
    waiting = 1
    while waiting > 0:
        waiting -= 1
        low, high, depth = todo[3 * waiting], todo[3 * waiting + 1], todo[3 * waiting + 2]
        while high - low > _INSERTION:
            if depth == 0:
                make_heap(key, index, low, high)
                sort_heap(key, index, low, high)
                break
            depth -= 1
            cut = _partition(key, index, low, high)
            todo[3 * waiting], todo[3 * waiting + 1], todo[3 * waiting + 2] = cut, high, depth
            waiting += 1
            high = cut
    if last - first > _INSERTION:
        _insertion_sort(key, index, first, first + _INSERTION)
        for at in range(first + _INSERTION, last):
            _insert_back(key, index, at, first)
    else:
        _insertion_sort(key, index, first, last)
