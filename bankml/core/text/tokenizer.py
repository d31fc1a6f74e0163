# SPDX-License-Identifier: MIT OR Apache-2.0
"""The byte-level BPE tokenizer of a GGUF file: text to the token ids that llama.cpp b11192 gives, and back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Self

from bankml.core.refusal import Refusal
from bankml.core.text.bpe import Merges, fallback, spell
from bankml.core.text.pretokenizer import Pretokenizer
from bankml.core.text.utf8 import decode_lenient
from bankml.core.text.vocab import Vocab
from bankml.core.text.vocab_special import CONTROL, LSTRIP, RSTRIP, UNKNOWN

if TYPE_CHECKING:
    from bankml.core.gguf.reader import GgufFile
    from bankml.core.text.bpe_table import MergeTable

_SPACE: Final = " \t\n\v\f\r"
_CACHED_LENGTH: Final = 64
_CACHED_WORDS: Final = 1 << 16
# Characters from which the native merging pays for its own table.
_NATIVE_LENGTH: Final = 1 << 17

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

    def token_text(self, token: int) -> str:
        """The token as the vocabulary spells it."""
        return self.vocab.tokens[self._checked(token)]

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
            Refusal: ``add_special`` asks for a token that the file does not have, or the bytes are not readable.

        Source: llama_vocab::impl::tokenize, src/llama-vocab.cpp.
        """
        ids = [self._added("bos")] if add_special and self.vocab.add_bos else []
        for fragment in self._fragments(text, parse_special):
            if isinstance(fragment, int):
                ids.append(fragment)
            else:
                self._encode_text(fragment, ids)
        if add_special and self.vocab.add_eos:
            ids.append(self._added("eos"))
        return ids

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

    def _fragments(self, text: str | bytes, parse_special: bool) -> list[str | int]:
        """Special tokens and the text between them.

        Text that is not UTF-8 is cut as bytes: what a special token is made of may stand anywhere in it.
        """
        if not text:
            return []
        if isinstance(text, bytes):
            try:
                return self._partition(text.decode("utf-8"), parse_special, "utf-8")
            except UnicodeDecodeError:
                # As latin-1, one character is one byte, and the tokens are looked for as their bytes.
                cut = self._partition(text.decode("latin-1"), parse_special, "latin-1")
                return [part if isinstance(part, int) else decode_lenient(part.encode("latin-1")) for part in cut]
        return self._partition(text, parse_special, "utf-8")

    def _partition(self, text: str, parse_special: bool, encoding: str) -> list[str | int]:
        """Cut out the special tokens, one token after the other, each wherever it still stands.

        Source: llama_vocab::impl::tokenizer_st_partition, src/llama-vocab.cpp.
        """
        parts: list[str | int] = [text]
        attributes = self.vocab.attributes
        for token in self.vocab.specials:
            if not parse_special and attributes[token] & (CONTROL | UNKNOWN):
                continue
            wanted = self.vocab.tokens[token].encode().decode(encoding)
            if wanted not in text:
                continue
            finer: list[str | int] = []
            for part in parts:
                if isinstance(part, int) or wanted not in part:
                    finer.append(part)
                else:
                    finer.extend(_cut_out(part, wanted, token, attributes[token]))
            parts = finer
        return parts

    def _encode_text(self, text: str, ids: list[int]) -> None:
        words = self._pretokenizer.words(text)
        known = self._known(words) if len(text) >= _NATIVE_LENGTH else self._words
        for word in words:
            tokens = known.get(word)
            if tokens is None:
                tokens = self._encode_word(word)
                if len(word) <= _CACHED_LENGTH:
                    if len(known) >= _CACHED_WORDS:
                        known.clear()
                    known[word] = tokens
            ids += tokens

    def _known(self, words: list[str]) -> dict[str, list[int]]:
        """A cache for one long text: words that would take long one by one are all merged in one native call."""
        missing = [word for word in dict.fromkeys(words) if word not in self._words]
        if sum(map(len, missing)) < _NATIVE_LENGTH:
            return self._words
        known = dict(self._words)
        if self.vocab.pre.ignore_merges:
            whole = {word: self.vocab.ids.get(spell(word)) for word in missing}
            known.update({word: [token] for word, token in whole.items() if token is not None})
            missing = [word for word in missing if word not in known]
        try:
            if self._table is None:
                from bankml.core.text.bpe_table import MergeTable

                self._table = MergeTable(self.vocab.merges, self.vocab.ids)
            merged = self._table.apply([word.encode("utf-8", "surrogatepass") for word in missing])
        except RuntimeError:
            # The kernels do not run on this processor: word by word the tokens are the same.
            return self._words
        known.update(zip(missing, merged, strict=True))
        return known

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


def _cut_out(text: str, wanted: str, token: int, attributes: int) -> Iterable[str | int]:
    start = 0
    while (place := text.find(wanted, start)) >= 0:
        left = text[start:place]
        if attributes & LSTRIP:
            left = left.rstrip(_SPACE)
        if left:
            yield left
        yield token
        start = place + len(wanted)
        if attributes & RSTRIP:
            start = len(text) - len(text[start:].lstrip(_SPACE))
    if start < len(text):
        yield text[start:]
