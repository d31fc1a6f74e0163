# SPDX-License-Identifier: MIT OR Apache-2.0
"""A vocabulary as a GGUF file holds it: token texts and attributes, special tokens, flags."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from bankml.core.gguf.header import short
from bankml.core.gguf.split import split_refusal
from bankml.core.tokenizer.bpe import CHAR_BYTES
from bankml.core.tokenizer.pretokenizer import lookup
from bankml.core.tokenizer.vocab_order import sort_longest_first
from bankml.core.tokenizer.vocab_special import (
    BYTE,
    CONTROL,
    NORMAL,
    TYPE_ATTRIBUTES,
    UNKNOWN,
    USER_DEFINED,
    Specials,
    strip_attributes,
)
from bankml.refusal import Refusal

if TYPE_CHECKING:
    from bankml.core.gguf.reader import GgufFile

MODEL: Final = "gpt2"

_PREFIX: Final = "tokenizer.ggml."
_SPECIAL: Final = UNKNOWN | CONTROL
_DEFAULT_ID: Final = 11
_HEX: Final = re.compile(r"[ \t\n\v\f\r]*([+-]?)([0-9a-fA-F]*)")


class Vocab:
    """Everything about tokens that needs no text to cut.

    The guard has seen to it that every key is of the type that b11192 reads and that types and scores cover the tokens.

    Raises:
        Refusal: the tokenizer is of another kind (``text.model``), its pre-tokenizer unknown (``text.pre``), or the
            vocabulary is one that b11192 does not load or stops on (``text.*``).

    Source: llama_vocab::impl::load, src/llama-vocab.cpp.
    """

    def __init__(self, gguf: GgufFile) -> None:
        def value(name: str) -> Any:
            return gguf.get(_PREFIX + name)

        def flag(name: str, default: bool) -> bool:
            given = value(name)
            return default if given is None else bool(given)

        _check_model(gguf)
        self.pre_name: str = value("pre") or ""
        self.pre = lookup(value("pre"))
        self.merges: list[str] = self._merges(value("merges"))
        self.tokens: list[str] = _tokens(value("tokens"))
        self.ids: dict[str, int] = dict(zip(self.tokens, range(len(self.tokens)), strict=True))
        _check_unique(self.tokens, self.ids)
        self.attributes: list[int] = _attributes(value("token_type"), len(self.tokens))
        defaults = {"bos": _DEFAULT_ID, "eos": _DEFAULT_ID} if self.pre.bos else {"eos": _DEFAULT_ID}
        special = Specials(self.tokens, self.ids, self.attributes, defaults, value)
        self.roles = special.roles
        self.eog = special.eog
        self.add_bos = flag("add_bos_token", self.pre.add_bos)
        self.add_eos = flag("add_eos_token", False)
        self.add_space_prefix = flag("add_space_prefix", False)
        self.specials = self._order_specials()
        name, arch = str(gguf.get("general.name", "")), str(gguf.get("general.architecture", ""))
        strip_attributes(self.ids, self.attributes, self.specials, self.pre_name, name, arch)
        self._check_bytes()

    @property
    def size(self) -> int:
        """How many tokens there are."""
        return len(self.tokens)

    def piece(self, index: int) -> bytes:
        """The bytes that a token stands for, control tokens included.

        Source: llama_vocab::impl::token_to_piece and llama_decode_text, src/llama-vocab.cpp.
        """
        text = self.tokens[index]
        attributes = self.attributes[index]
        if attributes & (_SPECIAL | USER_DEFINED):
            return text.encode()
        if attributes & NORMAL:
            return _unspell(text)
        return bytes([_byte_value(text)]) if attributes & BYTE else b""

    def hidden(self, index: int) -> bool:
        """True for a token that shows only where specials are asked for."""
        return bool(self.attributes[index] & _SPECIAL)

    def _merges(self, merges: list[str] | None) -> list[str]:
        if merges is None and self.pre.merges:
            raise Refusal("text.merges", "the file holds no merges", where=_PREFIX + "merges", allowed="an array of strings")
        return merges or []

    def _order_specials(self) -> list[int]:
        """The tokens that are cut out of text before anything else, longest first."""
        wanted = UNKNOWN | CONTROL | USER_DEFINED
        found = [index for index, attributes in enumerate(self.attributes) if attributes & wanted]
        return [found[place] for place in sort_longest_first([len(self.tokens[index].encode()) for index in found])]

    def _check_bytes(self) -> None:
        for index, attributes in enumerate(self.attributes):
            if attributes & BYTE and not attributes & (_SPECIAL | USER_DEFINED | NORMAL):
                text = self.tokens[index]
                if len(text.encode()) < 3:
                    raise Refusal(
                        "text.byte-token",
                        "a token of type byte does not spell one",
                        where=f"token {index}",
                        found=short(text),
                        allowed='"<0x00>" to "<0xFF>"',
                    )


def _check_model(gguf: GgufFile) -> None:
    model = gguf.get(_PREFIX + "model")
    part = split_refusal(gguf.header)
    if model is None and part is not None:
        raise part
    if model != MODEL:
        raise Refusal(
            "text.model",
            "a tokenizer that is not byte-level BPE",
            where=_PREFIX + "model",
            found="nothing" if model is None else str(model),
            allowed=MODEL,
        )


def _tokens(tokens: list[str] | None) -> list[str]:
    if not tokens:
        raise Refusal("text.tokens", "the file holds no vocabulary", where=_PREFIX + "tokens", allowed="an array of strings")
    return [text or f"[EMPTY_{index}]" for index, text in enumerate(tokens)] if "" in tokens else tokens


def _check_unique(tokens: list[str], ids: dict[str, int]) -> None:
    if len(ids) == len(tokens):
        return
    index = next(index for index, text in enumerate(tokens) if ids[text] != index)
    raise Refusal(
        "text.duplicate",
        "the vocabulary holds a token twice, on which llama.cpp stops",
        where=f"{_PREFIX}tokens, tokens {index} and {ids[tokens[index]]}",
        found=short(tokens[index]),
        allowed="each text once",
    )


def _attributes(types: list[int] | None, size: int) -> list[int]:
    return [NORMAL] * size if types is None else [TYPE_ATTRIBUTES.get(kind, 0) for kind in types[:size]]


def _unspell(text: str) -> bytes:
    try:
        return bytes([CHAR_BYTES[char] for char in text])
    except KeyError:
        pass
    unknown = "[UNK_BYTE_0x%s" + text.replace("%", "%%") + "]"
    return b"".join(
        bytes([CHAR_BYTES[char]]) if char in CHAR_BYTES else (unknown % char.encode().hex()).encode() for char in text
    )


def _byte_value(text: str) -> int:
    """What ``strtol`` reads, in base 16, from the fourth and fifth bytes of ``<0xXX>``."""
    found = _HEX.match(text.encode()[3:5].decode("latin-1"))
    sign, digits = found.groups() if found else ("", "")
    value = int(digits or "0", 16)
    return (-value if sign == "-" else value) & 0xFF
