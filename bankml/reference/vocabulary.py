# SPDX-License-Identifier: MIT OR Apache-2.0
"""The reference's library with only the vocabulary of a file loaded.

Source: include/llama.h (signatures).
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bankml.reference.build import Reference
from bankml.reference.libllama import _ModelParams
from bankml.refusal import EXIT_OTHER, Refusal

_ROOM: Final = 1 << 20


class ReferenceVocab:
    """A vocabulary in the reference's library.

    Raises:
        Refusal: the reference refuses the file.
    """

    def __init__(self, reference: Reference, path: Path) -> None:
        self._lib = lib = reference.library("llama")
        lib.llama_model_default_params.restype = _ModelParams
        for name in ("llama_model_load_from_file", "llama_model_get_vocab"):
            getattr(lib, name).restype = c.c_void_p
        for name in ("is_eog", "is_control", "get_add_bos", "get_add_eos"):
            getattr(lib, f"llama_vocab_{name}").restype = c.c_bool
        self._quiet = c.CFUNCTYPE(None, c.c_int, c.c_char_p, c.c_void_p)(lambda *_: None)
        lib.llama_log_set(self._quiet, None)
        params = lib.llama_model_default_params()
        params.vocab_only = True
        self._model = c.c_void_p(lib.llama_model_load_from_file(str(path).encode(), params))
        if not self._model:
            raise Refusal("reference.model", "the reference refuses to load the file", where=str(path), exit_code=EXIT_OTHER)
        self.pointer = c.c_void_p(lib.llama_model_get_vocab(self._model))
        self._ids = (c.c_int32 * _ROOM)()
        self._text = c.create_string_buffer(_ROOM)
        self.size = self.number("n_tokens")

    def number(self, name: str) -> int:
        """What ``llama_vocab_<name>`` says of the whole vocabulary."""
        return int(getattr(self._lib, f"llama_vocab_{name}")(self.pointer))

    def which(self, name: str) -> list[int]:
        """The tokens of which ``llama_vocab_<name>`` is true."""
        ask = getattr(self._lib, f"llama_vocab_{name}")
        return [token for token in range(self.size) if ask(self.pointer, token)]

    def encode(self, text: bytes, add_special: bool, parse_special: bool) -> list[int]:
        """``llama_tokenize``."""
        n = self._lib.llama_tokenize(
            self.pointer, text, len(text), self._ids, _ROOM, c.c_bool(add_special), c.c_bool(parse_special)
        )
        return self._ids[: self._fits(n)]

    def piece(self, token: int, special: bool) -> bytes:
        """``llama_token_to_piece``."""
        n = self._lib.llama_token_to_piece(self.pointer, token, self._text, _ROOM, 0, c.c_bool(special))
        return c.string_at(self._text, self._fits(n))

    def decode(self, tokens: Sequence[int], special: bool, remove: bool) -> bytes:
        """``llama_detokenize``."""
        ids = (c.c_int32 * max(1, len(tokens)))(*tokens)
        n = self._lib.llama_detokenize(self.pointer, ids, len(tokens), self._text, _ROOM, c.c_bool(remove), c.c_bool(special))
        return c.string_at(self._text, self._fits(n))

    @staticmethod
    def _fits(n: int) -> int:
        if n < 0:
            raise Refusal("reference.room", "the answer does not fit", found=str(-n), allowed=str(_ROOM), exit_code=EXIT_OTHER)
        return n

    def close(self) -> None:
        """Free the model."""
        self._lib.llama_model_free(self._model)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
