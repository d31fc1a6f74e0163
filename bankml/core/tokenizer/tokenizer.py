# SPDX-License-Identifier: MIT OR Apache-2.0
"""The byte-level BPE tokenizer of a GGUF file: text to the token ids that llama.cpp b11192 gives, and back."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final, Self

from bankml.core.abandon import go_on
from bankml.core.tokenizer.bpe import Merges, fallback, spell
from bankml.core.tokenizer.pretokenizer import Pretokenizer
from bankml.core.tokenizer.special_spans import TEXT, cut_out
from bankml.core.tokenizer.utf8 import decode_lenient
from bankml.core.tokenizer.vocab import Vocab
from bankml.core.tokenizer.vocab_special import CONTROL, UNKNOWN
from bankml.refusal import Refusal

if TYPE_CHECKING:
    from bankml.core.gguf.reader import GgufFile
    from bankml.core.tokenizer.bpe_table import MergeTable

MAX_WORD: Final = 1 << 20
"""Bytes of the longest stretch that merging takes; it needs forty times as many."""
_CACHED_LENGTH: Final = 64
_CACHED_WORDS: Final = 1 << 16
# Characters from which the native merging pays for its own table, and of which a batch has at least twice as many.
_NATIVE_LENGTH: Final = 1 << 17
_BATCH: Final = 2 * _NATIVE_LENGTH

_CLEAN_UPS: Final = (
    (re.compile(rb" (?=[?!.,])"), b""),
    (re.compile(rb" ' "), b"'"),
    (re.compile(rb" (?='(?:[sm]|re|ve))"), b""),
)


class Tokenizer:
    """Turns text into token ids and ids into bytes, as b11192 does with the same file.

    Its only state is a cache, so several threads may use it at once.
    """

    def __init__(self, vocab: Vocab) -> None:
        self.vocab = vocab
        self._pretokenizer = Pretokenizer(vocab.pre_name)
        self._merges = Merges(vocab.merges)
        self._words: dict[str, list[int]] = {}
        self._pieces: dict[int, bytes] = {}
        self._table: MergeTable | None = None

    @classmethod
    def from_gguf(cls, gguf: GgufFile) -> Self:
        """The tokenizer of an open file.

        Raises:
            Refusal: see :class:`Vocab`.
        """
        return cls(Vocab(gguf))

    @property
    def n_vocab(self) -> int:
        """How many tokens the vocabulary has."""
        return self.vocab.size

    @property
    def bos(self) -> int | None:
        """The beginning-of-text token."""
        return self.vocab.roles.get("bos")

    @property
    def eos(self) -> int | None:
        """The end-of-text token."""
        return self.vocab.roles.get("eos")

    @property
    def eog(self) -> frozenset[int]:
        """Every token that ends a generation."""
        return self.vocab.eog

    @property
    def add_bos(self) -> bool:
        """Whether ``add_special`` puts :attr:`bos` before a text."""
        return self.vocab.add_bos

    @property
    def add_eos(self) -> bool:
        """Whether ``add_special`` puts :attr:`eos` after a text."""
        return self.vocab.add_eos

    def require_ends(self) -> None:
        """Refuse a vocabulary that adds a token which it does not have: llama-server stops at the first prompt.

        Raises:
            Refusal: ``text.add-special``.
        """
        for role, added in (("bos", self.vocab.add_bos), ("eos", self.vocab.add_eos)):
            if added:
                self._added(role)

    def is_control(self, token: int) -> bool:
        """True for a control token."""
        return bool(self.vocab.attributes[self._checked(token)] & CONTROL)

    def encode(self, text: str | bytes, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """The ids of ``text``; bytes that no token stands for are dropped, as the reference drops them.

        Args:
            text: text, or bytes that need not be UTF-8.
            add_special: add the tokens that this vocabulary puts before and after a text.
            parse_special: take the text of control tokens for these tokens. User-defined tokens are always taken.

        Raises:
            Refusal: ``add_special`` asks for a token that the file does not have, the bytes are not readable, or a word is
                longer than 1 MiB.
            Abandoned: nobody wants the ids any more.

        Source: llama_vocab::impl::tokenize, src/llama-vocab.cpp.
        """
        return [*chain.from_iterable(self.batches(text, add_special, parse_special))]

    def encode_compactly(self, text: str | bytes, add_special: bool = True, parse_special: bool = True) -> array[int]:
        """As :meth:`encode`, four bytes an id: for texts of any length."""
        ids = array("i")
        for batch in self.batches(text, add_special, parse_special):
            ids.extend(batch)
        return ids

    def batches(self, text: str | bytes, add_special: bool, parse_special: bool) -> Iterator[list[int]]:
        """The ids of :meth:`encode`, some at a time, so that a long text takes little memory beside them."""
        if add_special and self.vocab.add_bos:
            yield [self._added("bos")]
        for part in self._parts(text, parse_special):
            go_on()
            if isinstance(part, int):
                yield [part]
            else:
                yield from self._text_batches(part)
        if add_special and self.vocab.add_eos:
            yield [self._added("eos")]

    def piece(self, token: int, special: bool = False) -> bytes:
        """The bytes of one token; those of a control or unknown token only with ``special``.

        Source: llama_token_to_piece, include/llama.h.
        """
        if not special and self.vocab.hidden(self._checked(token)):
            return b""
        if token not in self._pieces:
            self._pieces[token] = self.vocab.piece(self._checked(token))
        return self._pieces[token]

    def join(self, tokens: Iterable[int], special: bool = True) -> bytes:
        """The pieces one after the other, as llama-server's ``/detokenize`` gives them."""
        return b"".join([self.piece(token, special) for token in tokens])

    def decode(self, tokens: Iterable[int], special: bool = False, remove: bool = False) -> bytes:
        """The pieces with the clean-up of spaces that the vocabulary asks for.

        Args:
            tokens: ids.
            special: show control tokens.
            remove: drop the tokens that ``add_special`` adds, where they stand first and last.

        Source: llama_vocab::impl::detokenize, src/llama-vocab.cpp.
        """
        ids = list(tokens)
        strip = self.vocab.add_space_prefix
        if remove and self.vocab.add_bos and ids and ids[0] == self.bos:
            strip = False
            ids = ids[1:]
        if remove and self.vocab.add_eos and ids and ids[-1] == self.eos:
            ids = ids[:-1]
        pieces = [self.piece(token, special) for token in ids]
        if strip and pieces:
            pieces[0] = pieces[0].removeprefix(b" ")
        text = b"".join(pieces)
        if self.vocab.pre.clean_spaces:
            for pattern, replacement in _CLEAN_UPS:
                text = pattern.sub(replacement, text)
        return text

    def _checked(self, token: int) -> int:
        if not 0 <= token < self.vocab.size:
            raise Refusal(
                "text.token",
                "there is no such token",
                found=str(token),
                allowed=f"0 to {self.vocab.size - 1}",
            )
        return token

    def _added(self, role: str) -> int:
        if role not in self.vocab.roles:
            raise Refusal(
                "text.add-special",
                f"the file wants a {role} token added and has none, on which llama.cpp stops",
                where=f"tokenizer.ggml.add_{role}_token",
                allowed=f"tokenizer.ggml.{role}_token_id inside the vocabulary",
            )
        return self.vocab.roles[role]

    def _parts(self, text: str | bytes, parse_special: bool) -> Iterator[str | int]:
        """Special tokens and the text between them.

        Text that is not UTF-8 is cut as bytes: what a special token is made of may stand anywhere in it.
        """
        if not isinstance(text, bytes):
            yield from self._partition(text, parse_special, "utf-8")
            return
        try:
            decoded = text.decode("utf-8")
        except UnicodeDecodeError:
            # As latin-1, one character is one byte, and the tokens are looked for as their bytes.
            for part in self._partition(text.decode("latin-1"), parse_special, "latin-1"):
                yield part if isinstance(part, int) else decode_lenient(part.encode("latin-1"))
        else:
            yield from self._partition(decoded, parse_special, "utf-8")

    def _partition(self, text: str, parse_special: bool, encoding: str) -> Iterator[str | int]:
        """Cut out the special tokens, one token after the other, each wherever it still stands.

        Source: llama_vocab::impl::tokenizer_st_partition, src/llama-vocab.cpp.
        """
        spans = array("q", [0, len(text), TEXT] if text else [])
        attributes = self.vocab.attributes
        for token in self.vocab.specials:
            if not parse_special and attributes[token] & (CONTROL | UNKNOWN):
                continue
            wanted = self.vocab.tokens[token].encode().decode(encoding)
            if wanted in text:
                spans = cut_out(text, spans, wanted, token, attributes[token])
            go_on()
        for at in range(0, len(spans), 3):
            start, end, token = spans[at : at + 3]
            yield text[start:end] if token == TEXT else token

    def _text_batches(self, text: str) -> Iterator[list[int]]:
        words: list[str] = []
        size = 0
        for word in self._pretokenizer.words(text):
            words.append(word)
            size += len(word)
            if size >= _BATCH:
                yield self._encode_words(words, size)
                words.clear()
                size = 0
                go_on()
        yield self._encode_words(words, size)

    def _encode_words(self, words: list[str], size: int) -> list[int]:
        ids: list[int] = []
        merged = self._merged(words) if size >= _NATIVE_LENGTH else {}
        known = self._words
        for word in words:
            tokens = known.get(word)
            if tokens is None:
                tokens = merged.get(word)
                if tokens is None:
                    tokens = self._encode_word(word)
                if len(word) <= _CACHED_LENGTH:
                    if len(known) >= _CACHED_WORDS:
                        known.clear()
                    known[word] = tokens
            ids += tokens
        return ids

    def _merged(self, words: list[str]) -> dict[str, list[int]]:
        """The unknown words of a batch, where they would take long one by one: all merged in one native call."""
        missing = [word for word in dict.fromkeys(words) if word not in self._words]
        if sum(map(len, missing)) < _NATIVE_LENGTH:
            return {}
        merged: dict[str, list[int]] = {}
        if self.vocab.pre.ignore_merges:
            whole = {word: self.vocab.ids.get(spell(word)) for word in missing}
            merged = {word: [token] for word, token in whole.items() if token is not None}
            missing = [word for word in missing if word not in merged]
        spelled = [word.encode("utf-8", "surrogatepass") for word in missing]
        longest = max(map(len, spelled), default=0)
        if longest > MAX_WORD:
            raise Refusal(
                "text.word",
                "the text has a stretch without a break that is too long to be merged into tokens",
                found=f"{longest} bytes",
                allowed=f"at most {MAX_WORD} bytes",
            )
        try:
            if self._table is None:
                from bankml.core.tokenizer.bpe_table import MergeTable

                self._table = MergeTable(self.vocab.merges, self.vocab.ids)
            merged.update(zip(missing, self._table.apply(spelled), strict=True))
        except RuntimeError:
            # The kernels do not run on this processor: word by word the tokens are the same.
            return {}
        return merged

    def _encode_word(self, word: str) -> list[int]:
        ids = self.vocab.ids
        spelled = spell(word)
        if self.vocab.pre.ignore_merges and spelled in ids:
            return [ids[spelled]]
        found = []
        for part in self._merges.apply(spelled):
            token = ids.get(part)
            if token is None:
                found += fallback(part, ids)
            else:
                found.append(token)
        return found
