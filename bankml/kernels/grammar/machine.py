# SPDX-License-Identifier: MIT OR Apache-2.0
"""A grammar's stack machine, its sets of stacks made into states on demand, and walks over a vocabulary's trie.

A stack is a node (parent, element); node 0 is the empty stack. A state is a sorted set of nodes whose top is a terminal, or
of node 0; state 0 is the empty set. A code point counts by its class: classes are the intervals that no element tells apart.
Every function gives -1 when an array is full and leaves what was found valid: make the section that ``m[FULL]`` names larger, ask
again. Source: llama_grammar_advance_stack, llama_grammar_accept_token, llama_grammar_reject_candidates_for_stack,
src/llama-grammar.cpp.
"""

from __future__ import annotations

import numpy as np

from bankml.kernels.compiler import types
from bankml.kernels.compiler.native import compiled, entry

END, ALT, RULE_REF, CHAR, CHAR_NOT, CHAR_RNG_UPPER, CHAR_ALT, CHAR_ANY, TOKEN, TOKEN_NOT = range(10)

# A machine is one int32 array. First counts: how much is used, what is full, work done and granted, and the room there is.
N_NODES, N_STATES, N_CLOSED, N_SETS, STAMP, FULL, WORK, BUDGET, CLASSES, NODE_ROOM, STATE_ROOM, CLOSED_ROOM, SET_ROOM = range(13)
NODE_MASK, SET_MASK = 13, 14
FULL_BUDGET = 9

# Then the places where its sections begin:
KIND, VALUE = 15, 16  # of elements
ALT_START, ALT_ELEMENT = 17, 18  # of rules: their alternatives; of alternatives: the first element
BOUNDS = 19  # of classes: the first code point
PARENT, ELEMENT, CLOSED_START, CLOSED_SIZE = 20, 21, 22, 23  # of nodes; CLOSED_START is -1 where the closure is not known
SEEN, CHOSEN = 24, 25  # of nodes: the stamps of the closure and of the set that met the node last
TODO, GATHERED = 26, 27  # room for as many nodes
CLOSED = 28  # closures one after the other
SET_START, HAS_TOKEN, LOOP_KNOWN, LOOP = 29, 30, 31, 32  # of states; LOOP: 62 bits in two words, classes that lead back
SETS = 33  # the sets of states one after the other
STEP = 34  # of states and classes: the following state, -1 where not known
NODE_HASH, SET_HASH = 35, 36  # powers of two, -1 where free
HEAD = 37

_A = types.int32[::1]
_N = types.int64
_U = types.uint64
_B = types.boolean


@compiled(_U(_N, _N))
def _mix(a, b):
    # Signed numbers taken as they stand.
    x = (np.uint64(a) * np.uint64(0x9E3779B97F4A7C15)) ^ (np.uint64(b) + np.uint64(0x7F4A7C15))
    x *= np.uint64(0xBF58476D1CE4E5B9)
    return x ^ (x >> np.uint64(29))


@compiled(_N(_A, _N))
def value_of(m, element):
    """The code point, rule or token of an element."""
    return np.int64(m[m[VALUE] + element]) & 0xFFFFFFFF


@entry(_N(_A, _N, _N))
def push(m, parent, element):
    """The node of a stack: ``parent`` with ``element`` on top."""
    mask = m[NODE_MASK]
    m[WORK] += 1
    place = np.int64(_mix(parent, element) & np.uint64(mask))
    while m[m[NODE_HASH] + place] >= 0:
        node = m[m[NODE_HASH] + place]
        if m[m[PARENT] + node] == parent and m[m[ELEMENT] + node] == element:
            return np.int64(node)
        place = (place + 1) & mask
    node = m[N_NODES]
    if node >= m[NODE_ROOM]:
        m[FULL] = N_NODES
        return np.int64(-1)
    # A new node touches memory in eight places.
    m[WORK] += 3
    m[m[PARENT] + node] = parent
    m[m[ELEMENT] + node] = element
    m[m[CLOSED_START] + node] = -1
    m[m[SEEN] + node] = 0
    m[m[CHOSEN] + node] = 0
    m[m[NODE_HASH] + place] = node
    m[N_NODES] = node + 1
    return np.int64(node)


