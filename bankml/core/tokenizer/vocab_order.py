# SPDX-License-Identifier: MIT OR Apache-2.0
"""Two orders of libstdc++ that the reference's vocabulary depends on: an unsteady sort and a hash table's walk."""

from __future__ import annotations

from collections.abc import Sequence

_MASK = (1 << 64) - 1
_MUL = 0xC6A4A7935BD1E995
_SEED = 0xC70F6907
_INSERTION_LIMIT = 16

# Bucket counts of an unordered_map that grows one element at a time.
_BUCKETS = (13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229, 172933, 351061, 712697, 1447153, 2938679)


def sort_longest_first(lengths: Sequence[int]) -> list[int]:
    """The indices in the order in which ``std::sort`` leaves them when longer comes first; ties fall as its swaps do.

    Source: std::__introsort_loop and std::__final_insertion_sort, libstdc++ bits/stl_algo.h.
    """
    items = [(length, index) for index, length in enumerate(lengths)]
    _introsort(items, 0, len(items), 2 * (len(items).bit_length() - 1))
    _insertion_sort(items)
    return [index for _, index in items]


_Items = list[tuple[int, int]]


def _before(left: tuple[int, int], right: tuple[int, int]) -> bool:
    return left[0] > right[0]


def _introsort(items: _Items, first: int, last: int, depth: int) -> None:
    while last - first > _INSERTION_LIMIT:
        if depth == 0:
            _heap_sort(items, first, last)
            return
        depth -= 1
        _median_to_first(items, first, first + 1, first + (last - first) // 2, last - 1)
        cut = _partition(items, first + 1, last, items[first])
        _introsort(items, cut, last, depth)
        last = cut


def _median_to_first(items: _Items, result: int, a: int, b: int, c: int) -> None:
    low, high = (a, b) if _before(items[a], items[b]) else (b, a)
    if _before(items[high], items[c]):
        median = high
    elif _before(items[low], items[c]):
        median = c
    else:
        median = low
    items[result], items[median] = items[median], items[result]


def _partition(items: _Items, first: int, last: int, pivot: tuple[int, int]) -> int:
    while True:
        while _before(items[first], pivot):
            first += 1
        last -= 1
        while _before(pivot, items[last]):
            last -= 1
        if first >= last:
            return first
        items[first], items[last] = items[last], items[first]
        first += 1


def _insertion_sort(items: _Items) -> None:
    for place in range(1, len(items)):
        item = items[place]
        hole = place
        while hole and _before(item, items[hole - 1]):
            items[hole] = items[hole - 1]
            hole -= 1
        items[hole] = item


def _heap_sort(items: _Items, first: int, last: int) -> None:
    size = last - first
    for top in range(size // 2 - 1, -1, -1):
        _sift(items, first, top, size, items[first + top])
    for end in range(size - 1, 0, -1):
        item = items[first + end]
        items[first + end] = items[first]
        _sift(items, first, 0, end, item)


def _sift(items: _Items, first: int, hole: int, size: int, item: tuple[int, int]) -> None:
    top = hole
    child = hole
    while child < (size - 1) // 2:
        child = 2 * (child + 1)
        if _before(items[first + child], items[first + child - 1]):
            child -= 1
        items[first + hole] = items[first + child]
        hole = child
    if size % 2 == 0 and child == (size - 2) // 2:
        child = 2 * child + 1
        items[first + hole] = items[first + child]
        hole = child
    while hole > top and _before(items[first + (hole - 1) // 2], item):
        items[first + hole] = items[first + (hole - 1) // 2]
        hole = (hole - 1) // 2
    items[first + hole] = item


def string_hash(data: bytes) -> int:
    """``std::hash<std::string>`` on a 64-bit machine.

    Source: std::_Hash_bytes, libstdc++ hash_bytes.cc.
    """
    whole = len(data) & ~7
    value = _SEED ^ (len(data) * _MUL & _MASK)
    for start in range(0, whole, 8):
        block = int.from_bytes(data[start : start + 8], "little") * _MUL & _MASK
        value = (value ^ ((block ^ block >> 47) * _MUL & _MASK)) * _MUL & _MASK
    if len(data) & 7:
        value = (value ^ int.from_bytes(data[whole:], "little")) * _MUL & _MASK
    value = (value ^ value >> 47) * _MUL & _MASK
    return value ^ value >> 47


def hash_order(keys: Sequence[str]) -> list[int]:
    """The order in which ``std::unordered_map`` walks over keys that were put in one after the other, as indices.

    Source: std::_Hashtable::_M_insert_bucket_begin and _M_rehash_aux, libstdc++ bits/hashtable.h.
    """
    hashes = [string_hash(key.encode()) for key in keys]
    order: list[int] = []
    placed = 0
    for buckets in _BUCKETS:
        groups: dict[int, list[int]] = {}
        full = min(buckets, len(keys))
        for index in (*order, *range(placed, full)):
            groups.setdefault(hashes[index] % buckets, []).append(index)
        order = [index for group in reversed(groups.values()) for index in reversed(group)]
        placed = full
        if placed == len(keys):
            break
    return order
