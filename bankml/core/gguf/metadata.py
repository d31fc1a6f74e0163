# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the metadata say of the model, held against what b11192 asserts when it loads one.

A key that is absent is not judged here: whether a graph can be built without it is the plan's question.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Final

from bankml.core.gguf.header import Array, Buffer, Entry, Header, at, short
from bankml.core.gguf.types import ARRAY, BOOL, F32, I8, I32, INTEGERS, STRING, STRUCT_CODES, U8, U16, U32, VALUE_TYPES
from bankml.core.refusal import Refusal

MAX_LAYERS: Final = 512
MAX_EXPERTS: Final = 1024
"""Source: LLAMA_MAX_LAYERS, LLAMA_MAX_EXPERTS, src/llama-hparams.h."""

_INT128_MAX: Final = (1 << 127) - 1
_BONSAI_2: Final = re.compile(r"bonsai[\s_-]*2|prism-fork-required", re.IGNORECASE)
_ROPE_SCALING: Final = ("none", "linear", "yarn", "longrope")

WITHOUT_HEADS: Final = frozenset({"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"})
"""Recurrent architectures: their files say head_count 0. Source: llm_arch_is_recurrent, src/llama-arch.cpp."""

_TOKEN_IDS: Final = (
    "bos",
    "eos",
    "eot",
    "eom",
    "unknown",
    "seperator",
    "padding",
    "mask",
    "fim_pre",
    "fim_suf",
    "fim_mid",
    "fim_pad",
    "fim_rep",
    "fim_sep",
    "prefix",
    "suffix",
    "middle",
)
_FILE_KEYS: Final[dict[str, int]] = {
    "general.architecture": STRING,
    "general.name": STRING,
    "general.file_type": U32,
    "split.count": U16,
    "tokenizer.ggml.model": STRING,
    "tokenizer.ggml.pre": STRING,
    "tokenizer.ggml.token_type_count": U32,
    "tokenizer.ggml.add_bos_token": BOOL,
    "tokenizer.ggml.add_eos_token": BOOL,
    "tokenizer.ggml.add_sep_token": BOOL,
    "tokenizer.ggml.add_space_prefix": BOOL,
    "tokenizer.ggml.remove_extra_whitespaces": BOOL,
    "tokenizer.ggml.normalizer.lowercase": BOOL,
    "tokenizer.ggml.normalizer.strip_accents": BOOL,
    **{f"tokenizer.ggml.{name}_token_id": U32 for name in _TOKEN_IDS},
}
_ARRAY_KEYS: Final[dict[str, tuple[int, ...]]] = {
    "tokenizer.ggml.tokens": (STRING,),
    "tokenizer.ggml.scores": (F32, I32),
    "tokenizer.ggml.token_type": (I32,),
    "tokenizer.ggml.merges": (STRING,),
    "tokenizer.ggml.suppress_tokens": (I32,),
    "tokenizer.ggml.precompiled_charsmap": (I8, U8),
}
_MODEL_KEYS: Final[dict[str, int]] = {
    "context_length": U32,
    "embedding_length": U32,
    "embedding_length_out": U32,
    "block_count": U32,
    "nextn_predict_layers": U32,
    "pooling_type": U32,
    "expert_count": U32,
    "expert_group_count": U32,
    "expert_group_used_count": U32,
    "attention.causal": BOOL,
    "attention.key_length": U32,
    "attention.value_length": U32,
    "rope.dimension_count": U32,
    "rope.freq_base": F32,
    "rope.scale_linear": F32,
    "rope.scaling.type": STRING,
    "rope.scaling.factor": F32,
    "rope.scaling.attn_factor": F32,
    "rope.scaling.original_context_length": U32,
    "rope.scaling.finetuned": BOOL,
}
_PER_LAYER_KEYS: Final = ("attention.head_count", "attention.head_count_kv", "feed_forward_length", "expert_used_count")
"""One number, or one for each layer. Source: llama_model_base::load_hparams, src/llama-model.cpp."""


def label_refusals(header: Header, engine: str, name: str) -> Iterator[Refusal]:
    """The refusal of Bonsai 2's rotated weights, which mainline would turn into noise without a word."""
    if engine == "prism":
        return
    for key in ("general.name", "general.basename"):
        text = header.text(key)
        if text is not None and _BONSAI_2.search(text):
            yield _rotated(at(header.entries[key].value_offset, key), text)
            return
    if _BONSAI_2.search(name):
        yield _rotated("file name", name)


def _rotated(where: str, text: str) -> Refusal:
    return Refusal(
        "gguf.rotated",
        "Bonsai 2 weights are in a rotated basis",
        where=where,
        found=short(text),
        allowed="weights that b11192 multiplies as they are",
        hint="--engine prism judges the file for PrismML's fork",
    )


