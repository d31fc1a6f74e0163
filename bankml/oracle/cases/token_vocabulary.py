# SPDX-License-Identifier: MIT OR Apache-2.0
"""A small vocabulary that shows where words were cut: nearly every pair of neighbouring bytes has a merge."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final

from bankml.core.gguf.types import ARRAY, BOOL, I32, STRING, U32
from bankml.core.gguf.writer import write_gguf
from bankml.core.tokenizer.bpe import BYTE_CHARS, spell
from bankml.oracle.cases.token_corpus import Draw, drawn, written

_SEED: Final = 11192
_LONGER: Final = 1500
_MISSING: Final = frozenset(b"\x00\x1c\xf8\xff")
_CONTROL: Final = ("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<s>", "</s>", "<|eot_id|>")
_USER: Final = ("<think>", "</think>", "<tool_call>", "    ", "\n\n")


@cache
def _merges() -> list[str]:
    """A merge for every two bytes that stand together in the texts, in a drawn order, then merges of what they make."""
    draw = Draw(_SEED)
    together: set[tuple[str, str]] = set()
    for text in (*written(), *drawn(_SEED, 400)):
        together.update(pairwise(spell(text)))
    rest = sorted(together)
    pairs = [rest.pop(draw.below(len(rest))) for _ in range(len(rest))]
    parts = [left + right for left, right in pairs]
    for _ in range(_LONGER):
        left, right = draw.one(parts), draw.one(parts)
        pairs.append((left, right))
        if len(left + right) < 6:
            parts.append(left + right)
    return list(dict.fromkeys(f"{left} {right}" for left, right in pairs))


def write_vocabulary(path: Path, pre: str) -> None:
    """Write a GGUF file without tensors: bytes, drawn merges, some that name no token, control and user-defined tokens."""
    draw = Draw(_SEED + 1)
    merges = _merges()
    tokens = [BYTE_CHARS[byte] for byte in range(256) if byte not in _MISSING]
    tokens += [merge.replace(" ", "") for merge in merges if draw.below(50)]
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
            ("tokenizer.ggml.merges", (ARRAY, STRING), merges),
            ("tokenizer.ggml.bos_token_id", U32, tokens.index("<s>")),
            ("tokenizer.ggml.eos_token_id", U32, tokens.index("</s>")),
            ("tokenizer.ggml.add_eos_token", BOOL, True),
        ],
        [],
    )
