# SPDX-License-Identifier: MIT OR Apache-2.0
"""DRY: a token that would go on with a repetition is pushed down by how long the repetition already is.

Source: llama_sampler_dry_apply and get_overlapping_token_sequences, src/llama-sampler.cpp.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from bankml.core.sampling.candidates import Candidates, Floats, Ints

MAX_BREAKER_BYTES = 40
MAX_TAIL_TOKENS = 20
_FLOAT_MAX_LOG = np.float32(88.7228391)

Tail = tuple[int, ...]
"""The tokens that must follow a token to complete a breaker; empty where the token holds the whole of it."""


Tails = Callable[[int], frozenset[Tail]]
"""The tails of a token."""


class Pieces(Protocol):
    """What breakers need of a tokenizer."""

    def decode(self, tokens: Sequence[int], special: bool = ...) -> bytes:
        """The bytes of tokens; ``special`` shows control tokens."""
        ...

    def encode(self, text: str | bytes, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """Token ids of a text, which need not be UTF-8."""
        ...


class Breakers:
    """The breakers of one chain over one vocabulary; a token is looked at when the window first has it.

    A breaker is a string of bytes: it is cut after 40 of them, a token may end inside one of its characters, and what is left
    is tokenized all the same, with U+FFFD for each byte that belongs to no character.

    Source: get_overlapping_token_sequences, src/llama-sampler.cpp.
    """

    def __init__(self, strings: Sequence[str], vocabulary: Pieces) -> None:
        self._vocabulary = vocabulary
        self._by_first: dict[int, list[bytes]] = {}
        for string in dict.fromkeys(strings):
            # A C string: it ends at its first zero byte.
            breaker = string.encode("utf-8", "surrogatepass").split(b"\0")[0][:MAX_BREAKER_BYTES]
            if breaker:
                self._by_first.setdefault(breaker[0], []).append(breaker)
        self._tails: dict[int, frozenset[Tail]] = {}
        self._encoded: dict[bytes, Tail] = {}

    def tails(self, token: int) -> frozenset[Tail]:
        """What completes a breaker after this token: the empty tail where it holds one, no tail where none begins in it."""
        found = self._tails.get(token)
        if found is None:
            found = self._tails[token] = frozenset(self._found(self._vocabulary.decode([token], special=True)))
        return found

    def _found(self, word: bytes) -> set[Tail]:
        found: set[Tail] = set()
        held: set[bytes] = set()
        for place, byte in enumerate(word):
            for breaker in self._by_first.get(byte, ()):
                if breaker in held:
                    continue
                if breaker in word:
                    held.add(breaker)
                    found.add(())
                elif breaker.startswith(word[place:]):
                    found.add(self._encode(breaker[len(word) - place :]))
        return found

    def _encode(self, rest: bytes) -> Tail:
        if rest not in self._encoded:
            tokens = self._vocabulary.encode(rest, add_special=False, parse_special=False)
            self._encoded[rest] = tuple(tokens[:MAX_TAIL_TOKENS])
        return self._encoded[rest]


def no_breakers(token: int) -> frozenset[Tail]:
    """The tails of a chain without breakers."""
    return frozenset()


class Dry:
    """The sampler; ``last_n`` tokens are its window, prompt included. ``tails`` is that of its :class:`Breakers`."""

    __slots__ = ("_tails", "allowed", "base", "multiplier", "window")

    def __init__(self, multiplier: float, base: float, allowed: int, last_n: int, tails: Tails) -> None:
        self.multiplier = np.float32(multiplier)
        self.base = np.float32(base)
        self.allowed = allowed
        self._tails = tails
        self.window: deque[int] = deque(maxlen=last_n)

    def accept(self, token: int) -> None:
        """Source: llama_sampler_dry_accept."""
        self.window.appendleft(token)

    def apply(self, c: Candidates) -> None:
        """Source: llama_sampler_dry_apply."""
        from bankml.kernels.sampling import more as sampling_more
        from bankml.kernels.sampling import samplers as sampling

        n = len(self.window)
        if n <= self.allowed:
            return
        limit = self._reach()
        if limit < self.allowed:
            return
        recent: Ints = np.array(self.window, np.int32)
        lengths: Ints = np.empty(n, np.int32)
        sampling_more.repeat_lengths(recent, n, limit, lengths)
        longest = self._continuations(recent, lengths)
        pairs = [(token, self._penalty(length)) for token, length in longest.items() if () not in self._tails(token)]
        tokens: Ints = np.array([token for token, _ in pairs], np.int32)
        biases: Floats = np.array([-penalty for _, penalty in pairs], np.float32)
        sampling_more.add_bias(c.ids, c.logit, c.state, tokens, biases, np.empty_like(tokens))
        c.state[sampling.SORTED] = 0

    def _reach(self) -> int:
        """How many tokens back the newest breaker ends: no repetition is longer."""
        recent = self.window
        for i, token in enumerate(recent):
            longest = -1
            for tail in self._tails(token):
                if longest < len(tail) <= i and all(tail[k] == recent[i - k - 1] for k in range(len(tail))):
                    longest = len(tail)
            if longest >= 0:
                return i - longest
        return len(recent)

    def _continuations(self, recent: Ints, lengths: Ints) -> dict[int, int]:
        """Each token that would go on with a repetition, with the longest one."""
        longest: dict[int, int] = {}
        last = len(recent) - 2
        for i in np.flatnonzero(lengths[: last + 1] >= self.allowed):
            token = int(recent[last - i])
            longest[token] = max(longest.get(token, -1), int(lengths[i]))
        return longest

    def _penalty(self, length: int) -> np.float32:
        from bankml.kernels.sampling.more import double_power, single_log

        most = int(_FLOAT_MAX_LOG / single_log(self.base)) if self.base > np.float32(1.000001) else 0
        exponent = length - self.allowed
        if most > 0:
            exponent = min(exponent, most)
        with np.errstate(over="ignore"):
            return np.float32(float(self.multiplier) * double_power(float(self.base), float(exponent)))