def type_refusals(header: Header) -> Iterator[Refusal]:
    """One refusal for each key whose value type makes b11192 give up."""
    wanted: dict[str, tuple[int, ...]] = {key: (number,) for key, number in _FILE_KEYS.items()}
    arch = header.text("general.architecture")
    if arch is not None and arch != "clip":
        wanted |= {f"{arch}.{key}": (number,) for key, number in _MODEL_KEYS.items()}
        wanted |= {f"{arch}.{key}": (U32, ARRAY) for key in _PER_LAYER_KEYS}
    for key, kinds in wanted.items():
        entry = header.entries.get(key)
        if entry is not None and entry.type not in kinds:
            yield _wrong_type(key, entry, " or ".join(VALUE_TYPES[kind].name for kind in kinds))
    for key, kinds in _ARRAY_KEYS.items():
        entry = header.entries.get(key)
        if entry is not None and not (isinstance(entry.value, Array) and entry.value.type in kinds):
            yield _wrong_type(key, entry, "an array of " + " or ".join(VALUE_TYPES[kind].name for kind in kinds))


def _wrong_type(key: str, entry: Entry, allowed: str) -> Refusal:
    kind = VALUE_TYPES[entry.type].name
    found = f"an array of {VALUE_TYPES[entry.value.type].name}" if isinstance(entry.value, Array) else kind
    where = at(entry.value_offset - 4, f"value type of {short(key)}")
    return Refusal("gguf.key-type", f"{short(key)} is of the wrong type", where=where, found=found, allowed=allowed)


def vocabulary_refusals(header: Header) -> Iterator[Refusal]:
    """Scores and types for every token. Source: llama_vocab::impl::load, src/llama-vocab.cpp."""
    tokens = header.entries.get("tokenizer.ggml.tokens")
    if tokens is None or not isinstance(tokens.value, Array):
        return
    for key in ("tokenizer.ggml.scores", "tokenizer.ggml.token_type"):
        entry = header.entries.get(key)
        if entry is not None and isinstance(entry.value, Array) and entry.value.n < tokens.value.n:
            yield Refusal(
                "gguf.vocabulary",
                f"{short(key)} does not cover the vocabulary",
                where=at(entry.value_offset + 4, f"count of {short(key)}"),
                found=str(entry.value.n),
                allowed=f"{tokens.value.n} or more",
            )


class Shape:
    """The numbers of the model that decide whether it can be loaded, as far as the header gives them."""

    def __init__(self, header: Header, data: Buffer) -> None:
        self.header = header
        self.data = data
        self.arch = header.text("general.architecture")

    def number(self, key: str) -> int | None:
        """An integer of the architecture's own keys."""
        return self.header.integer(f"{self.arch}.{key}")

    def numbers(self, key: str) -> list[int] | None:
        """One number or an array of integers, as a list; None where it is absent or of another type."""
        entry = self.header.entries.get(f"{self.arch}.{key}")
        if entry is None:
            return None
        if isinstance(entry.value, Array):
            array = entry.value
            # More elements than layers are refused for their count, and need not be decoded for that.
            if array.type not in INTEGERS | {BOOL} or array.n > MAX_LAYERS:
                return None
            span = self.data[array.start : array.end]
            return [int(each) for each in struct.unpack(f"<{array.n}{STRUCT_CODES[array.type]}", span)]
        number = self.number(key)
        return None if number is None else [number]

    def where(self, key: str) -> str:
        """The place of one of the architecture's own keys."""
        name = f"{self.arch}.{key}"
        return at(self.header.entries[name].value_offset, name)


def kv_bytes_per_token(shape: Shape) -> int | None:
    """Bytes of an f16 key and value cache for one token; None where the header does not say or says it per layer."""
    layers = shape.number("block_count")
    heads = shape.number("attention.head_count")
    heads_kv = (
        heads if f"{shape.arch}.attention.head_count_kv" not in shape.header.entries else shape.number("attention.head_count_kv")
    )
    width = shape.number("embedding_length")
    share = width // heads if width is not None and heads is not None and heads > 0 else None
    key = shape.number("attention.key_length")
    value = shape.number("attention.value_length")
    key = share if key is None else key
    value = share if value is None else value
    if layers is None or heads_kv is None or key is None or value is None:
        return None
    return layers * heads_kv * (key + value) * 2


def shape_refusals(shape: Shape) -> Iterator[Refusal]:
    """What cannot be a model: sizes of zero, heads that do not divide, experts that do not add up."""
    if shape.arch is None or shape.arch == "clip":
        return
    kv = kv_bytes_per_token(shape)
    if kv is not None and abs(kv) > _INT128_MAX:
        yield Refusal(
            "gguf.kv-overflow",
            "KV cache size per token overflows",
            where=shape.where("block_count"),
            found=f"{kv} bytes",
            allowed="less than 2^127 bytes",
        )
    layers = shape.number("block_count")
    if layers is not None and not 0 < layers <= MAX_LAYERS:
        yield Refusal(
            "gguf.block-count",
            "the number of layers is out of range",
            where=shape.where("block_count"),
            found=str(layers),
            allowed=f"1 to {MAX_LAYERS}",
        )
    if shape.number("embedding_length") == 0:
        message = "the embedding has no elements"
        yield Refusal("gguf.embedding-length", message, where=shape.where("embedding_length"), found="0", allowed="1 or more")
    yield from _layer_refusals(shape, layers)
    yield from _head_refusals(shape)
    yield from _expert_refusals(shape)
    scaling = shape.header.text(f"{shape.arch}.rope.scaling.type")
    if scaling is not None and scaling not in _ROPE_SCALING:
        yield Refusal(
            "gguf.rope-scaling",
            "the RoPE scaling is of an unknown type",
            where=shape.where("rope.scaling.type"),
            found=short(scaling),
            allowed=", ".join(_ROPE_SCALING),
        )


