# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a GGUF header is, as a model; or which key or tensor stands in the way of playing it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from bankml.core.gguf.header import Array
from bankml.core.gguf.reader import GgufFile
from bankml.core.gguf.split import split_refusal
from bankml.core.gguf.types import TYPES
from bankml.core.json.numbers import f32
from bankml.core.model.architectures import ARCHITECTURES, Architecture
from bankml.core.model.header import ArchitectureKeys
from bankml.core.model.rotation import Rope, read_rope
from bankml.refusal import Refusal

PLAYED_TYPES = {
    "F32", "F16", "BF16", "Q1_0", "Q2_0",
    "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4",
    "NVFP4", "TQ1_0", "TQ2_0",
    "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S",
}  # fmt: skip


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


def plan(gguf: GgufFile) -> Plan:
    """Decide from the header alone whether the model plays.

    Raises:
        Refusal: ``model.*``, naming the key or tensor that stands in the way.
    """
    part = split_refusal(gguf.header)
    if part is not None:
        raise part
    architecture = _architecture(gguf)
    keys = ArchitectureKeys(gguf, architecture.name)
    keys.refuse_what_is_not_built()
    n_layer = keys.integer("block_count")
    n_embd = keys.integer("embedding_length")
    # Where a list has one number for each layer, b11192 builds every layer with the first.
    heads = keys.layers("attention.head_count", n_layer)
    heads_kv = keys.layers("attention.head_count_kv", n_layer) if keys.has("attention.head_count_kv") else heads
    n_head, n_head_kv, n_ff = heads[0], heads_kv[0], keys.layers("feed_forward_length", n_layer)[0]
    if min(n_embd, n_head, n_head_kv, n_ff) < 1 or n_head % n_head_kv:
        raise Refusal(
            "model.shape",
            "sizes in the header are not positive or do not divide",
            found=f"embedding {n_embd}, heads {n_head}, key heads {n_head_kv}, feed forward {n_ff}",
            allowed="positive sizes, heads a multiple of key heads",
        )
    if set(heads_kv) != {n_head_kv}:
        raise Refusal(
            "model.layers-differ",
            "bankml plays layers with equally many heads of keys and values",
            where=keys.where("attention.head_count_kv"),
            found=f"{heads_kv!r:.60}",
            allowed=f"{n_head_kv} in every layer",
        )
    head_dim = _head_width(keys, architecture, n_embd, n_head)
    n_vocab = _vocabulary(gguf)
    built = Plan(
        architecture=architecture,
        name=_optional_text(gguf, "general.name"),
        n_vocab=n_vocab,
        n_ctx_train=keys.integer("context_length"),
        n_embd=n_embd,
        n_layer=n_layer,
        n_ff=n_ff,
        n_head=n_head,
        n_head_kv=n_head_kv,
        head_dim=head_dim,
        eps=_epsilon(keys),
        # In float32 steps; the llama graph does not read attention.scale.
        attention_scale=f32(1.0 / f32(math.sqrt(head_dim))),
        rope=read_rope(keys, head_dim),
        rope_factors=_rope_factors(gguf, keys, architecture),
        tied="output.weight" not in gguf.tensors,
        matrices={},
        vectors={},
    )
    _tensors(gguf, built)
    return built


def _architecture(gguf: GgufFile) -> Architecture:
    name = gguf.get("general.architecture")
    architecture = ARCHITECTURES.get(name) if isinstance(name, str) else None
    if architecture is None:
        raise Refusal(
            "model.architecture",
            f"bankml does not play the architecture {name!r:.60}",
            where="key general.architecture",
            found=f"{name!r:.60}",
            allowed=", ".join(sorted(ARCHITECTURES)),
        )
    return architecture


def _head_width(keys: ArchitectureKeys, architecture: Architecture, n_embd: int, n_head: int) -> int:
    """The width of a head's keys and values, all of which rotates."""
    width = keys.integer("attention.key_length", n_embd // n_head)
    value_width = keys.integer("attention.value_length", n_embd // n_head)
    if width != value_width or width % 2 or width < 2:
        raise Refusal(
            "model.head-width",
            "bankml plays heads whose key and value widths are one even number",
            where=keys.where("attention.key_length"),
            found=f"key {width}, value {value_width}",
            allowed="equal, even",
        )
    if architecture.square_attention and n_head * width != n_embd:
        raise Refusal(
            "model.head-width",
            f"{architecture.name}'s heads together must be as wide as the embedding, as in b11192",
            where=keys.where("attention.key_length"),
            found=f"{n_head} heads of {width}",
            allowed=f"{n_embd} together",
        )
    rotated = keys.integer("rope.dimension_count", width)
    if rotated != width:
        raise Refusal(
            "model.rope-dims",
            "the rotation must cover the whole head",
            where=keys.where("rope.dimension_count"),
            found=str(rotated),
            allowed=str(width),
        )
    return width


def _rope_factors(gguf: GgufFile, keys: ArchitectureKeys, architecture: Architecture) -> str | None:
    """The tensor of frequency factors. With ``longrope`` b11192 looks for others, which have no place here."""
    name = "rope_freqs.weight"
    looked_for = architecture.rope_factors and keys.text("rope.scaling.type", "linear") != "longrope"
    return name if looked_for and name in gguf.tensors else None


def _vocabulary(gguf: GgufFile) -> int:
    """How many tokens there are: rows of the embedding."""
    tokens = gguf.header.entries.get("tokenizer.ggml.tokens")
    if tokens is None or "token_embd.weight" not in gguf.tensors:
        missing = "key tokenizer.ggml.tokens" if tokens is None else "tensor token_embd.weight"
        raise Refusal("model.missing", f"the file has no {missing}", where=missing)
    return tokens.value.n if isinstance(tokens.value, Array) else 0


def _epsilon(keys: ArchitectureKeys) -> float:
    name = "attention.layer_norm_rms_epsilon"
    epsilon = keys.real(name)
    if not epsilon >= 0.0:
        raise keys.out_of_range(name, epsilon, "0 or more")
    return epsilon


def _optional_text(gguf: GgufFile, key: str) -> str | None:
    value = gguf.get(key)
    return value if isinstance(value, str) else None


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
    if built.rope_factors:
        yield built.rope_factors, (built.head_dim // 2,), False
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
