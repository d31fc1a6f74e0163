# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tokens and a grammar's machine: pieces as code points, whether a token may come next, the state after it.

Source: decode_utf8, llama_grammar_reject_candidates_for_stack, llama_grammar_accept_token, src/llama-grammar.cpp.
"""

from __future__ import annotations

import numpy as np

from bankml.kernels.compiler import types
from bankml.kernels.compiler.native import compiled, entry
from bankml.kernels.grammar.machine import (
    CHOSEN,
    ELEMENT,
    GATHERED,
    HAS_TOKEN,
    KIND,
    PARENT,
    SET_START,
    SETS,
    STAMP,
    TOKEN,
    advance,
    class_of,
    ends_at,
    gather,
    intern,
    partial_fits,
    push,
    token_fits,
    value_of,
)

_A = types.int32[::1]
_N = types.int64
_P = types.int64[::1]
_D = types.uint8[::1]


@entry(types.Tuple((_N,) * 3)(_D, _N, _N, _N, _N, _P))
def decode(data, start, end, value, remain, points):
    """Code points of a piece after an unfinished sequence; returns (count, value, bytes that remain).

    Bytes after a first byte are not checked to be continuations, except those that finish an earlier piece; a byte that
    cannot begin a character drops everything and leaves -1 remaining. A piece ends at its first NUL.
    """
    count = np.int64(0)
    at = start
    began = remain
    while at < end and data[at] != 0 and remain > 0:
        if data[at] >> 6 != 2:
            return np.int64(0), np.int64(0), np.int64(-1)
        value = (value << 6) + np.int64(data[at] & 0x3F)
        at += 1
        remain -= 1
    if began > 0 and remain == 0:
        points[count] = value
        count += 1
    while at < end and data[at] != 0:
        high = data[at] >> 4
        remain = np.int64(0)
        if high >= 8:
            remain = np.int64(1)
            if high < 12:
                return np.int64(0), np.int64(0), np.int64(-1)
            if high == 14:
                remain = np.int64(2)
            elif high == 15:
                remain = np.int64(3)
        value = np.int64(data[at]) & ((1 << (7 - remain)) - 1)
        at += 1
        while at < end and data[at] != 0 and remain > 0:
            value = (value << 6) + np.int64(data[at] & 0x3F)
            at += 1
            remain -= 1
        if remain == 0:
            points[count] = value
            count += 1
    return count, value, remain


@entry(_N(_A, _N, _N, _P, _N, _N, _N))
def fits(m, state, token, points, count, value, remain):
    """1 when a token may come next, 0 when not. A code point 0 ends a piece here, and only here."""
    for i in range(count):
        if points[i] == 0:
            count = i
            break
    for i in range(count):
        if m[m[HAS_TOKEN] + state] and token_fits(m, state, token):
            return np.int64(1)
        state = advance(m, state, class_of(m, points[i]))
        if state <= 0:
            return state
    if remain == 0:
        return np.int64(1)
    return partial_fits(m, state, value, remain)


@compiled(_N(_A, _N, _N, _N))
def _choose(m, node, stamp, size):
    if m[m[CHOSEN] + node] != stamp:
        m[m[CHOSEN] + node] = stamp
        m[m[GATHERED] + size] = node
        size += 1
    return size


@entry(_N(_A, _N, _N, _P, _N))
def accept(m, state, token, points, count):
    """The state after a token; 0 when no stack is left. A token without code points leaves the stacks that want some."""
    end = np.int64(state)
    for i in range(count):
        end = advance(m, end, class_of(m, points[i]))
        if end <= 0:
            break
    if end < 0 or (count > 0 and not m[m[HAS_TOKEN] + state]):
        return end
    m[STAMP] += 1
    stamp = m[STAMP]
    size = np.int64(0)
    for i in range(m[m[SET_START] + state], m[m[SET_START] + state + 1]):
        node = m[m[SETS] + i]
        if node == 0:
            continue
        element = m[m[ELEMENT] + node]
        kind = m[m[KIND] + element]
        if kind < TOKEN:
            if count == 0:
                size = _choose(m, node, stamp, size)
        elif (value_of(m, element) == token) == (kind == TOKEN):
            after = np.int64(m[m[PARENT] + node])
            if not ends_at(m, element + 1):
                after = push(m, after, element + 1)
                if after < 0:
                    return np.int64(-1)
            size = gather(m, after, stamp, size)
            if size < 0:
                return np.int64(-1)
    if count > 0:
        for i in range(m[m[SET_START] + end], m[m[SET_START] + end + 1]):
            size = _choose(m, m[m[SETS] + i], stamp, size)
    return intern(m, size)
