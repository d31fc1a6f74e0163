# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a GGUF header is, as a model; or which key or tensor stands in the way of playing it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bankml.core.gguf.reader import GgufFile
from bankml.core.gguf.types import TYPES
from bankml.core.model.architectures import ARCHITECTURES, Architecture
from bankml.core.refusal import Refusal

PLAYED_TYPES = {
    "F32", "F16", "BF16", "Q1_0", "Q2_0",
    "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4",
    "NVFP4", "TQ1_0", "TQ2_0",
    "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S",
}  # fmt: skip


@dataclass(frozen=True)
class Rope:
    """Rotary embedding parameters, as b11192 derives them from the header.

    `attn_factor` is without the magnitude of YaRN, which takes a logarithm: see ``model.yarn_magnitude``.
    """

    dims: int
    freq_base: float
    freq_scale: float
    ext_factor: float
    attn_factor: float
    beta_fast: float
    beta_slow: float
    n_ctx_orig: int


@dataclass(frozen=True)
class Plan:
    """A playable model: shapes, the graph's switches, and its tensors by role.

    `matrices` and `vectors` map llama.cpp's tensor names to (rows, k) and to lengths; all of them are in the file.
    """

    architecture: Architecture
    name: str | None
    n_vocab: int
    n_ctx_train: int
    n_embd: int
    n_layer: int
    n_ff: int
    n_head: int
    n_head_kv: int
    head_dim: int
    eps: float
    attention_scale: float
    rope: Rope
    rope_factors: str | None
    tied: bool
    matrices: dict[str, tuple[int, int]]
    vectors: dict[str, int]

    @property
    def output(self) -> str:
        """The tensor that makes the logits."""
        return "token_embd.weight" if self.tied else "output.weight"


class _Header:
    """Typed access to an architecture's keys."""

    def __init__(self, gguf: GgufFile, arch: str) -> None:
        self.gguf, self.arch = gguf, arch

    def integer(self, key: str, default: int | None = None) -> int:
        return int(self._value(key, default, (int,), "an integer"))

    def real(self, key: str, default: float | None = None) -> float:
        return float(self._value(key, default, (int, float), "a number"))

    def text(self, key: str, default: str) -> str:
        return str(self._value(key, default, (str,), "a string"))

    def _value(self, key: str, default: Any, kinds: tuple[type, ...], word: str) -> Any:
        name = f"{self.arch}.{key}"
        value = self.gguf.get(name)
        if value is None:
            if default is None:
                raise Refusal("model.key-missing", f"the header has no {name}", where=f"key {name}", allowed=word)
            return default
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise Refusal("model.key-type", f"{name} is not {word}", where=f"key {name}", found=f"{value!r:.60}", allowed=word)
        return value


