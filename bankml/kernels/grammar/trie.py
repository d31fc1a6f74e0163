# SPDX-License-Identifier: MIT OR Apache-2.0
"""A vocabulary as a trie of code points in preorder, and the walk that masks it for a state of a grammar's machine.

Siblings may be equal: the walk needs each token's path once, not each path once. A token that ends inside a UTF-8 sequence is
a leaf of its own, whose symbol is -1 less the number of its unfinished sequence.
"""

from __future__ import annotations

import numpy as np

from bankml.kernels.compiler import types
from bankml.kernels.compiler.native import compiled, entry
from bankml.kernels.grammar.machine import (
    CLASSES,
    ELEMENT,
    HAS_TOKEN,
    KIND,
    LOOP,
    LOOP_KNOWN,
    SET_START,
    SETS,
    STEP,
    TOKEN,
    WORK,
    advance,
    partial_fits,
    value_of,
)
from bankml.kernels.grammar.tokens import decode, fits

DEPTH, END, TOKENS, POINT = range(4)
"""Columns of a trie, int32[nodes + 1, 4]: depth; the node after the last descendant; where the node's own tokens begin in the
order; its code point, or -1 less the number of its unfinished sequence. Node 0 is the root and holds no tokens; the last row
only ends the tokens."""
COLUMNS = 4

SYMBOL, LOW, HIGH, REST = range(4)
"""Columns of a trie's marks for one grammar, int32[nodes, 4]: class of the code point, or the negative number; classes below the
node, by their remainder by 62, in two words; twice the first node that is no descendant of this one nor of the siblings that
follow with the same class, and 1 more where a leaf below this one is unfinished."""
MARKS = 4

_WORD = 31
_LOOP_CLASSES = 512
_LOOP_SIZE = 16

_A = types.int32[::1]
_T = types.int32[:, ::1]
_N = types.int64
_P = types.int64[::1]
_D = types.uint8[::1]
_M = types.uint8[::1]


@entry(types.Tuple((_N,) * 4)(_D, _P, _A, _T, _A, _A, _P, _P, _P, _P))
def build(data, offsets, ids, trie, order, always, open_values, open_remains, points, path):
    """Fill the trie from pieces sorted by their bytes; returns (nodes, tokens, always, unfinished sequences).

    Args:
        data: bytes of all pieces; ``offsets`` int64[n + 1].
        ids: int32[n], the pieces' tokens.
        trie: gets depth, tokens, and code points.
        always: int32[n], gets the tokens whose first code point is 0: they end before they begin.
        points, path: int64, room for two more than the bytes of a piece.
    """
    length = np.int64(0)
    nodes, placed, n_always, n_open = np.int64(1), np.int64(0), np.int64(0), np.int64(0)
    trie[0, TOKENS] = 0
    for i in range(ids.size):
        count, value, remain = decode(data, offsets[i], offsets[i + 1], np.int64(0), np.int64(0), points)
        if remain < 0:
            continue
        for j in range(count):
            if points[j] == 0:
                count = j
                break
        if count == 0 and remain == 0:
            always[n_always] = ids[i]
            n_always += 1
            continue
        shared = 0
        while shared < min(length, count) and path[shared] == points[shared]:
            shared += 1
        if (
            remain == 0
            and shared == count
            and not (shared == length and trie[nodes - 1, DEPTH] == count and trie[nodes - 1, POINT] >= 0)
        ):
            shared = count - 1
        for j in range(shared, count):
            trie[nodes, DEPTH] = j + 1
            trie[nodes, POINT] = points[j]
            trie[nodes, TOKENS] = placed
            path[j] = points[j]
            nodes += 1
        length = count
        if remain > 0:
            number = n_open
            for j in range(n_open):
                if open_values[j] == value and open_remains[j] == remain:
                    number = j
                    break
            if number == n_open:
                open_values[n_open] = value
                open_remains[n_open] = remain
                n_open += 1
            trie[nodes, DEPTH] = count + 1
            trie[nodes, POINT] = -1 - number
            trie[nodes, TOKENS] = placed
            nodes += 1
        order[placed] = ids[i]
        placed += 1
    trie[nodes, TOKENS] = placed
    return nodes, placed, n_always, n_open


@entry(types.void(_T, _P))
def ends(trie, waiting):
    """Where each node's descendants end; ``waiting`` is room for a number at each depth."""
    n = trie.shape[0] - 1
    current = -1
    for i in range(n):
        for d in range(trie[i, DEPTH], current + 1):
            trie[waiting[d], END] = i
        current = trie[i, DEPTH]
        waiting[current] = i
    for d in range(current + 1):
        trie[waiting[d], END] = n


