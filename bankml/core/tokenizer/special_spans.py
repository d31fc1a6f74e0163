# SPDX-License-Identifier: MIT OR Apache-2.0
"""A text as spans of text and of special tokens, three numbers a span, however many tokens it holds."""

from __future__ import annotations

from array import array
from typing import Final

from bankml.core.tokenizer.vocab_special import LSTRIP, RSTRIP

TEXT: Final = -1
"""The third number of a span that is text; of any other it is the token."""
_SPACE: Final = " \t\n\v\f\r"


def cut_out(text: str, spans: array[int], wanted: str, token: int, attributes: int) -> array[int]:
    """The spans with every place of one token cut out of those that are text.

    Args:
        text: the whole text.
        spans: start, end and token of each span.
        wanted: the token's text.
        attributes: the token's, of which those that strip white space count.

    Source: llama_vocab::impl::tokenizer_st_partition, src/llama-vocab.cpp.
    """
    finer = array("q")
    for at in range(0, len(spans), 3):
        start, end, kind = spans[at : at + 3]
        if kind != TEXT:
            finer.extend((start, end, kind))
            continue
        while (place := text.find(wanted, start, end)) >= 0:
            left = _before(text, start, place) if attributes & LSTRIP else place
            if left > start:
                finer.extend((start, left, TEXT))
            start = place + len(wanted)
            finer.extend((place, start, token))
            if attributes & RSTRIP:
                start = _behind(text, start, end)
        if start < end:
            finer.extend((start, end, TEXT))
    return finer


def _before(text: str, start: int, end: int) -> int:
    """Where the white space before ``end`` begins."""
    while end > start and text[end - 1] in _SPACE:
        end -= 1
    return end


def _behind(text: str, start: int, end: int) -> int:
    """Where the white space at ``start`` ends."""
    while start < end and text[start] in _SPACE:
        start += 1
    return start