def plan(gguf: GgufFile) -> Plan:
    """Decide from the header alone whether the model plays.

    Raises:
        Refusal: ``model.*``, naming the key or tensor that stands in the way.
    """
    arch_name = gguf.get("general.architecture")
    architecture = ARCHITECTURES.get(arch_name) if isinstance(arch_name, str) else None
    if architecture is None:
        raise Refusal(
            "model.architecture",
            f"bankml does not play the architecture {arch_name!r:.60}",
            where="key general.architecture",
            found=f"{arch_name!r:.60}",
            allowed=", ".join(sorted(ARCHITECTURES)),
        )
    header = _Header(gguf, architecture.name)
    _refuse_what_is_not_built(gguf, architecture.name)
    n_embd = header.integer("embedding_length")
    n_layer = header.integer("block_count")
    n_head = header.integer("attention.head_count")
    n_head_kv = header.integer("attention.head_count_kv", n_head)
    n_ff = header.integer("feed_forward_length")
    if min(n_embd, n_layer, n_head, n_head_kv, n_ff) < 1 or n_head % n_head_kv:
        raise Refusal(
            "model.shape",
            "sizes in the header are not positive or do not divide",
            found=f"embedding {n_embd}, layers {n_layer}, heads {n_head}, key heads {n_head_kv}, feed forward {n_ff}",
            allowed="positive sizes, heads a multiple of key heads",
        )
    head_dim = header.integer("attention.key_length", n_embd // n_head)
    value_dim = header.integer("attention.value_length", n_embd // n_head)
    if head_dim != value_dim or head_dim % 2 or head_dim < 2:
        raise Refusal(
            "model.head-width",
            "bankml plays heads whose key and value widths are one even number",
            where=f"key {architecture.name}.attention.key_length",
            found=f"key {head_dim}, value {value_dim}",
            allowed="equal, even",
        )
    if architecture.square_attention and n_head * head_dim != n_embd:
        raise Refusal(
            "model.head-width",
            f"{architecture.name}'s heads together must be as wide as the embedding, as in b11192",
            where=f"key {architecture.name}.attention.key_length",
            found=f"{n_head} heads of {head_dim}",
            allowed=f"{n_embd} together",
        )
    rot = header.integer("rope.dimension_count", head_dim)
    if rot != head_dim:
        raise Refusal(
            "model.rope-dims",
            "the rotation must cover the whole head",
            where=f"key {architecture.name}.rope.dimension_count",
            found=str(rot),
            allowed=str(head_dim),
        )
    tokens = gguf.header.entries.get("tokenizer.ggml.tokens")
    embedding = gguf.tensors.get("token_embd.weight")
    if tokens is None or embedding is None:
        missing = "key tokenizer.ggml.tokens" if tokens is None else "tensor token_embd.weight"
        raise Refusal("model.missing", f"the file has no {missing}", where=missing)
    n_vocab = embedding.dims[1] if len(embedding.dims) > 1 else 0
    built = Plan(
        architecture=architecture,
        name=_optional_text(gguf, "general.name"),
        n_vocab=n_vocab,
        n_ctx_train=header.integer("context_length"),
        n_embd=n_embd,
        n_layer=n_layer,
        n_ff=n_ff,
        n_head=n_head,
        n_head_kv=n_head_kv,
        head_dim=head_dim,
        eps=header.real("attention.layer_norm_rms_epsilon"),
        # In float32 steps; the llama graph does not read attention.scale.
        attention_scale=_f32(1.0 / _f32(math.sqrt(head_dim))),
        rope=_rope(header, rot),
        rope_factors="rope_freqs.weight" if architecture.rope_factors and "rope_freqs.weight" in gguf.tensors else None,
        tied="output.weight" not in gguf.tensors,
        matrices={},
        vectors={},
    )
    _tensors(gguf, built)
    return built


def _optional_text(gguf: GgufFile, key: str) -> str | None:
    value = gguf.get(key)
    return value if isinstance(value, str) else None


def _refuse_what_is_not_built(gguf: GgufFile, arch: str) -> None:
    """Header switches that change the graph and have no counterpart here."""
    zero_or_absent = ("expert_count", "pooling_type", "nextn_predict_layers")
    for key in zero_or_absent:
        value = gguf.get(f"{arch}.{key}")
        if value:
            raise Refusal(
                "model.not-built",
                f"bankml does not play {arch}.{key}",
                where=f"key {arch}.{key}",
                found=f"{value!r:.60}",
                allowed="0 or absent",
            )
    split = gguf.get("split.count")
    if isinstance(split, int) and split > 1:
        raise Refusal(
            "model.split",
            "this is one part of a split model",
            where="key split.count",
            found=str(split),
            allowed="1",
            hint="merge the parts with llama-gguf-split --merge",
        )


def _rope(header: _Header, dims: int) -> Rope:
    """Source: llama_model_base::load_hparams, llama-model.cpp; the constructor of llama_context, llama-context.cpp."""
    scaling = header.text("rope.scaling.type", "linear")
    if scaling not in ("none", "linear", "yarn"):
        key = f"{header.arch}.rope.scaling.type"
        raise Refusal(
            "model.rope-scaling",
            f"bankml does not play RoPE scaling {scaling!r}",
            where=f"key {key}",
            allowed="none, linear, yarn",
        )
    factor = header.real("rope.scaling.factor", 0.0) or header.real("rope.scale_linear", 0.0)
    f32 = _f32
    freq_scale = f32(1.0 / factor) if factor else 1.0
    n_ctx_orig = header.integer("rope.scaling.original_context_length", header.integer("context_length"))
    if scaling == "none":
        freq_scale = 1.0
    ext = header.real("rope.scaling.yarn_ext_factor", -1.0)
    if ext < 0:
        ext = 1.0 if scaling == "yarn" else 0.0
    attn = header.real("rope.scaling.yarn_attn_factor", -1.0)
    attn = 1.0 if attn < 0 else attn
    if ext:
        attn = 1.0
    return Rope(
        dims=dims,
        freq_base=header.real("rope.freq_base", 10000.0),
        freq_scale=freq_scale,
        ext_factor=ext,
        attn_factor=f32(attn * header.real("rope.scaling.attn_factor", 1.0)),
        beta_fast=header.real("rope.scaling.yarn_beta_fast", 32.0),
        beta_slow=header.real("rope.scaling.yarn_beta_slow", 1.0),
        n_ctx_orig=n_ctx_orig,
    )


def _f32(value: float) -> float:
    import struct

    return float(struct.unpack("<f", struct.pack("<f", value))[0])


Expected = Iterator[tuple[str, tuple[int, ...], bool]]
"""(name, dims, required) of tensors."""


def _scales(matrix: str) -> Expected:
    """The scales that a matrix may have: of its products, and of activations in 4 bits, which the CPU has not.

    Source: llama_model_base::load_tensors, llama-model.cpp.
    """
    yield f"{matrix}.scale", (1,), False
    yield f"{matrix}.input_scale", (1,), False


def _expected(built: Plan, *, output_scales: bool) -> Expected:
    """Every tensor of the architecture."""
    a = built.architecture
    e, q = built.n_embd, built.n_head * built.head_dim
    kv = built.n_head_kv * built.head_dim
    yield "token_embd.weight", (e, built.n_vocab), True
    yield "output_norm.weight", (e,), True
    yield "output.weight", (e, built.n_vocab), False
    if output_scales:
        yield from _scales("output")
    if a.output_bias:
        yield "output.bias", (built.n_vocab,), False
    if a.rope_factors:
        yield "rope_freqs.weight", (built.head_dim // 2,), False
    for i in range(built.n_layer):
        p = f"blk.{i}."
        yield p + "attn_norm.weight", (e,), True
        for part, rows in (("q", q), ("k", kv), ("v", kv)):
            yield f"{p}attn_{part}.weight", (e, rows), True
            yield f"{p}attn_{part}.bias", (rows,), False
            yield from _scales(f"{p}attn_{part}")
            if a.qk_norm and part != "v":
                yield f"{p}attn_{part}_norm.weight", (built.head_dim,), True
        yield p + "attn_output.weight", (q, e), True
        yield from _scales(p + "attn_output")
        if a.output_projection_bias:
            yield p + "attn_output.bias", (e,), False
        yield p + "ffn_norm.weight", (e,), True
        for part, dims in (("gate", (e, built.n_ff)), ("up", (e, built.n_ff)), ("down", (built.n_ff, e))):
            yield f"{p}ffn_{part}.weight", dims, True
            yield from _scales(f"{p}ffn_{part}")
            if a.feed_forward_bias:
                yield f"{p}ffn_{part}.bias", dims[1:], False


def _tensors(gguf: GgufFile, built: Plan) -> None:
    """Hold the file's tensors to the architecture's list; fill the plan's roles."""
    left = set(gguf.tensors)
    output = gguf.tensors.get("output.weight")
    for name, dims, required in _expected(built, output_scales=output is not None and TYPES[output.type_id].name == "NVFP4"):
        tensor = gguf.tensors.get(name)
        if tensor is None:
            if required:
                raise Refusal(
                    "model.tensor-missing", f"the file has no tensor {name}", where=f"tensor {name}", allowed=f"{list(dims)}"
                )
            continue
        left.discard(name)
        shape = tensor.dims + (1,) * (len(dims) - len(tensor.dims))
        if shape != dims:
            raise Refusal(
                "model.tensor-shape",
                f"tensor {name} has another shape than the header says",
                where=f"tensor {name}",
                found=f"{list(tensor.dims)}",
                allowed=f"{list(dims)}",
            )
        type_name = TYPES[tensor.type_id].name
        if len(dims) == 1 and type_name != "F32":
            raise Refusal(
                "model.vector-type", f"tensor {name} is not F32", where=f"tensor {name}", found=type_name, allowed="F32"
            )
        if type_name not in PLAYED_TYPES:
            raise Refusal(
                "model.weight-type",
                f"bankml has no kernel for {type_name}",
                where=f"tensor {name}",
                found=type_name,
                allowed=", ".join(sorted(PLAYED_TYPES)),
            )
        if _is_unread(built.architecture, name):
            continue
        if len(dims) == 1:
            built.vectors[name] = dims[0]
        else:
            built.matrices[name] = (dims[1], dims[0])
    _refuse_scaled_biases(built)
    if left:
        name = min(left)
        raise Refusal(
            "model.tensor-unknown",
            f"the {built.architecture.name} graph has no place for tensor {name}",
            where=f"tensor {name}",
            found=f"{len(left)} such tensors",
        )


def _is_unread(architecture: Architecture, name: str) -> bool:
    """Whether b11192 loads this tensor and its graph on the CPU never reads it."""
    return name.endswith(".input_scale") or (".ffn_" in name and name.endswith(".scale") and not architecture.feed_forward_scale)


def _refuse_scaled_biases(built: Plan) -> None:
    """In the feed forward b11192 adds a bias before it multiplies by the scale, elsewhere after."""
    for name in built.vectors:
        stem = name.removesuffix(".scale")
        if stem != name and ".ffn_" in name and f"{stem}.bias" in built.vectors:
            raise Refusal(
                "model.scaled-bias",
                "bankml does not play a feed forward matrix with both a bias and a scale",
                where=f"tensor {name}",
                found=f"{name} and {stem}.bias",
                allowed="one of them",
            )
