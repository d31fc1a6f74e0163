# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the metadata say of the model, held against what b11192 asserts when it loads one.

A key that is absent is not judged here: whether a graph can be built without it is the plan's question.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from bankml.core.gguf.header import Array, Buffer, Header, at, short
from bankml.core.gguf.keys import PER_LAYER
from bankml.core.gguf.text_values import as_text, read_integer, read_real
from bankml.core.gguf.types import BOOL, INTEGERS, STRUCT_CODES
from bankml.core.json.numbers import f32
from bankml.refusal import Refusal

_Number = TypeVar("_Number", int, float)

MAX_LAYERS: Final = 512
MAX_EXPERTS: Final = 1024
"""Source: LLAMA_MAX_LAYERS, LLAMA_MAX_EXPERTS, src/llama-hparams.h."""

_INT32_MAX: Final = (1 << 31) - 1
_INT128_MAX: Final = (1 << 127) - 1
_BONSAI_2: Final = re.compile(r"bonsai[\s_-]*2|prism-fork-required", re.IGNORECASE)
_ROPE_SCALING: Final = ("none", "linear", "yarn", "longrope")

WITHOUT_HEADS: Final = frozenset({"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"})
"""Recurrent architectures: their files say head_count 0. Source: llm_arch_is_recurrent, src/llama-arch.cpp."""


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


def sampling_refusals(header: Header) -> Iterator[Refusal]:
    """Sampling defaults with which llama-server does not start. Source: common_sampler_init, common/sampling.cpp."""
    penalty = _sampling(header, "penalty_repeat", read_real)
    if penalty is not None and not (0.0 < penalty < math.inf and f32(1.0 / penalty) < math.inf):
        yield _bad_default(header, "penalty_repeat", "above 0 and finite, and so 1 / it", f"{penalty:g}")
    mirostat = _sampling(header, "mirostat", read_integer)
    if mirostat is not None and mirostat not in (0, 1, 2):
        yield _bad_default(header, "mirostat", "0, 1 or 2", str(mirostat))


def _sampling(header: Header, name: str, read: Callable[[str | None], _Number | None]) -> _Number | None:
    return read(as_text(header.scalar(f"general.sampling.{name}")))


def _bad_default(header: Header, name: str, allowed: str, found: str) -> Refusal:
    key = f"general.sampling.{name}"
    where = at(header.entries[key].value_offset, key)
    message = f"{key} is a default with which llama-server does not start"
    return Refusal("gguf.sampling", message, where=where, found=found, allowed=allowed)


def tensor_extra_refusals(header: Header) -> Iterator[Refusal]:
    """Precisions that are not one for each name. Source: llama_prec_policy::load, src/llama-model.cpp."""
    names, bits = (header.entries.get(f"general.tensor_extra.{name}") for name in ("name", "prec_a4"))
    if names is None or not isinstance(names.value, Array):
        return
    given = bits.value.n if bits is not None and isinstance(bits.value, Array) else None
    if given != names.value.n:
        entry = bits or names
        yield Refusal(
            "gguf.tensor-extra",
            "the tensors named in general.tensor_extra have not one precision each",
            where=at(entry.value_offset, "general.tensor_extra.prec_a4" if bits else "general.tensor_extra.name"),
            found="none" if given is None else f"{given} precisions",
            allowed=f"general.tensor_extra.prec_a4 with {names.value.n}",
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
    context = shape.number("context_length")
    if context is not None and not 0 < context <= _INT32_MAX:
        yield Refusal(
            "gguf.context-length",
            "the model leaves a prompt no context, on which llama-server stops",
            where=shape.where("context_length"),
            found=str(context),
            allowed=f"1 to {_INT32_MAX}",
        )
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
    for row in PER_LAYER:
        key = row.for_arch("").removeprefix(".")
        entry = shape.header.entries.get(f"{shape.arch}.{key}")
        if entry is None or not isinstance(entry.value, Array) or entry.value.type not in row.elements:
            continue
        if layers is not None and entry.value.n != layers:
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
