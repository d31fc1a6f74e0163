# SPDX-License-Identifier: MIT OR Apache-2.0
"""A grammar's rules as flat arrays, and the machine over them that grows as it is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bankml.core.constrain.gbnf import ALT, CHAR, CHAR_ANY, CHAR_RNG_UPPER, END, TOKEN, Rules, limit
from bankml.kernels.grammar import machine as kernel
from bankml.refusal import Refusal

_STEPS: Final = 10_000_000
_ROOMS: Final = {
    kernel.N_NODES: (kernel.NODE_ROOM, 1 << 12, 1 << 20),
    kernel.N_STATES: (kernel.STATE_ROOM, 1 << 9, 1 << 18),
    kernel.N_CLOSED: (kernel.CLOSED_ROOM, 1 << 13, 1 << 23),
    kernel.N_SETS: (kernel.SET_ROOM, 1 << 13, 1 << 23),
}
"""What may be full: where its room stands, its first and its largest room. All of it is less than 256 MiB."""
_WORK: Final = 12_000_000
"""Work that is granted at first, some 0.3 s of it; each token brings the second number more, up to the first."""
_WORK_A_TOKEN: Final = 7_000_000
MAX_POINT: Final = 1 << 22
"""One more than the largest value that lenient UTF-8 gives."""

Ints = npt.NDArray[Any]


def _flat(rules: Rules) -> tuple[Ints, Ints, Ints, Ints]:
    """Kinds and values of all elements with references resolved, and where each rule's alternatives begin."""
    lengths = [len(rule) for rule in rules.rules]
    flat = np.array([element for rule in rules.rules for element in rule], np.int64).reshape(-1, 2)
    kind, value = flat[:, 0].astype(np.int32), flat[:, 1]
    rule_start = np.concatenate([[0], np.cumsum(lengths)])
    # The reference stops copying a rule at its first END; a rule holds none but its last.
    first = np.zeros(len(kind) + 1, np.bool_)
    first[rule_start[:-1]] = True
    first[1:] |= kind == ALT
    element = np.flatnonzero(first[:-1])
    alt_start = np.searchsorted(element, rule_start)
    return kind, value, alt_start.astype(np.int32), element.astype(np.int32)


def _bounds(kind: Ints, value: Ints) -> Ints:
    """The first code point of each class of code points that no element tells apart."""
    char = (kind >= CHAR) & (kind <= CHAR_ANY)
    is_upper = kind == CHAR_RNG_UPPER
    opens_range = np.append(is_upper[1:], False)
    lows = value[char & ~is_upper]
    ups = value[char & ~opens_range] + 1
    found = np.unique(np.concatenate([[0], lows, ups])).astype(np.int64)
    return found[found < MAX_POINT]