@entry(types.void(_T, _A, _A, _T, types.int64[:, ::1]))
def mark(trie, index, classes, marks, gathered):
    """Fill the marks for a grammar.

    Args:
        index: int32[nodes]: where a node's symbol stands in ``classes``.
        classes: int32: class of each distinct code point, negative numbers as they are.
        gathered: int64[depth + 2, 3] of zeros.
    """
    n = trie.shape[0] - 1
    for i in range(n - 1, -1, -1):
        d = trie[i, DEPTH]
        for k in range(3):
            marks[i, LOW + k] = gathered[d + 1, k]
            gathered[d, k] |= gathered[d + 1, k]
            gathered[d + 1, k] = 0
        symbol = np.int64(classes[index[i]])
        marks[i, SYMBOL] = symbol
        rest = np.int64(trie[i, END])
        if rest < n and trie[rest, DEPTH] == d and marks[rest, SYMBOL] == symbol:
            rest = np.int64(marks[rest, REST] >> 1)
        marks[i, REST] = 2 * rest + (marks[i, REST] != 0)
        if symbol < 0:
            gathered[d, 2] = 1
        else:
            bit = symbol % (2 * _WORD)
            gathered[d, bit // _WORD] |= np.int64(1) << (bit % _WORD)


@compiled(_N(_A, _N))
def _know_loop(m, state):
    """Find the classes that lead a state back to itself."""
    low = high = (np.int64(1) << _WORD) - 1
    for cls in range(m[CLASSES]):
        following = advance(m, state, cls)
        if following < 0:
            return np.int64(-1)
        if following != state:
            bit = cls % (2 * _WORD)
            if bit < _WORD:
                low &= ~(np.int64(1) << bit)
            else:
                high &= ~(np.int64(1) << (bit - _WORD))
    m[m[LOOP] + 2 * state] = low
    m[m[LOOP] + 2 * state + 1] = high
    m[m[LOOP_KNOWN] + state] = 1
    return np.int64(0)


@compiled(types.void(_A, _T, _T, _A, _A, _N, _N, _M))
def _force(m, trie, marks, order, places, state, at, mask):
    """Let pass what token terminals take although characters came before: tokens that go on below a node."""
    for i in range(m[m[SET_START] + state], m[m[SET_START] + state + 1]):
        node = m[m[SETS] + i]
        if node == 0 or m[m[KIND] + m[m[ELEMENT] + node]] < TOKEN:
            continue
        token = value_of(m, m[m[ELEMENT] + node])
        place = np.int64(-1)
        if token < places.size:
            place = np.int64(places[token])
        is_not = m[m[KIND] + m[m[ELEMENT] + node]] != TOKEN
        m[WORK] += 1
        child = at + 1
        while child < trie[at, END]:
            if marks[child, SYMBOL] >= 0:
                first, last = np.int64(trie[child, TOKENS]), np.int64(trie[trie[child, END], TOKENS])
                if is_not:
                    m[WORK] += last - first
                    for j in range(first, last):
                        if j != place:
                            mask[order[j]] = 1
                elif first <= place < last:
                    mask[token] = 1
            child = np.int64(trie[child, END])


@entry(_N(_A, _T, _T, _A, _A, _P, _P, _N, _P, _M))
def walk(m, trie, marks, order, places, open_values, open_remains, state, states, mask):
    """Mark in ``mask`` the tokens that may come next; -1 when the machine is full.

    Args:
        order: int32: tokens as the trie holds them; ``places`` the inverse, -1 for a token that it does not hold.
        open_values: bits of the unfinished sequences; ``open_remains`` the bytes that they want.
        states: int64[depth + 1], room for the path.
    """
    classes = np.int64(m[CLASSES])
    states[0] = state
    if m[m[HAS_TOKEN] + state]:
        _force(m, trie, marks, order, places, state, 0, mask)
    i = np.int64(1)
    n = trie.shape[0] - 1
    while i < n:
        d = trie[i, DEPTH]
        before = states[d - 1]
        cls = np.int64(marks[i, SYMBOL])
        if cls < 0:
            fits_open = partial_fits(m, before, open_values[-1 - cls], open_remains[-1 - cls])
            if fits_open < 0:
                return np.int64(-1)
            if fits_open > 0:
                for j in range(trie[i, TOKENS], trie[i + 1, TOKENS]):
                    mask[order[j]] = 1
            i += 1
            continue
        after = np.int64(m[m[STEP] + before * classes + cls])
        if after < 0:
            after = advance(m, before, cls)
            if after < 0:
                return np.int64(-1)
        end = np.int64(trie[i, END])
        if after == 0:
            i = np.int64(marks[i, REST] >> 1)
            continue
        last = np.int64(trie[i + 1, TOKENS])
        following = i + 1
        if after == before and end - i > _LOOP_SIZE and classes <= _LOOP_CLASSES and not marks[i, REST] & 1:
            if not m[m[LOOP_KNOWN] + after] and _know_loop(m, after) < 0:
                return np.int64(-1)
            place = m[LOOP] + 2 * after
            if marks[i, LOW] & ~m[place] == 0 and marks[i, HIGH] & ~m[place + 1] == 0:
                last = np.int64(trie[end, TOKENS])
                following = end
        for j in range(trie[i, TOKENS], last):
            mask[order[j]] = 1
        if following != end:
            states[d] = after
            if m[m[HAS_TOKEN] + after]:
                _force(m, trie, marks, order, places, after, i, mask)
        i = following
    return np.int64(0)


@entry(_N(_A, _N, _D, _P, _A, _N, _N, _M, _P))
def check_many(m, state, data, offsets, ids, value, remain, mask, points):
    """Mask tokens one by one, after an unfinished UTF-8 sequence; -1 when the machine is full.

    ``points`` is room for two more than the bytes of a piece.
    """
    for i in range(ids.size):
        count, last, wants = decode(data, offsets[i], offsets[i + 1], value, remain, points)
        answer = fits(m, state, ids[i], points, count, last, wants)
        if answer < 0:
            return np.int64(-1)
        mask[ids[i]] = answer > 0
    return np.int64(0)
