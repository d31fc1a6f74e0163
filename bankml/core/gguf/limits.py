# SPDX-License-Identifier: MIT OR Apache-2.0
"""The bounds inside which a GGUF header is believed."""

from __future__ import annotations

from typing import Final

VERSIONS: Final = (2, 3)
DEFAULT_ALIGNMENT: Final = 32
MAX_DIMS: Final = 4
MAX_NAME: Final = 63
"""Bytes of a tensor name: b11192 keeps 64 with the closing zero. Source: GGML_MAX_NAME, ggml/include/ggml.h."""

MAX_STRING: Final = 1 << 30
MAX_ARRAY: Final = 1 << 30
"""Source: GGUF_MAX_STRING_LENGTH and GGUF_MAX_ARRAY_ELEMENTS, ggml/src/gguf.cpp."""

MAX_DEPTH: Final = 64
"""Levels of nested arrays that are walked before the walk itself is refused."""

# The bounds below are bankml's own: far above every model, low enough that a hostile header costs a moment and little memory.
MAX_HEADER: Final = 1 << 28
"""Bytes of the whole header; the largest vocabularies take 16 MiB."""
MAX_KEY: Final = 65_535
MAX_KEYS: Final = 1 << 22
"""Bytes of all keys together."""
MAX_KV: Final = 16_384
MAX_TENSORS: Final = 16_384
MAX_TEXT: Final = 1 << 26
"""Bytes of a string that stands alone: a whole tokenizer.json is seen there."""
MAX_STRINGS: Final = 1 << 21
"""Strings in all arrays of one header together."""
MAX_ALIGNMENT: Final = 1 << 21
KEPT_TEXT: Final = 1 << 22
"""Bytes of strings that are kept in memory; those past it are read again when they are asked for."""

INT64_MAX: Final = (1 << 63) - 1
