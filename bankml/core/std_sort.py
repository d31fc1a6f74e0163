# SPDX-License-Identifier: MIT OR Apache-2.0
"""libstdc++'s std::sort over Python's objects: which of two equal ones comes first, and which pairs are compared, are its own.

Source: GCC's libstdc++, bits/stl_algo.h and bits/stl_heap.h (the same since GCC 4.8).

May import: nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Less = Callable[[Any, Any], bool]

_INSERTION = 16  # _S_threshold of stl_algo.h


class NoOrderError(ValueError):
    """The comparison contradicts itself, and the reference would read beyond the list."""


def std_sort(items: list[Any], less: Less) -> None:
    """Sort in place.

    Raises:
        NoOrderError: ``less`` is no order.
    """
    size = len(items)
    todo = [(0, size, 2 * (size.bit_length() - 1))]
    while todo:
        first, last, depth = todo.pop()
        while last - first > _INSERTION:
            if depth == 0:
                _heap_sort(items, first, last, less)
                break
            depth -= 1
            cut = _partition(items, first, last, less)
            # The right part is done first, with the left one waiting; what lies in the one never meets the other.
            todo.append((first, cut, depth))
            first = cut
    _insertion_sort(items, min(size, _INSERTION), less)


def _partition(items: list[Any], first: int, last: int, less: Less) -> int:
    """Where the parts meet. Source: __unguarded_partition_pivot, __move_median_to_first, __unguarded_partition."""
    a, b, c = first + 1, first + (last - first) // 2, last - 1
    if less(items[a], items[b]):
        median = b if less(items[b], items[c]) else c if less(items[a], items[c]) else a
    else:
        median = a if less(items[a], items[c]) else c if less(items[b], items[c]) else b
    items[first], items[median] = items[median], items[first]
    pivot, low, high = items[first], first + 1, last
    while True:
        while less(_at(items, low), pivot):
            low += 1
        high -= 1
        while less(pivot, _at(items, high)):
            high -= 1
        if not low < high:
            return low
        items[low], items[high] = items[high], items[low]
        low += 1


def _at(items: list[Any], place: int) -> Any:
    if not 0 <= place < len(items):
        raise NoOrderError
    return items[place]


def _insertion_sort(items: list[Any], head: int, less: Less) -> None:
    """The final pass over parts of at most 16. Source: __final_insertion_sort."""
    for place in range(1, len(items)):
        value, to = items[place], place
        if place < head and less(value, items[0]):
            to = 0
        else:
            while less(value, _at(items, to - 1)):
                to -= 1
        if to < place:
            del items[place]
            items.insert(to, value)


def _heap_sort(items: list[Any], first: int, last: int, less: Less) -> None:
    """Source: __partial_sort of a whole range: __make_heap, __sort_heap."""
    size = last - first
    for parent in range((size - 2) // 2, -1, -1):
        _sift(items, first, parent, size, items[first + parent], less)
    for end in range(last - 1, first, -1):
        value, items[end] = items[end], items[first]
        _sift(items, first, 0, end - first, value, less)


def _sift(items: list[Any], first: int, hole: int, size: int, value: Any, less: Less) -> None:
    """Source: __adjust_heap, __push_heap."""
    top = child = hole
    while child < (size - 1) // 2:
        child = 2 * (child + 1)
        if less(items[first + child], items[first + child - 1]):
            child -= 1
        items[first + hole] = items[first + child]
        hole = child
    if size % 2 == 0 and child == (size - 2) // 2:
        child = 2 * (child + 1)
        items[first + hole] = items[first + child - 1]
        hole = child - 1
    parent = (hole - 1) // 2
    while hole > top and less(items[first + parent], value):
        items[first + hole] = items[first + parent]
        hole = parent
        parent = (hole - 1) // 2
    items[first + hole] = value
