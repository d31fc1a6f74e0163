# SPDX-License-Identifier: MIT OR Apache-2.0
"""A vocabulary as a GGUF file holds it: token texts and attributes, special tokens, flags."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from bankml.core.gguf.header import Array, short
from bankml.core.gguf.types import BOOL, F32, I32, STRING, U32, VALUE_TYPES
from bankml.core.refusal import Refusal
from bankml.core.text.bpe import CHAR_BYTES
from bankml.core.text.pretokenizer import lookup
from bankml.core.text.vocab_order import sort_longest_first
from bankml.core.text.vocab_special import (
    BYTE,
    CONTROL,
    NORMAL,
    TYPE_ATTRIBUTES,
    UNKNOWN,
    USER_DEFINED,
    Specials,
    strip_attributes,
)

if TYPE_CHECKING:
    from bankml.core.gguf.reader import GgufFile

MODEL: Final = "gpt2"

_PREFIX: Final = "tokenizer.ggml."
# Byte-level BPE takes no notice of these, but b11192 reads them, and does not load a file that gives them another type.
_UNUSED_FLAGS: Final = ("add_sep_token", "remove_extra_whitespaces", "normalizer.lowercase", "normalizer.strip_accents")
_SPECIAL: Final = UNKNOWN | CONTROL
_DEFAULT_ID: Final = 11
_HEX: Final = re.compile(r"[ \t\n\v\f\r]*([+-]?)([0-9a-fA-F]*)")


class _Keys:
    """Typed access to a file's metadata: b11192 does not load a file in which a key has another type."""

    def __init__(self, gguf: GgufFile) -> None:
        self._gguf = gguf

    def scalar(self, key: str, wanted: int) -> Any:
        """The value of ``key``, or None when it is absent.

        Raises:
            Refusal: it is not of type ``wanted``.
        """
        entry = self._gguf.header.entries.get(key)
        if entry is None:
            return None
        if entry.type != wanted:
            raise _wrong_type(key, VALUE_TYPES[entry.type].name, VALUE_TYPES[wanted].name)
        return entry.value

    def array(self, key: str, wanted: tuple[int, ...]) -> Array | None:
        """Where the array of ``key`` lies, or None when it is absent; see :meth:`scalar`."""
        entry = self._gguf.header.entries.get(key)
        if entry is None:
            return None
        value = entry.value
        if not isinstance(value, Array) or value.type not in wanted:
            found = VALUE_TYPES[entry.type].name if not isinstance(value, Array) else f"array of {VALUE_TYPES[value.type].name}"
            raise _wrong_type(key, found, " or ".join(f"array of {VALUE_TYPES[each].name}" for each in wanted))
        return value

    def values(self, key: str, wanted: int) -> list[Any] | None:
        """The elements of the array of ``key``, or None when it is absent; see :meth:`scalar`."""
        if self.array(key, (wanted,)) is None:
            return None
        elements: Any = self._gguf.kv[key]
        return list(elements)


def _wrong_type(key: str, found: str, allowed: str) -> Refusal:
    return Refusal("text.type", f"{key} has the wrong type", where=key, found=found, allowed=allowed)


class Vocab:
    """Everything about tokens that needs no text to cut.

    Raises:
        Refusal: the tokenizer is of another kind (``text.model``), its pre-tokenizer unknown (``text.pre``), or the
            vocabulary is malformed (``text.*``): whatever b11192 does not load.

    Source: llama_vocab::impl::load, src/llama-vocab.cpp.
    """

    def __init__(self, gguf: GgufFile) -> None:
        keys = _Keys(gguf)
        _check_model(keys.scalar(_PREFIX + "model", STRING))
        self.pre_name: str = keys.scalar(_PREFIX + "pre", STRING) or ""
        self.pre = lookup(self.pre_name or None)
        self.merges: list[str] = self._read_merges(keys)
        self.tokens: list[str] = _read_tokens(keys)
        self.ids: dict[str, int] = dict(zip(self.tokens, range(len(self.tokens)), strict=True))
        _check_unique(self.tokens, self.ids)
        self.attributes: list[int] = _read_attributes(keys, len(self.tokens))
        _check_scores(keys, len(self.tokens))
        read: Callable[[str], int | None] = lambda name: keys.scalar(_PREFIX + name, U32)  # noqa: E731 - typed for Specials
        defaults = {"bos": _DEFAULT_ID, "eos": _DEFAULT_ID} if self.pre.bos else {"eos": _DEFAULT_ID}
        special = Specials(self.tokens, self.ids, self.attributes, defaults, read)
        self.roles = special.roles
        self.eog = special.eog
        flag = partial(self._flag, keys)
        self.add_bos = flag("add_bos_token", self.pre.add_bos)
        self.add_eos = flag("add_eos_token", False)
        self.add_space_prefix = flag("add_space_prefix", False)
        keys.array(_PREFIX + "suppress_tokens", (I32,))
        for unused in _UNUSED_FLAGS:
            keys.scalar(_PREFIX + unused, BOOL)
        self.specials = self._order_specials()
        name = keys.scalar("general.name", STRING) or ""
        arch = keys.scalar("general.architecture", STRING) or ""
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

    @staticmethod
    def _flag(keys: _Keys, name: str, default: bool) -> bool:
        value = keys.scalar(_PREFIX + name, BOOL)
        return default if value is None else bool(value)

    def _read_merges(self, keys: _Keys) -> list[str]:
        merges = keys.values(_PREFIX + "merges", STRING)
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


def _check_model(model: str | None) -> None:
    if model != MODEL:
        raise Refusal(
            "text.model",
            "a tokenizer that is not byte-level BPE",
            where=_PREFIX + "model",
            found="nothing" if model is None else model,
            allowed=MODEL,
        )


def _read_tokens(keys: _Keys) -> list[str]:
    tokens = keys.values(_PREFIX + "tokens", STRING)
    if not tokens:
        raise Refusal("text.tokens", "the file holds no vocabulary", where=_PREFIX + "tokens", allowed="an array of strings")
    if "" in tokens:
        tokens = [text or f"[EMPTY_{index}]" for index, text in enumerate(tokens)]
    return tokens


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


def _read_attributes(keys: _Keys, size: int) -> list[int]:
    types = keys.values(_PREFIX + "token_type", I32)
    if types is None:
        return [NORMAL] * size
    _check_length("token_type", len(types), size)
    return [TYPE_ATTRIBUTES.get(kind, 0) for kind in types[:size]]


def _check_scores(keys: _Keys, size: int) -> None:
    scores = keys.array(_PREFIX + "scores", (I32, F32))
    if scores is not None:
        _check_length("scores", scores.n, size)


def _check_length(name: str, found: int, size: int) -> None:
    if found < size:
        raise Refusal(
            f"text.{name.replace('_', '-')}",
            f"{_PREFIX}{name} is shorter than the vocabulary",
            where=_PREFIX + name,
            found=str(found),
            allowed=f"{size} or more",
        )


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