def _layer_refusals(shape: Shape, layers: int | None) -> Iterator[Refusal]:
    for key in _PER_LAYER_KEYS:
        entry = shape.header.entries.get(f"{shape.arch}.{key}")
        if entry is None or not isinstance(entry.value, Array):
            continue
        kinds = (U32, I32) if key != "expert_used_count" else (U32, I32, BOOL)
        if entry.value.type not in kinds:
            yield _wrong_type(f"{shape.arch}.{key}", entry, "an array of u32 or i32")
        elif layers is not None and entry.value.n != layers:
            yield Refusal(
                "gguf.layer-count",
                f'"{shape.arch}.{key}" has not one value for each layer',
                where=shape.where(key),
                found=f"{entry.value.n} values",
                allowed=str(layers),
            )
        elif min(shape.numbers(key) or [0]) < 0:
            message = f'"{shape.arch}.{key}" is negative for a layer'
            found = str(min(shape.numbers(key) or [0]))
            yield Refusal("gguf.layer-negative", message, where=shape.where(key), found=found, allowed="0 or more")


def _head_refusals(shape: Shape) -> Iterator[Refusal]:
    heads = shape.numbers("attention.head_count")
    heads_kv = shape.numbers("attention.head_count_kv")
    if heads is None:
        return
    single = shape.number("attention.head_count")
    if single == 0 and shape.arch not in WITHOUT_HEADS:
        message = "the model has no attention heads"
        yield Refusal("gguf.head-count", message, where=shape.where("attention.head_count"), found="0", allowed="1 or more")
    if heads_kv is not None and shape.number("attention.head_count_kv") == 0 and any(heads):
        where = shape.where("attention.head_count_kv")
        yield Refusal("gguf.head-count-kv", "the model has no key-value heads", where=where, found="0", allowed="1 or more")
    layers = max(len(heads), len(heads_kv or []))
    pairs = list(zip(_spread(heads, layers), _spread(heads_kv, layers), strict=False)) if heads_kv else []
    for layer, (query, pair) in enumerate(pairs):
        if query > 0 and pair > 0 and query % pair:
            yield Refusal(
                "gguf.head-division",
                "the attention heads do not divide by the key-value heads" + (f" in layer {layer}" if layers > 1 else ""),
                where=shape.where("attention.head_count_kv"),
                found=f"{query} and {pair}",
                allowed="a divisor of the number of heads",
            )
            break
    width = shape.number("embedding_length")
    given = all(shape.number(f"attention.{name}_length") is not None for name in ("key", "value"))
    if single and width and width % single and not given:
        yield Refusal(
            "gguf.embedding-division",
            "the embedding does not divide by the attention heads",
            where=shape.where("attention.head_count"),
            found=f"{width} and {single}",
            allowed="a divisor of the embedding's length, or attention.key_length and value_length",
        )


def _spread(values: list[int], n: int) -> list[int]:
    return values * n if len(values) == 1 else values


def _expert_refusals(shape: Shape) -> Iterator[Refusal]:
    """The assertions of load_hparams about experts. Source: src/llama-model.cpp."""
    count = shape.number("expert_count") or 0
    if shape.arch in ("hunyuan_vl", "hunyuan-dense") and count <= 1:
        return
    used = max(shape.numbers("expert_used_count") or [0], default=0)
    groups = shape.number("expert_group_count") or 0
    group_used = shape.number("expert_group_used_count") or 0
    problem: tuple[str, int, str] | None = None
    if count > MAX_EXPERTS:
        problem = ("expert_count", count, f"{MAX_EXPERTS} at most")
    elif used > count or (count > 0 and used <= 0):
        problem = ("expert_used_count", used, f"1 to {count}" if count else "0 where there are no experts")
    elif groups and (groups >= count or (groups > 1 and count % groups)):
        problem = ("expert_group_count", groups, f"a divisor of {count} below it" if count else "0 where there are no experts")
    elif groups > 1 and not 0 < group_used < groups:
        problem = ("expert_group_used_count", group_used, f"1 to {groups - 1}")
    if problem:
        key, found, allowed = problem
        given = key if f"{shape.arch}.{key}" in shape.header.entries else "expert_count"
        where = shape.where(given)
        yield Refusal("gguf.experts", "the experts do not add up", where=where, found=f"{key} {found}", allowed=allowed)
