# SPDX-License-Identifier: MIT OR Apache-2.0
"""Small models of every architecture and switch, with weights of every type from a fixed stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bankml.core.exact import stream
from bankml.core.gguf import types
from bankml.core.gguf.types import TYPE_IDS
from bankml.core.gguf.writer import Pair, Tensor, write_gguf
from bankml.core.model.architectures import ARCHITECTURES

CONTEXT = 1024

# Powers of two that bring a type's stream near a deviation of 1/16, so that no activation outgrows a half.
_POWERS = {
    "F32": -1, "F16": -1, "BF16": -1, "Q8_0": -5, "Q4_0": -1, "Q4_1": -2, "Q5_0": -2, "Q5_1": -3, "Q1_0": 1, "Q2_0": 0,
    "Q2_K": -4, "Q3_K": -5, "Q4_K": -8, "Q5_K": -9, "Q6_K": -10, "IQ4_NL": -5, "IQ4_XS": -10, "MXFP4": -10, "TQ1_0": 1,
    "TQ2_0": 0, "IQ1_S": -2, "IQ1_M": -2, "IQ2_XXS": -5, "IQ2_XS": -5, "IQ2_S": -5, "IQ3_XXS": -6, "IQ3_S": -7,
    "NVFP4": -5,
}  # fmt: skip
_USUAL = ("Q4_1", "Q8_0", "F16", "Q4_0", "Q5_0", "Q5_1", "F32")
_K = ("Q4_K", "Q6_K", "Q3_K", "Q2_K", "Q5_K", "IQ4_XS", "Q8_0")
_REST = ("IQ4_NL", "MXFP4", "BF16", "Q4_K", "Q8_0")
_FEW_BITS = ("Q1_0", "Q2_0", "Q6_K")
_TERNARY = ("TQ2_0", "TQ1_0", "Q8_0")
_GRIDS = ("IQ2_XXS", "IQ3_S", "IQ1_S", "IQ2_XS", "IQ3_XXS", "IQ1_M", "IQ2_S")
_FOUR_BITS = ("NVFP4", "Q8_0", "NVFP4", "Q4_0")


@dataclass(frozen=True)
class Shape:
    """A model's shape. Its matrices take `types` in turn; `vocabulary` rows that do not divide by 8 or 4 take other kernels."""

    name: str
    arch: str
    types: tuple[str, ...]
    embd: int = 256
    ff: int = 512
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    layers: int = 3
    vocabulary: int = 320
    untied: bool = True
    biases: bool = False
    rope_factors: bool = False
    scales: bool = False
    reals: dict[str, float] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)


SHAPES = (
    Shape("llama", "llama", _USUAL, vocabulary=317),
    Shape("llama-tied-k", "llama", _K, untied=False, head_dim=32, heads=8),
    Shape("llama-switches", "llama", _REST, biases=True, rope_factors=True, reals={"attention.scale": 0.11}),
    Shape("llama-yarn", "llama", ("F16", "Q8_0"), texts={"rope.scaling.type": "yarn"}, reals={"rope.scaling.factor": 4.0}),
    Shape("llama-linear", "llama", ("F32", "Q4_1"), texts={"rope.scaling.type": "linear"}, reals={"rope.scaling.factor": 2.0}),
    Shape("qwen2", "qwen2", (*_USUAL, "IQ4_NL"), heads=4, kv_heads=1, biases=True, reals={"rope.freq_base": 1e6}),
    Shape("qwen2-wide", "qwen2", _K, embd=768, heads=8, kv_heads=8, head_dim=96, vocabulary=322, biases=True),
    Shape("qwen3", "qwen3", _REST, head_dim=128, kv_heads=2, reals={"rope.freq_base": 1e6}),
    Shape("qwen3-tied", "qwen3", _K, head_dim=128, untied=False, vocabulary=319),
    Shape("qwen3-few-bits", "qwen3", _FEW_BITS, head_dim=128, kv_heads=1, vocabulary=324),
    Shape("llama-heads-80", "llama", _USUAL, embd=320, head_dim=80, vocabulary=318),
    Shape("qwen2-heads-100", "qwen2", ("F16", "F32", "BF16"), embd=400, ff=408, head_dim=100, biases=True),
    Shape("qwen3-heads-120", "qwen3", ("Q8_0", "Q4_0", "F16"), head_dim=120, kv_heads=1),
    Shape("llama-ternary", "llama", _TERNARY, untied=False),
    Shape("llama-grids", "llama", _GRIDS, vocabulary=321),
    Shape("qwen3-grids", "qwen3", _GRIDS[3:] + _GRIDS[:3], head_dim=128, kv_heads=1, untied=False),
    Shape("llama-nvfp4", "llama", _FOUR_BITS, vocabulary=322, scales=True),
    Shape("qwen2-nvfp4", "qwen2", _FOUR_BITS, biases=True, untied=False, scales=True),
    Shape("qwen3-nvfp4", "qwen3", ("NVFP4",), embd=320, vocabulary=323, scales=True),
)