@compiled(_B(_A, _N))
def ends_at(m, element):
    """Whether an alternative is over at an element."""
    return m[m[KIND] + element] <= ALT


@compiled(_N(_A, _N))
def close(m, node):
    """Remember the stacks that a stack becomes when its rule references are opened until a terminal is on top."""
    if m[m[CLOSED_START] + node] >= 0:
        return np.int64(0)
    m[STAMP] += 1
    stamp = m[STAMP]
    start = m[N_CLOSED]
    size = 0
    m[m[TODO] + 0] = node
    m[m[SEEN] + node] = stamp
    waiting = 1
    while waiting > 0:
        waiting -= 1
        current = m[m[TODO] + waiting]
        m[WORK] += 1
        element = m[m[ELEMENT] + current]
        if current == 0 or m[m[KIND] + element] != RULE_REF:
            if start + size >= m[CLOSED_ROOM]:
                m[FULL] = N_CLOSED
                return np.int64(-1)
            m[m[CLOSED] + start + size] = current
            size += 1
            continue
        if m[WORK] > m[BUDGET]:
            m[FULL] = FULL_BUDGET
            return np.int64(-1)
        base = np.int64(m[m[PARENT] + current])
        if not ends_at(m, element + 1):
            base = push(m, base, element + 1)
            if base < 0:
                return np.int64(-1)
        rule = value_of(m, element)
        for i in range(m[m[ALT_START] + rule], m[m[ALT_START] + rule + 1]):
            first = m[m[ALT_ELEMENT] + i]
            following = base
            if not ends_at(m, first):
                following = push(m, base, first)
                if following < 0:
                    return np.int64(-1)
            if m[m[SEEN] + following] != stamp:
                m[m[SEEN] + following] = stamp
                m[m[TODO] + waiting] = following
                waiting += 1
    m[m[CLOSED_SIZE] + node] = size
    m[m[CLOSED_START] + node] = start
    m[N_CLOSED] = start + size
    return np.int64(0)


@compiled(_N(_A, _N, _N, _N))
def gather(m, node, stamp, size):
    """Add a stack's closure to the set that is being gathered; returns the set's size."""
    if close(m, node) < 0:
        return np.int64(-1)
    start = m[m[CLOSED_START] + node]
    for i in range(start, start + m[m[CLOSED_SIZE] + node]):
        m[WORK] += 1
        member = m[m[CLOSED] + i]
        if m[m[CHOSEN] + member] != stamp:
            m[m[CHOSEN] + member] = stamp
            m[m[GATHERED] + size] = member
            size += 1
    if m[WORK] > m[BUDGET]:
        m[FULL] = FULL_BUDGET
        return np.int64(-1)
    return np.int64(size)


@compiled(_U(_A, _N, _N))
def _set_mix(items, start, end):
    value = np.uint64(end - start)
    for i in range(start, end):
        value = _mix(np.int64(value), items[i])
    return value


@entry(types.void(_A))
def rehash_nodes(m):
    """Fill the nodes' hash table again, after it was made anew."""
    mask = m[NODE_MASK]
    for node in range(1, m[N_NODES]):
        place = np.int64(_mix(m[m[PARENT] + node], m[m[ELEMENT] + node]) & np.uint64(mask))
        while m[m[NODE_HASH] + place] >= 0:
            place = (place + 1) & mask
        m[m[NODE_HASH] + place] = node


@entry(types.void(_A))
def rehash_sets(m):
    """Fill the sets' hash table again, after it was made anew."""
    mask = m[SET_MASK]
    for state in range(m[N_STATES]):
        place = np.int64(_set_mix(m, m[SETS] + m[m[SET_START] + state], m[SETS] + m[m[SET_START] + state + 1]) & np.uint64(mask))
        while m[m[SET_HASH] + place] >= 0:
            place = (place + 1) & mask
        m[m[SET_HASH] + place] = state


