# SPDX-License-Identifier: MIT OR Apache-2.0
"""DRY: a token that would go on with a repetition is pushed down by how long the repetition already is.

Source: llama_sampler_dry_apply and get_overlapping_token_sequences, src/llama-sampler.cpp.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol
from weakref import WeakKeyDictionary

import numpy as np

from bankml.core.refusal import Refusal
from bankml.core.sampling.candidates import Candidates, Floats, Ints

MAX_BREAKER_BYTES = 40
MAX_TAIL_TOKENS = 20
_FLOAT_MAX_LOG = np.float32(88.7228391)

Breakers = dict[int, list[tuple[int, ...]]]
"""First token of a breaker -> what must follow it, one entry for each way."""

_KEPT = 16


class Pieces(Protocol):
    """What breakers need of a tokenizer."""

    @property
    def n_vocab(self) -> int:
        """How many tokens there are."""
        ...

    def decode(self, ids: Sequence[int], special: bool = ...) -> bytes:
        """The bytes of tokens; ``special`` shows control tokens."""
        ...

    def encode(self, text: str | bytes, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """Token ids of a text."""
        ...


_KNOWN: WeakKeyDictionary[Pieces, dict[tuple[str, ...], Breakers]] = WeakKeyDictionary()
"""What a vocabulary was asked for last."""

_WORDS: WeakKeyDictionary[Pieces, list[bytes]] = WeakKeyDictionary()
"""The text of every token; making it takes a few tenths of a second."""


def breakers(strings: Sequence[str], vocabulary: Pieces) -> Breakers:
    """Every token that holds a breaker, or in whose end one begins, with the tokens that would complete it.

    Raises:
        Refusal: a breaker is cut inside a character, where b11192 would tokenize broken UTF-8.
    """
    known = _KNOWN.setdefault(vocabulary, {})
    key = tuple(strings)
    if key not in known:
        while len(known) >= _KEPT:
            del known[next(iter(known))]
        known[key] = _found(strings, vocabulary)
    return known[key]


def _found(strings: Sequence[str], vocabulary: Pieces) -> Breakers:
    words = _WORDS.get(vocabulary)
    if words is None:
        words = _WORDS[vocabulary] = [vocabulary.decode([token], special=True) for token in range(vocabulary.n_vocab)]
    found: Breakers = {}
    for string in strings:
        # A C string: it ends at its first zero byte.
        breaker = string.encode("utf-8", "surrogatepass").split(b"\0")[0][:MAX_BREAKER_BYTES]
        if breaker:
            _overlaps(breaker, words, _tail_encoder(vocabulary), found)
    return found


def _tail_encoder(vocabulary: Pieces) -> Callable[[bytes], tuple[int, ...]]:
    known: dict[bytes, tuple[int, ...]] = {}

    def encode(tail: bytes) -> tuple[int, ...]:
        if tail not in known:
            try:
                text = tail.decode()
            except UnicodeDecodeError as error:
                raise Refusal(
                    "sampling.dry", "Field 'dry_sequence_breakers': a breaker is cut inside a character", status=501
                ) from error
            known[tail] = tuple(vocabulary.encode(text, add_special=False, parse_special=False)[:MAX_TAIL_TOKENS])
        return known[tail]

    return encode


def _overlaps(breaker: bytes, words: list[bytes], encode: Callable[[bytes], tuple[int, ...]], found: Breakers) -> None:
    first = breaker[:1]
    for token, word in enumerate(words):
        if breaker in word:
            found.setdefault(token, []).append(())
            continue
        at = word.find(first)
        while at >= 0:
            shared = min(len(breaker), len(word) - at)
            if word[at : at + shared] == breaker[:shared]:
                tail = encode(breaker[shared:])
                if tail not in found.setdefault(token, []):
                    found[token].append(tail)
            at = word.find(first, at + 1)


class Dry:
    """The sampler; ``last_n`` tokens are its window, prompt included."""

    __slots__ = ("allowed", "base", "breakers", "multiplier", "window")

    def __init__(self, multiplier: float, base: float, allowed: int, last_n: int, heads: Breakers) -> None:
        self.multiplier = np.float32(multiplier)
        self.base = np.float32(base)
        self.allowed = allowed
        self.breakers = heads
        self.window: deque[int] = deque(maxlen=last_n)

    def accept(self, token: int) -> None:
        """Source: llama_sampler_dry_accept."""
        self.window.appendleft(token)

    def apply(self, c: Candidates) -> None:
        """Source: llama_sampler_dry_apply."""
        from bankml.kernels import sampling, sampling_more

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
        pairs = [(token, self._penalty(length)) for token, length in longest.items() if () not in self.breakers.get(token, ())]
        tokens: Ints = np.array([token for token, _ in pairs], np.int32)
        biases: Floats = np.array([-penalty for _, penalty in pairs], np.float32)
        sampling_more.add_bias(c.ids, c.logit, c.state, tokens, biases, np.empty_like(tokens))
        c.state[sampling.SORTED] = 0

    def _reach(self) -> int:
        """How many tokens back the newest breaker ends: no repetition is longer."""
        recent = self.window
        for i, token in enumerate(recent):
            longest = -1
            for tail in self.breakers.get(token, ()):
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
        from bankml.kernels.sampling_more import double_power, single_log

        most = int(_FLOAT_MAX_LOG / single_log(self.base)) if self.base > np.float32(1.000001) else 0
        exponent = length - self.allowed
        if most > 0:
            exponent = min(exponent, most)
        with np.errstate(over="ignore"):
            return np.float32(float(self.multiplier) * double_power(float(self.base), float(exponent)))