def write(shape: Shape, path: Path) -> None:
    """Write the model; the same shape gives the same bytes on every machine."""
    tensors = [_tensor(shape, number, name, dims) for number, (name, dims) in enumerate(_tensors(shape))]
    write_gguf(path, _keys(shape), tensors)


def _tensors(shape: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    a, e, ff = ARCHITECTURES[shape.arch], shape.embd, shape.ff
    q, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    yield "token_embd.weight", (e, shape.vocabulary)
    yield "output_norm.weight", (e,)
    if shape.untied:
        yield "output.weight", (e, shape.vocabulary)
        if shape.scales and shape.types == ("NVFP4",):
            yield from _scales("output")
    if shape.biases and a.output_bias:
        yield "output.bias", (shape.vocabulary,)
    if shape.rope_factors:
        yield "rope_freqs.weight", (shape.head_dim // 2,)
    for i in range(shape.layers):
        p = f"blk.{i}."
        yield p + "attn_norm.weight", (e,)
        for part, rows in (("q", q), ("k", kv), ("v", kv)):
            yield f"{p}attn_{part}.weight", (e, rows)
            if shape.scales:
                yield from _scales(f"{p}attn_{part}")
            if shape.biases:
                yield f"{p}attn_{part}.bias", (rows,)
            if a.qk_norm and part != "v":
                yield f"{p}attn_{part}_norm.weight", (shape.head_dim,)
        yield p + "attn_output.weight", (q, e)
        if shape.scales:
            yield from _scales(p + "attn_output")
        if shape.biases and a.output_projection_bias:
            yield p + "attn_output.bias", (e,)
        yield p + "ffn_norm.weight", (e,)
        for part, dims in (("gate", (e, ff)), ("up", (e, ff)), ("down", (ff, e))):
            yield f"{p}ffn_{part}.weight", dims
            if shape.scales:
                yield from _scales(f"{p}ffn_{part}")
            if shape.biases and a.feed_forward_bias:
                yield f"{p}ffn_{part}.bias", dims[1:]


def _scales(matrix: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{matrix}.scale", (1,)
    yield f"{matrix}.input_scale", (1,)


def _tensor(shape: Shape, number: int, name: str, dims: tuple[int, ...]) -> Tensor:
    seed = 5000 + number
    if len(dims) == 1:
        values = stream.plain(dims[0], seed) / np.float32(16)
        if name == "rope_freqs.weight":
            values = np.float32(1) + np.arange(dims[0], dtype=np.float32) / np.float32(8)
        elif name.endswith(("norm.weight", "scale")):
            values = values + np.float32(1)
        return Tensor(name, dims, TYPE_IDS["F32"], values)
    type_name = shape.types[number % len(shape.types)]
    data = stream.weights(type_name, dims[1], dims[0], seed, edges=False, power=_POWERS[type_name])
    return Tensor(name, dims, TYPE_IDS[type_name], data)


def _keys(shape: Shape) -> list[Pair]:
    arch, count = shape.arch, shape.vocabulary
    integers = {
        "block_count": shape.layers,
        "context_length": CONTEXT,
        "embedding_length": shape.embd,
        "feed_forward_length": shape.ff,
        "attention.head_count": shape.heads,
        "attention.head_count_kv": shape.kv_heads,
        "attention.key_length": shape.head_dim,
        "attention.value_length": shape.head_dim,
        "rope.dimension_count": shape.head_dim,
    }
    reals = {"attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 10000.0, **shape.reals}
    tokens = ["a", "b", "c", "ab", "Ċ", "Ġ", "<|end|>", *(f"t{number}" for number in range(7, count))]
    pairs: list[tuple[str, Any, Any]] = [
        ("general.architecture", types.STRING, arch),
        ("general.name", types.STRING, shape.name),
        *((f"{arch}.{key}", types.U32, value) for key, value in integers.items()),
        *((f"{arch}.{key}", types.F32, value) for key, value in reals.items()),
        *((f"{arch}.{key}", types.STRING, value) for key, value in shape.texts.items()),
        ("tokenizer.ggml.model", types.STRING, "gpt2"),
        ("tokenizer.ggml.pre", types.STRING, "gpt-2"),
        ("tokenizer.ggml.tokens", (types.ARRAY, types.STRING), tokens),
        ("tokenizer.ggml.token_type", (types.ARRAY, types.I32), [3 if number == 6 else 1 for number in range(count)]),
        ("tokenizer.ggml.merges", (types.ARRAY, types.STRING), ["a b"]),
        ("tokenizer.ggml.eos_token_id", types.U32, 6),
    ]
    return pairs