@compiled(types.void(_A, _N, _N, _N))
def _sort(m, start, size, room):
    """Sort a part of the machine by merging runs, through room of the same size.

    A set comes as runs, most often one that falls: a quicksort takes the square of its size for some of those.
    """
    falls = rises = True
    for i in range(start + 1, start + size):
        falls = falls and m[i - 1] > m[i]
        rises = rises and m[i - 1] < m[i]
    if rises:
        return
    if falls:
        for i in range(size // 2):
            m[start + i], m[start + size - 1 - i] = m[start + size - 1 - i], m[start + i]
        return
    width = 1
    while width < size:
        for low in range(0, size, 2 * width):
            middle, high = min(low + width, size), min(low + 2 * width, size)
            a, b = low, middle
            for i in range(low, high):
                if a < middle and (b >= high or m[start + a] <= m[start + b]):
                    m[room + i] = m[start + a]
                    a += 1
                else:
                    m[room + i] = m[start + b]
                    b += 1
        for i in range(size):
            m[start + i] = m[room + i]
        width *= 2


@entry(_N(_A, _N))
def intern(m, size):
    """The state of the gathered set."""
    # Sorting and storing a set costs more than gathering it.
    m[WORK] += 4 * size
    _sort(m, m[GATHERED], size, m[TODO])
    found = m[m[GATHERED] : m[GATHERED] + size]
    mask = m[SET_MASK]
    place = np.int64(_set_mix(found, 0, size) & np.uint64(mask))
    while m[m[SET_HASH] + place] >= 0:
        state = m[m[SET_HASH] + place]
        start = m[m[SET_START] + state]
        if m[m[SET_START] + state + 1] - start == size:
            same = True
            for i in range(size):
                if m[m[SETS] + start + i] != found[i]:
                    same = False
                    break
            if same:
                return np.int64(state)
        place = (place + 1) & mask
    state = m[N_STATES]
    if state >= m[STATE_ROOM]:
        m[FULL] = N_STATES
        return np.int64(-1)
    start = m[N_SETS]
    if start + size > m[SET_ROOM]:
        m[FULL] = N_SETS
        return np.int64(-1)
    has_token = 0
    for i in range(size):
        m[m[SETS] + start + i] = found[i]
        if found[i] > 0 and m[m[KIND] + m[m[ELEMENT] + found[i]]] >= TOKEN:
            has_token = 1
    m[m[SET_START] + state] = start
    m[m[SET_START] + state + 1] = start + size
    m[m[HAS_TOKEN] + state] = has_token
    m[m[LOOP_KNOWN] + state] = 0
    first = m[STEP] + state * m[CLASSES]
    m[first : first + m[CLASSES]] = -1
    m[m[SET_HASH] + place] = state
    m[N_STATES] = state + 1
    m[N_SETS] = start + size
    return np.int64(state)


@entry(_N(_A, _N))
def start_state(m, rule):
    """The state before anything was accepted."""
    m[STAMP] += 1
    stamp = m[STAMP]
    size = np.int64(0)
    for i in range(m[m[ALT_START] + rule], m[m[ALT_START] + rule + 1]):
        first = m[m[ALT_ELEMENT] + i]
        node = np.int64(0)
        if not ends_at(m, first):
            node = push(m, 0, first)
        if node < 0:
            return np.int64(-1)
        size = gather(m, node, stamp, size)
        if size < 0:
            return np.int64(-1)
    return intern(m, size)


@compiled(types.Tuple((_B, _N))(_A, _N, _N))
def _match(m, element, point):
    """Whether a code point satisfies a terminal, and the element after it."""
    positive = m[m[KIND] + element] != CHAR_NOT
    found = False
    while True:
        m[WORK] += 1
        if m[m[KIND] + element + 1] == CHAR_RNG_UPPER:
            found = found or (value_of(m, element) <= point <= value_of(m, element + 1))
            element += 2
        elif m[m[KIND] + element] == CHAR_ANY:
            found = True
            element += 1
        else:
            found = found or value_of(m, element) == point
            element += 1
        if m[m[KIND] + element] != CHAR_ALT:
            return found == positive, element


@compiled(_B(_A, _N, _N, _N))
def _match_partial(m, element, value, remain):
    """Whether some end of an unfinished UTF-8 sequence could satisfy a terminal."""
    positive = m[m[KIND] + element] != CHAR_NOT
    if remain < 0 or (remain == 1 and value < 2):
        return False
    low = value << (remain * 6)
    high = low | ((1 << (remain * 6)) - 1)
    if low == 0:
        if remain == 2:
            low = 1 << 11
        elif remain == 3:
            low = 1 << 16
    while True:
        m[WORK] += 1
        if m[m[KIND] + element + 1] == CHAR_RNG_UPPER:
            if value_of(m, element) <= high and low <= value_of(m, element + 1):
                return positive
            element += 2
        elif m[m[KIND] + element] == CHAR_ANY:
            return True
        else:
            if low <= value_of(m, element) and value_of(m, element) <= high:
                return positive
            element += 1
        if m[m[KIND] + element] != CHAR_ALT:
            return not positive


@compiled(_N(_A, _N, _N))
def advance(m, state, cls):
    """The state after one code point of a class; 0 when no stack is left."""
    known = m[m[STEP] + state * m[CLASSES] + cls]
    if known >= 0:
        return np.int64(known)
    point = m[m[BOUNDS] + cls]
    m[STAMP] += 1
    stamp = m[STAMP]
    size = np.int64(0)
    for i in range(m[m[SET_START] + state], m[m[SET_START] + state + 1]):
        node = m[m[SETS] + i]
        if node == 0 or m[m[KIND] + m[m[ELEMENT] + node]] >= TOKEN:
            continue
        matches, following = _match(m, m[m[ELEMENT] + node], point)
        if m[WORK] > m[BUDGET]:
            m[FULL] = FULL_BUDGET
            return np.int64(-1)
        if matches:
            after = np.int64(m[m[PARENT] + node])
            if not ends_at(m, following):
                after = push(m, after, following)
                if after < 0:
                    return np.int64(-1)
            size = gather(m, after, stamp, size)
            if size < 0:
                return np.int64(-1)
    result = intern(m, size)
    if result >= 0:
        m[m[STEP] + state * m[CLASSES] + cls] = result
    return result


@compiled(_N(_A, _N, _N, _N))
def partial_fits(m, state, value, remain):
    """1 when some stack could go on with an unfinished UTF-8 sequence, 0 when none; -1 when that takes too much work."""
    if m[WORK] > m[BUDGET]:
        m[FULL] = FULL_BUDGET
        return np.int64(-1)
    for i in range(m[m[SET_START] + state], m[m[SET_START] + state + 1]):
        node = m[m[SETS] + i]
        if node > 0 and m[m[KIND] + m[m[ELEMENT] + node]] < TOKEN and _match_partial(m, m[m[ELEMENT] + node], value, remain):
            return np.int64(1)
    return np.int64(0)


@compiled(_B(_A, _N, _N))
def token_fits(m, state, token):
    """Whether a token terminal on top of a stack takes the token."""
    m[WORK] += m[m[SET_START] + state + 1] - m[m[SET_START] + state]
    for i in range(m[m[SET_START] + state], m[m[SET_START] + state + 1]):
        node = m[m[SETS] + i]
        if node > 0:
            kind = m[m[KIND] + m[m[ELEMENT] + node]]
            if kind >= TOKEN and (value_of(m, m[m[ELEMENT] + node]) == token) == (kind == TOKEN):
                return True
    return False


@compiled(_N(_A, _N))
def class_of(m, point):
    """The class of a code point."""
    low, high = np.int64(0), np.int64(m[CLASSES])
    while high - low > 1:
        middle = (low + high) >> 1
        if m[m[BOUNDS] + middle] <= point:
            low = middle
        else:
            high = middle
    return low
