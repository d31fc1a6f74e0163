# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tiny models of each architecture whose headers the oracle of keys changes; their weights are always the same."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from bankml.core.gguf.types import ARRAY, BOOL, F32, F64, I32, STRING, U32
from bankml.core.gguf.writer import Pair, Tensor, header_bytes
from bankml.oracle.cases import small_models
from bankml.oracle.cases.small_models import Shape

EMBEDDING, HEADS, KV_HEADS, HEAD_DIM, FEED_FORWARD, LAYERS = 64, 2, 1, 32, 64, 2
CONTEXT = 1024

TOKENS = [
    "a", "b", "c", "ab", "Ċ", "Ġ", "<|end|>", "Ġa", "Ġb", "x", "y", "<s>", "</s>", "<unk>", "<|endoftext|>", "<mask>", "[MASK]",
    "<|fim_prefix|>", "<fim_prefix>", "<|fim_pad|>", "<|file_sep|>", "<0x41>", "user", "word", "<|fim_suffix|>", "<|fim_middle|>",
    *(f"t{number}" for number in range(26, 40)),
]  # fmt: skip
TYPES = [{6: 3, 11: 3, 12: 3, 13: 2, 14: 3, 15: 4, 16: 3, 21: 6, 22: 4}.get(number, 1) for number in range(len(TOKENS))]
MERGES = ["a b", "Ġ a", "Ġ b"]

Changes = dict[str, list[Any] | None]
"""Key, to value type and value (an array's type is ``[9, element type]``), or to None where the key is taken out."""


def base(arch: str) -> dict[str, Pair]:
    """The pairs of the unchanged header, by key."""
    sizes = {
        "context_length": CONTEXT,
        "embedding_length": EMBEDDING,
        "block_count": LAYERS,
        "feed_forward_length": FEED_FORWARD,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS,
        "rope.dimension_count": HEAD_DIM,
    }
    pairs: list[Pair] = [
        ("general.architecture", STRING, arch),
        ("general.name", STRING, "tiny"),
        *((f"{arch}.{name}", U32, value) for name, value in sizes.items()),
        (f"{arch}.attention.layer_norm_rms_epsilon", F32, 1e-6),
        ("tokenizer.ggml.model", STRING, "gpt2"),
        ("tokenizer.ggml.pre", STRING, "gpt-2"),
        ("tokenizer.ggml.tokens", (ARRAY, STRING), TOKENS),
        ("tokenizer.ggml.token_type", (ARRAY, I32), TYPES),
        ("tokenizer.ggml.merges", (ARRAY, STRING), MERGES),
        ("tokenizer.ggml.bos_token_id", U32, TOKENS.index("<s>")),
        ("tokenizer.ggml.eos_token_id", U32, TOKENS.index("<|end|>")),
        ("tokenizer.ggml.add_bos_token", BOOL, False),
    ]
    return {pair[0]: pair for pair in pairs}


@lru_cache
def _tensors(arch: str, rows: int, layers: int, extra: tuple[str, ...]) -> tuple[list[Tensor], bytes]:
    """The tensors, and the data section with all of them."""
    shape = Shape(
        "keys", arch, ("F32",), embd=EMBEDDING, ff=FEED_FORWARD, heads=HEADS, kv_heads=KV_HEADS, head_dim=HEAD_DIM,
        layers=layers, vocabulary=rows, untied=False,
    )  # fmt: skip
    wanted = [*small_models._tensors(shape), *((name, (HEAD_DIM // 2,)) for name in extra)]
    made = [small_models._tensor(shape, number, name, dims) for number, (name, dims) in enumerate(wanted)]
    datas = [memoryview(tensor.data).cast("B") for tensor in made]  # type: ignore[arg-type]
    return made, b"".join(bytes(data) + bytes(-len(data) % 32) for data in datas)


def write(
    arch: str, changes: Changes, path: Path, rows: int = len(TOKENS), layers: int = LAYERS, extra: Sequence[str] = ()
) -> None:
    """Write the model with some of its keys changed, added or taken out.

    ``rows`` and ``layers`` are how many rows the embedding has and how many layers there are, whatever the header says;
    ``extra`` names further tensors of one number for each rotated pair.
    """
    pairs = base(arch)
    for key, given in changes.items():
        pairs.pop(key, None)
        if given is not None:
            pairs[key] = _pair(key, *given)
    tensors, data = _tensors(arch, rows, layers, tuple(extra))
    head = header_bytes(list(pairs.values()), tensors)
    path.write_bytes(head + bytes(-len(head) % 32) + data)


def _pair(key: str, kind: Any, value: Any) -> Pair:
    element = kind[1] if isinstance(kind, list) else kind
    if element in (F32, F64):
        value = [_real(each) for each in value] if isinstance(kind, list) else _real(value)
    return (key, (ARRAY, element) if isinstance(kind, list) else kind, value)


def _real(value: float | str) -> float:
    """A number that JSON holds, or one that it does not, as text."""
    return float(value)
