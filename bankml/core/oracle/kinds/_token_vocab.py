# SPDX-License-Identifier: MIT OR Apache-2.0
"""A small vocabulary that shows where words were cut: nearly every pair of neighbouring bytes has a merge."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bankml.core.gguf.types import ARRAY, BOOL, I32, STRING, U32
from bankml.core.gguf.writer import write_gguf
from bankml.core.oracle.kinds._token_corpus import Draw
from bankml.core.text.bpe import BYTE_CHARS

_SEED: Final = 11192
_MERGES: Final = 6000
_MISSING: Final = frozenset(b"\x00\x1c\xf8\xff")
_CONTROL: Final = ("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<s>", "</s>", "<|eot_id|>")
_USER: Final = ("<think>", "</think>", "<tool_call>", "    ", "\n\n")
_COMMON: Final = bytes(range(0x20, 0x7F)) + b"\t\n\v\r" + bytes(range(0x80, 0xC0)) + bytes(range(0xC2, 0xF0))


def write_vocabulary(path: Path, pre: str) -> None:
    """Write a GGUF file without tensors: bytes, drawn merges, some that name no token, control and user-defined tokens."""
    draw = Draw(_SEED)
    tokens = [BYTE_CHARS[byte] for byte in range(256) if byte not in _MISSING]
    merges: dict[str, None] = {}
    parts = [BYTE_CHARS[byte] for byte in _COMMON]
    while len(merges) < _MERGES:
        left, right = (draw.one(parts), draw.one(parts)) if draw.below(8) == 0 else (draw.one(parts[:160]), draw.one(parts[:160]))
        if len(left + right) > 6:
            continue
        merges[f"{left} {right}"] = None
        if draw.below(3) == 0:
            parts.append(left + right)
        if draw.below(50):
            tokens.append(left + right)
    tokens = [*dict.fromkeys(tokens), *_CONTROL, *_USER]
    types = [1] * (len(tokens) - len(_CONTROL) - len(_USER)) + [3] * len(_CONTROL) + [4] * len(_USER)
    write_gguf(
        path,
        [
            ("general.architecture", STRING, "llama"),
            ("tokenizer.ggml.model", STRING, "gpt2"),
            ("tokenizer.ggml.pre", STRING, pre),
            ("tokenizer.ggml.tokens", (ARRAY, STRING), tokens),
            ("tokenizer.ggml.token_type", (ARRAY, I32), types),
            ("tokenizer.ggml.merges", (ARRAY, STRING), list(merges)),
            ("tokenizer.ggml.bos_token_id", U32, tokens.index("<s>")),
            ("tokenizer.ggml.eos_token_id", U32, tokens.index("</s>")),
            ("tokenizer.ggml.add_eos_token", BOOL, True),
        ],
        [],
    )
