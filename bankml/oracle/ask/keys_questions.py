# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the oracle of keys asks of every model that answers: logits of a few micro-batches, and what its vocabulary does."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

STEPS: tuple[tuple[int, tuple[int, ...]], ...] = (
    (0, (7, 9, 11, 13, 1, 2, 3, 30, 31, 8, 22, 17)),
    (12, (5,)),
    (13, tuple(range(35))),
    (48, (39,)),
)
"""First cell and tokens of each micro-batch; the logits of its last row are taken."""
TEXTS = (
    "ab a b",
    "  a <mask>  b [MASK]  x",
    "user<|end|>word <s> </s> <unk>\n<|endoftext|>",
    "<|fim_prefix|>a<fim_prefix> b<|fim_pad|><|file_sep|><|fim_suffix|>a<|fim_middle|>",
)


def digest_of_logits(rows: Sequence[npt.NDArray[np.float32]]) -> str:
    """The sha256 of the rows' bytes, one after the other."""
    return hashlib.sha256(b"".join(row.tobytes() for row in rows)).hexdigest()


def digest_of_text(
    ends: Mapping[str, int],
    eog: Sequence[int],
    encode: Callable[[bytes, bool, bool], list[int]],
    decode: Callable[[list[int]], bytes],
    pieces: Sequence[bytes],
) -> str:
    """The sha256 of everything that a vocabulary says of the texts and of itself."""
    ids = [encode(text.encode(), add, parse) for text in TEXTS for add in (False, True) for parse in (False, True)]
    facts: list[Any] = [
        [ends["bos"], ends["eos"]],
        list(eog),
        ids,
        [decode(each).hex() for each in ids],
        [piece.hex() for piece in pieces],
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()
