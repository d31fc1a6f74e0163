# SPDX-License-Identifier: MIT OR Apache-2.0
"""The texts of a file's first and last token, which templates print, and whether the tokenizer adds them by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bankml.core.gguf.text_values import as_text

if TYPE_CHECKING:
    from bankml.core.gguf.reader import GgufFile
    from bankml.core.tokenizer.tokenizer import Tokenizer

_MISTRAL_LAYERS = 40
# For vocabularies that bankml cannot cut text with but whose template it can run: ids and flags when the file is silent.
_SENTENCE_PIECE = {"llama": (1, 2, True, False), "t5": (None, 1, False, True)}


@dataclass(frozen=True)
class Ends:
    """The first and the last token of a sequence."""

    bos: bytes = b""
    eos: bytes = b""
    add_bos: bool = False
    add_eos: bool = False

    def trimmed(self, text: bytes) -> bytes:
        """The text without what the tokenizer will add."""
        if self.add_bos:
            text = text.removeprefix(self.bos)
        return text.removesuffix(self.eos) if self.add_eos else text


def own_template(gguf: GgufFile) -> str | None:
    """The template that the file brings along; None where it has none. Any scalar counts as its text, as in the reference.

    Source: llama_model_chat_template, src/llama-model.cpp.
    """
    own = as_text(gguf.get("tokenizer.chat_template"))
    if own is None and gguf.get("tokenizer.ggml.pre") == "tekken":
        layers = gguf.get(f"{gguf.get('general.architecture')}.block_count")
        # The name of a template that the reference had before templates were programs; it is printed as it stands.
        return "mistral-v7-tekken" if layers == _MISTRAL_LAYERS else None
    return own


def tool_template(gguf: GgufFile) -> str | None:
    """The file's template for requests with tools."""
    return as_text(gguf.get("tokenizer.chat_template.tool_use"))


def ends_of(gguf: GgufFile, tokenizer: Tokenizer | None = None) -> Ends:
    """The ends of a file's sequences; ``tokenizer`` saves reading its vocabulary again.

    Raises:
        Refusal: the vocabulary is malformed.
    """
    from bankml.core.tokenizer.tokenizer import Tokenizer

    model = gguf.get("tokenizer.ggml.model")
    if tokenizer is None and model != "gpt2":
        return _plain_ends(gguf, model)
    tokenizer = tokenizer or Tokenizer.from_gguf(gguf)
    bos, eos = (b"" if token is None else tokenizer.piece(token, special=True) for token in (tokenizer.bos, tokenizer.eos))
    return Ends(bos, eos, tokenizer.add_bos, tokenizer.add_eos)


def _plain_ends(gguf: GgufFile, model: Any) -> Ends:
    bos_id, eos_id, add_bos, add_eos = _SENTENCE_PIECE.get(model, (None, None, False, False))
    tokens: Any = gguf.get("tokenizer.ggml.tokens") or []

    def text(role: str, default: int | None) -> bytes:
        index = gguf.get(f"tokenizer.ggml.{role}_token_id", default)
        return bytes(tokens[index].encode()) if isinstance(index, int) and 0 <= index < len(tokens) else b""

    def flag(name: str, default: bool) -> bool:
        value = gguf.get(f"tokenizer.ggml.{name}", default)
        return value if isinstance(value, bool) else default

    return Ends(text("bos", bos_id), text("eos", eos_id), flag("add_bos_token", add_bos), flag("add_eos_token", add_eos))
