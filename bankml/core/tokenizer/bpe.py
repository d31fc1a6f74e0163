# SPDX-License-Identifier: MIT OR Apache-2.0
"""Byte-pair merging of one word: always the merge of lowest rank, the leftmost of equals, until none is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Final

_PRINTABLE: Final = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
_OTHERS: Final = tuple(byte for byte in range(256) if byte not in _PRINTABLE)

BYTE_CHARS: Final = {**{byte: chr(byte) for byte in _PRINTABLE}, **{byte: chr(256 + n) for n, byte in enumerate(_OTHERS)}}
"""GPT-2's character for each byte, as vocabularies spell their tokens."""

CHAR_BYTES: Final = {char: byte for byte, char in BYTE_CHARS.items()}

_UNMERGED: Final = 1 << 62
_LONG: Final = 96


def spell(word: str) -> str:
    """The word in GPT-2's characters, one for each byte of its UTF-8."""
    return word.encode("utf-8", "surrogatepass").decode("latin-1").translate(BYTE_CHARS)


def fallback(part: str, ids: Mapping[str, int]) -> list[int]:
    """The ids of a merged part that is no token: its ASCII characters are looked up, no others have a token.

    Source: llm_tokenizer_bpe_session::tokenize, src/llama-vocab.cpp.
    """
    return [ids[char] for char in part if char < "\x80" and char in ids]


class Merges:
    """The ranks of a vocabulary's merges.

    Args:
        merges: ``"left right"`` in the order of their ranks. One named twice keeps its first rank; one without a space
            never applies.

    Source: llama_vocab::impl::load and llama_vocab::find_bpe_rank, src/llama-vocab.cpp.
    """

    def __init__(self, merges: Sequence[str]) -> None:
        self._ranks: Mapping[str, int] = dict(zip(reversed(merges), range(len(merges) - 1, -1, -1), strict=True))

    def apply(self, spelled: str) -> list[str]:
        """Merge the characters of a spelled word; time grows as n log n.

        Source: llm_tokenizer_bpe_session::tokenize, src/llama-vocab.cpp.
        """
        if len(spelled) < 2:
            return [spelled] if spelled else []
        return self._short(list(spelled)) if len(spelled) <= _LONG else self._long(list(spelled))

    def _short(self, parts: list[str]) -> list[str]:
        rank = self._ranks.get
        ranks = [rank(f"{left} {right}", _UNMERGED) for left, right in pairwise(parts)]
        while ranks:
            best = min(ranks)
            if best == _UNMERGED:
                break
            at = ranks.index(best)
            merged = parts[at] + parts.pop(at + 1)
            parts[at] = merged
            del ranks[at]
            if at < len(ranks):
                ranks[at] = rank(f"{merged} {parts[at + 1]}", _UNMERGED)
            if at:
                ranks[at - 1] = rank(f"{parts[at - 1]} {merged}", _UNMERGED)
        return parts

    def _long(self, parts: list[str]) -> list[str]:
        """A heap of ranks, and for each rank a heap of the places that wait for it.

        ``ranks[i]`` is what the pair at place i is worth now; a place that waits under another rank is out of date.
        """
        rank = self._ranks.get
        size = len(parts)
        ranks = [rank(f"{left} {right}", -1) for left, right in pairwise(parts)]
        ranks.append(-1)
        after = list(range(1, size + 1))
        before = list(range(-1, size))
        places: dict[int, list[int]] = {}
        for place, worth in enumerate(ranks):
            if worth >= 0:
                places.setdefault(worth, []).append(place)
        waiting = list(places)
        heapify(waiting)
        while waiting:
            best = waiting[0]
            queue = places[best]
            while queue and waiting[0] == best:
                left = heappop(queue)
                if ranks[left] != best:
                    continue
                right = after[left]
                parts[left] += parts[right]
                parts[right] = ""
                ranks[right] = -1
                after[left] = following = after[right]
                before[following] = left
                for first, second in ((before[left], left), (left, following)):
                    if first < 0:
                        continue
                    worth = rank(f"{parts[first]} {parts[second]}", -1) if second < size else -1
                    ranks[first] = worth
                    if worth < 0:
                        continue
                    if worth in places:
                        heappush(places[worth], first)
                    else:
                        places[worth] = [first]
                        heappush(waiting, worth)
            if waiting[0] == best and not queue:
                heappop(waiting)
                del places[best]
        return [part for part in parts if part]
