# SPDX-License-Identifier: MIT OR Apache-2.0
"""Two orders of libstdc++ that the reference's vocabulary depends on: an unsteady sort and a hash table's walk."""

from __future__ import annotations

from collections.abc import Sequence

from bankml.core.std_sort import std_sort

_MASK = (1 << 64) - 1
_MUL = 0xC6A4A7935BD1E995
_SEED = 0xC70F6907

# Bucket counts of an unordered_map that grows one element at a time.
_BUCKETS = (13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229, 172933, 351061, 712697, 1447153, 2938679)


def sort_longest_first(lengths: Sequence[int]) -> list[int]:
    """The indices in the order in which ``std::sort`` leaves them when longer comes first; ties fall as its swaps do."""
    indices = list(range(len(lengths)))
    std_sort(indices, lambda left, right: lengths[left] > lengths[right])
    return indices


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