class Machine:
    """States of a grammar and the steps between them, found when asked for and kept."""

    def __init__(self, rules: Rules) -> None:
        kind, value, alt_start, alt_element = _flat(rules)
        self.has_tokens = bool((kind >= TOKEN).any())
        self.bounds = _bounds(kind, value)
        self._fixed = {
            kernel.KIND: kind,
            kernel.VALUE: value.astype(np.uint32).view(np.int32),
            kernel.ALT_START: alt_start,
            kernel.ALT_ELEMENT: alt_element,
            kernel.BOUNDS: self.bounds.astype(np.int32),
        }
        self._left = _WORK
        self._begin()

    def ask(self, question: Callable[..., int], *rest: Any) -> int:
        """The answer of a kernel that may find the machine full.

        Raises:
            Refusal: ``grammar.limit`` when the grammar takes more work or memory than bankml grants.
        """
        self._array[kernel.WORK], self._array[kernel.BUDGET] = 0, self._left
        while True:
            answer = int(question(self._array, *rest))
            if answer >= 0:
                self._left -= min(int(self._array[kernel.WORK]), self._left)
                return answer
            self._grow(int(self._array[kernel.FULL]))

    def granted(self) -> None:
        """A token was taken: more work is granted."""
        self._left = min(self._left + _WORK_A_TOKEN, _WORK)

    def stacks(self, state: int) -> Ints:
        """The nodes of a state."""
        start, end = self._section(kernel.SET_START)[state : state + 2]
        found: Ints = self._section(kernel.SETS)[start:end]
        return found

    def ends(self, state: int) -> bool:
        """Whether the text may end in a state: one of its stacks is empty."""
        nodes = self.stacks(state)
        return bool(nodes.size and nodes[0] == 0)

    def restart(self, state: int) -> int:
        """Forget everything but one state; returns its new number."""
        parent, element = self._section(kernel.PARENT), self._section(kernel.ELEMENT)
        stacks = []
        for node in self.stacks(state).tolist():
            path, at = [], node
            while at:
                path.append(int(element[at]))
                at = int(parent[at])
            stacks.append(path)
        self._begin()
        return self.ask(_state_of, stacks)

    def large(self) -> bool:
        """Whether so much is kept that forgetting pays."""
        return any(4 * int(self._array[used]) > self._most(used) for used in _ROOMS)

    def _begin(self) -> None:
        self._rooms = {used: min(first, self._most(used)) for used, (_, first, _) in _ROOMS.items()}
        self._measure()
        self._array = self._made()
        self._array[kernel.N_NODES] = 1
        self._section(kernel.CLOSED_START)[0] = -1
        kernel.intern(self._array, 0)

    def _most(self, used: int) -> int:
        most = _ROOMS[used][2]
        return min(most, _STEPS // len(self.bounds)) if used == kernel.N_STATES else most

    def _grow(self, used: int) -> None:
        if used not in _ROOMS or self._rooms[used] >= self._most(used):
            raise limit("the grammar has too many ways to go on", None, "what fits a second and 256 MiB")
        self._rooms[used] = min(4 * self._rooms[used], self._most(used))
        old = self._array
        new = self._made()
        for counter in (*_ROOMS, kernel.STAMP, kernel.WORK, kernel.BUDGET):
            new[counter] = old[counter]
        # A hash table of another size is filled anew.
        anew = {kernel.N_NODES: kernel.NODE_HASH, kernel.N_STATES: kernel.SET_HASH}.get(used)
        for section in range(kernel.KIND, kernel.HEAD):
            if section != anew:
                start, size = int(old[section]), self._sizes[section]
                place = int(new[section])
                new[place : place + size] = old[start : start + size]
        self._array = new
        self._measure()
        if anew == kernel.NODE_HASH:
            kernel.rehash_nodes(new)
        elif anew == kernel.SET_HASH:
            kernel.rehash_sets(new)

    def _section(self, section: int) -> Ints:
        start = int(self._array[section])
        return self._array[start : start + self._sizes[section]]

    def _layout(self) -> dict[int, int]:
        nodes, states = self._rooms[kernel.N_NODES], self._rooms[kernel.N_STATES]
        sizes = {section: len(values) for section, values in self._fixed.items()}
        for section in range(kernel.PARENT, kernel.GATHERED + 1):
            sizes[section] = nodes + 1
        sizes[kernel.CLOSED] = self._rooms[kernel.N_CLOSED]
        for section in (kernel.SET_START, kernel.HAS_TOKEN, kernel.LOOP_KNOWN):
            sizes[section] = states + 1
        sizes[kernel.LOOP] = 2 * states
        sizes[kernel.SETS] = self._rooms[kernel.N_SETS]
        sizes[kernel.STEP] = states * len(self.bounds)
        sizes[kernel.NODE_HASH], sizes[kernel.SET_HASH] = 2 * _power(nodes), 2 * _power(states)
        return sizes

    def _measure(self) -> None:
        self._sizes = self._layout()

    def _made(self) -> Ints:
        sizes = self._layout()
        array = np.zeros(kernel.HEAD + sum(sizes.values()), np.int32)
        place = kernel.HEAD
        for section in range(kernel.KIND, kernel.HEAD):
            array[section] = place
            place += sizes[section]
        for section, values in self._fixed.items():
            start = int(array[section])
            array[start : start + len(values)] = values
        array[array[kernel.NODE_HASH] :] = -1
        for used, (room, _, _) in _ROOMS.items():
            array[room] = self._rooms[used]
        array[kernel.CLASSES] = len(self.bounds)
        array[kernel.NODE_MASK], array[kernel.SET_MASK] = sizes[kernel.NODE_HASH] - 1, sizes[kernel.SET_HASH] - 1
        return array


def _power(size: int) -> int:
    return 1 << (size - 1).bit_length()


def _state_of(array: Ints, stacks: list[list[int]]) -> int:
    nodes = []
    for path in stacks:
        node = 0
        for element in reversed(path):
            node = int(kernel.push(array, node, element))
            if node < 0:
                return -1
        nodes.append(node)
    start = int(array[kernel.GATHERED])
    array[start : start + len(nodes)] = nodes
    return int(kernel.intern(array, len(nodes)))


def check_left_recursion(rules: Rules) -> None:
    """Refuse rules that may come back to themselves before any terminal.

    Raises:
        Refusal: ``grammar.left-recursion``, in the reference's words.

    Source: llama_grammar_detect_left_recursion, src/llama-grammar.cpp. As there, a rule counts as possibly empty only when
    one of its alternatives is written empty.
    """
    empty = [_may_be_empty(rule) for rule in rules.rules]
    leftmost = [_leftmost(rule, empty) for rule in rules.rules]
    done, open_rules = [False] * len(leftmost), [False] * len(leftmost)
    for first in range(len(leftmost)):
        if done[first]:
            continue
        path = [(first, iter(leftmost[first]))]
        open_rules[first] = True
        while path:
            rule, rest = path[-1]
            following = next(rest, None)
            if following is None:
                path.pop()
                open_rules[rule], done[rule] = False, True
            elif open_rules[following]:
                names = {number: name for name, number in rules.symbols.items()}
                raise Refusal(
                    "grammar.left-recursion",
                    f"unsupported grammar, left recursion detected for nonterminal at index {first}",
                    found=names[following].decode("latin-1"),
                )
            elif not done[following]:
                open_rules[following] = True
                path.append((following, iter(leftmost[following])))


def _may_be_empty(rule: list[tuple[int, int]]) -> bool:
    at_start = True
    for kind, _ in rule:
        if kind in (END, ALT):
            if at_start:
                return True
            at_start = True
        else:
            at_start = False
    return False


def _leftmost(rule: list[tuple[int, int]], empty: list[bool]) -> list[int]:
    found = []
    leading = True
    for kind, value in rule:
        if kind in (END, ALT):
            leading = True
        elif leading and kind == 2:
            found.append(value)
            leading = empty[value]
        else:
            leading = False
    return found
