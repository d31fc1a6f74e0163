# SPDX-License-Identifier: MIT OR Apache-2.0
"""Cases of DRY over a vocabulary: breakers of all kinds, and tokens in which they end a repetition or nearly do."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bankml.reference.vocabulary import ReferenceVocab

_DEFAULT = ["\n", ":", '"', "*"]
_SENTENCE = "The quick brown fox jumps over the lazy dogs near"  # 49 bytes
_SETS: tuple[list[str], ...] = (
    _DEFAULT,
    *([each] for each in ("é", "ä", "—", "…", "’", "€", "。", "日", "語", "🙂", "🍕", "ß", "я", "ж", "\u00a0", "\u0301", "ﬁ")),
    *([each] for each in ("naïve", "日本語", "👩‍👩‍👧", "…!", " —", "é.", "Привет мир", "x̌", "\r\n", "\u2028")),
    ["é", "ée", "éé", "ééé"],
    ["\U0001f642", "\U0001f643", "\U0001f600"],
    *([each] for each in (" the", "a clock", "the quick brown", "ing the", "\n\n", ". The", "otic", "s, and", "  ", "e")),
    ["ee", "eee", "eeee"],
    ["amniotic", "ni", "otic"],
    ["ninini", "nini", "in"],
    ["", "the", ""],
    ["\0", "a\0b", "the\0re"],
    ["<|im_end|>", "|>\n"],
    ["im_", "<|im_start|>user\nThe"],
    ["e<|im_end|>", " the<|endoftext|>\n"],
    ["1234", "12", "123"],
    ["9", "98", "987", "9876"],
    [_SENTENCE[:40]],
    [_SENTENCE[:41]],
    [_SENTENCE[:39] + "é"],
    [_SENTENCE[:38] + "日"],
    [_SENTENCE[:37] + "🙂"],
    [_SENTENCE[:38] + "é!"],
    ["日" * 14],
    ["🙂" * 12],
    ["1" * 60],
    ["12" * 30],
    ["?!" * 20],
    ["aé" * 15],
    [chr(code) for code in (*range(0x21, 0x40), *range(0xC0, 0xE0))],
    [f"{a}{b}" for a in "aeé日" for b in ("n", " ", "é", "日", "")],
)
_AROUND = ("", " ", "x", "The old man", " of", "naï", "日本", "🙂", "3", "e", "\n", "un", ", and then", "’")


def dry_cases(vocab: ReferenceVocab, count: int) -> Iterator[dict[str, Any]]:
    """``count`` cases, without their answers."""
    ends = _by_end([vocab.piece(token, True) for token in range(vocab.size)])
    for i in range(count):
        draw = random.Random(i)  # noqa: S311 - a stream that is the same everywhere
        breakers = _SETS[i % len(_SETS)]
        tokens = _repeated(draw, _period(draw, breakers, vocab, ends))
        allowed = draw.choice((0, 1, 2, len(tokens)))
        dry = ["dry", draw.choice((0.8, 1.0, 3.0)), draw.choice((1.0, 1.75, 2.0)), allowed, draw.choice((40, 64, 400)), breakers]
        chain: list[list[Any]] = [dry, ["dist", i]]
        if i % 4 == 3:
            # Among the first of many, sorted before: DRY leaves them unsorted where it looked at all.
            chain = [["top_k", 200], dry, ["top_p", 0.9, 0], ["dist", i]]
        yield {"shape": "ties", "n": vocab.size, "seed": i, "chain": chain, "draws": 2, "tokens": tokens}


def _by_end(words: Sequence[bytes]) -> dict[bytes, list[int]]:
    """Tokens by the last one to six bytes of their text."""
    found: dict[bytes, list[int]] = {}
    for token, word in enumerate(words):
        for length in range(1, min(len(word), 6) + 1):
            found.setdefault(word[-length:], []).append(token)
    return found


def _period(draw: random.Random, breakers: list[str], vocab: ReferenceVocab, ends: dict[bytes, list[int]]) -> list[int]:
    """Tokens in which one of the breakers stands, or a part of it."""
    breaker = draw.choice(breakers).encode()
    cut = breaker[: draw.choice((len(breaker), len(breaker), 39, 40, 41))]
    before, after = (draw.choice(_AROUND).encode() for _ in range(2))
    if draw.random() < 0.4:
        return vocab.encode(before + cut + after, False, True)
    # A token in whose end the breaker begins, then what the rest comes to, as a whole or nearly.
    shared = draw.randint(1, max(1, min(6, len(cut))))
    head = draw.choice(ends.get(cut[:shared], [draw.randrange(vocab.size)]))
    tail = vocab.encode(cut[shared:], False, False)
    tail = tail[: draw.choice((len(tail), len(tail), len(tail) - 1, 19, 20, 21))]
    return [*vocab.encode(before, False, True), head, *tail, *vocab.encode(after, False, True)]


def _repeated(draw: random.Random, period: list[int]) -> list[int]:
    """The period among other tokens, twice and once more up to somewhere in it."""
    whole = [*(draw.randrange(300, 3000) for _ in range(draw.randint(0, 4))), *period, draw.randrange(300, 3000)]
    return whole * 2 + whole[: draw.randint(1, len(whole))]
