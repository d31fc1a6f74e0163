# SPDX-License-Identifier: MIT OR Apache-2.0
"""Text cut into the words that merging never crosses, exactly where the reference cuts it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, cached_property

from bankml.core.tokenizer.pretokenizer_classes import collapse, collapse_han, compile_collapsed, compile_wide, widen
from bankml.core.tokenizer.pretokenizer_patterns import HAN, PRE, STEPS, UNPLAYED, Pre
from bankml.refusal import Refusal


class Forms:
    """A text in the forms that patterns run on, each made when it is first asked for."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def classes(self) -> bytes:
        """One byte per code point."""
        return collapse(self.text)

    @cached_property
    def han_classes(self) -> bytes:
        """The same with Chinese characters apart."""
        return collapse_han(self.text)

    @cached_property
    def wide(self) -> str:
        """The text with its white space in ASCII."""
        return widen(self.text)


Cut = Callable[[Forms, Iterator[int]], Iterator[int]]
"""Refines a cutting: takes a text and the ends of its pieces, yields the ends of the finer pieces."""


def _matches(pattern: re.Pattern[str] | re.Pattern[bytes], text: str | bytes, ends: Iterator[int]) -> Iterator[int]:
    """Cut each piece into the pattern's matches and what lies between them; a piece is the whole world to the pattern."""
    start = 0
    for end in ends:
        last = start
        spans: Iterator[re.Match[str]] | Iterator[re.Match[bytes]] = pattern.finditer(text, start, end)  # type: ignore[arg-type]
        for match in spans:
            first, stop = match.span()
            if first > last:
                yield first
            if stop > first:
                yield stop
            last = stop
        if last < end:
            yield end
        start = end


_NUMBERS = compile_collapsed(r"[\p{N}]+")


def _digit_groups(forms: Forms, ends: Iterator[int]) -> Iterator[int]:
    """Cut numbers into threes from the right. The text before a number stays with the number's first group.

    Source: unicode_regex_split_custom_afmoe, src/unicode.cpp.
    """
    start = last = 0
    for end in ends:
        for match in _NUMBERS.finditer(forms.classes, start, end):
            first, stop = match.span()
            for last in range(first + ((stop - first) % 3 or 3), stop + 1, 3):
                yield last
        if last < end:
            last = end
            yield end
        start = end


@cache
def _han() -> re.Pattern[bytes]:
    return compile_collapsed(HAN)


def _han_words(forms: Forms, ends: Iterator[int]) -> Iterator[int]:
    """Kimi K2's words: Chinese characters apart from all other letters.

    Source: unicode_regex_split_custom_kimi_k2, src/unicode.cpp.
    """
    return _matches(_han(), forms.han_classes, ends)


_CUTTERS: dict[str, Cut] = {"#digit-groups": _digit_groups, "#han": _han_words}


def _cut(step: str) -> Cut:
    if step in _CUTTERS:
        return _CUTTERS[step]
    if r"\p{" in step:
        collapsed = compile_collapsed(step)
        return lambda forms, ends: _matches(collapsed, forms.classes, ends)
    wide = compile_wide(step)
    return lambda forms, ends: _matches(wide, forms.wide, ends)


@cache
def _cuts(steps: str) -> tuple[Cut, ...]:
    return tuple(_cut(step) for step in STEPS[steps])


def lookup(name: str | None) -> Pre:
    """What ``tokenizer.ggml.pre`` means.

    Raises:
        Refusal: there is none, or it is not one that is reproduced here.
    """
    where = "tokenizer.ggml.pre"
    if name is None or name == "":
        raise Refusal(
            "text.pre",
            "the file does not name its pre-tokenizer, so its words cannot be known",
            where=where,
            found="nothing" if name is None else '""',
            allowed="the name of a pre-tokenizer",
            hint="convert the model again with a converter that writes it",
        )
    if name not in PRE:
        why = "that is not reproduced yet" if name in UNPLAYED else "that b11192 does not know"
        raise Refusal(
            "text.pre", f"the file names a pre-tokenizer {why}", where=where, found=name, allowed=", ".join(sorted(PRE))
        )
    return PRE[name]


class Pretokenizer:
    """The cutting of one ``tokenizer.ggml.pre``.

    Raises:
        Refusal: see :func:`lookup`.
    """

    def __init__(self, name: str | None) -> None:
        self.pre = lookup(name)
        self._cuts = _cuts(self.pre.steps)

    def ends(self, text: str) -> Iterator[int]:
        """Where each word of ``text`` ends, in code points; the last end is the length.

        Source: unicode_regex_split, src/unicode.cpp.
        """
        forms = Forms(text)
        ends = iter([len(text)] if text else [])
        for cut in self._cuts:
            ends = cut(forms, ends)
        return ends

    def words(self, text: str) -> Iterator[str]:
        """The words of ``text`` in order; joined they give it back."""
        start = 0
        for end in self.ends(text):
            yield text[start:end]
            start = end
