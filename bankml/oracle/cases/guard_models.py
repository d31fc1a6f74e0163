# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whole small models that are wrong in one key, for what b11192 asserts only when it loads a model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from bankml.core.gguf.types import BOOL, F32, F64, I8, I32, STRING, U8, U16, U32, U64
from bankml.oracle.cases.guard import FIRST_KEY, Case, array, gguf, pair, tensor

_WIDTH, _HEADS, _HEADS_KV, _FF, _LAYERS = 32, 4, 2, 32, 2
_TOKENS: Final = ["a", "b", "c", "ab", "Ċ", "Ġ", "<|end|>", "x"]

_PAIRS: Final[dict[str, bytes]] = {
    "general.architecture": pair("general.architecture", STRING, "llama"),
    "general.name": pair("general.name", STRING, "tiny"),
    "llama.context_length": pair("llama.context_length", U32, 64),
    "llama.embedding_length": pair("llama.embedding_length", U32, _WIDTH),
    "llama.block_count": pair("llama.block_count", U32, _LAYERS),
    "llama.feed_forward_length": pair("llama.feed_forward_length", U32, _FF),
    "llama.attention.head_count": pair("llama.attention.head_count", U32, _HEADS),
    "llama.attention.head_count_kv": pair("llama.attention.head_count_kv", U32, _HEADS_KV),
    "llama.attention.layer_norm_rms_epsilon": pair("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
    "llama.rope.dimension_count": pair("llama.rope.dimension_count", U32, _WIDTH // _HEADS),
    "tokenizer.ggml.model": pair("tokenizer.ggml.model", STRING, "gpt2"),
    "tokenizer.ggml.pre": pair("tokenizer.ggml.pre", STRING, "gpt-2"),
    "tokenizer.ggml.tokens": array("tokenizer.ggml.tokens", STRING, _TOKENS),
    "tokenizer.ggml.token_type": array("tokenizer.ggml.token_type", I32, [1, 1, 1, 1, 1, 1, 3, 1]),
    "tokenizer.ggml.merges": array("tokenizer.ggml.merges", STRING, ["a b"]),
    "tokenizer.ggml.eos_token_id": pair("tokenizer.ggml.eos_token_id", U32, 6),
}


def _shapes() -> Iterator[tuple[str, list[int]]]:
    yield "token_embd.weight", [_WIDTH, len(_TOKENS)]
    yield "output_norm.weight", [_WIDTH]
    narrow = _WIDTH // _HEADS * _HEADS_KV
    for layer in range(_LAYERS):
        for name, dims in (
            ("attn_norm", [_WIDTH]),
            ("attn_q", [_WIDTH, _WIDTH]),
            ("attn_k", [_WIDTH, narrow]),
            ("attn_v", [_WIDTH, narrow]),
            ("attn_output", [_WIDTH, _WIDTH]),
            ("ffn_norm", [_WIDTH]),
            ("ffn_gate", [_WIDTH, _FF]),
            ("ffn_up", [_WIDTH, _FF]),
            ("ffn_down", [_FF, _WIDTH]),
        ):
            yield f"blk.{layer}.{name}.weight", dims


def tiny_model(changes: dict[str, bytes] | None = None, alignment: int = 32) -> bytes:
    """A Llama model of two small layers with all weights zero, some of its pairs changed or added."""
    pairs = {**_PAIRS, **(changes or {})}
    offset = 0
    entries = []
    for name, dims in _shapes():
        entries.append(tensor(name, dims, 0, offset))
        offset += 4 * dims[0] * (dims[1] if len(dims) > 1 else 1)
    return gguf(list(pairs.values()), entries, bytes(offset), alignment=alignment)


def _place(key: str) -> int:
    """File offset of the value of one of the model's own keys."""
    offset = FIRST_KEY
    for name, entry in _PAIRS.items():
        if name == key:
            return offset + 8 + len(key) + 4
        offset += len(entry)
    return offset + 8 + len(key) + 4


def _case(key: str, kind: int, value: object, code: str | None, shift: int = 0, stricter: bool = False) -> Case:
    changed = {key: pair(key, kind, value)}
    shown = value if not isinstance(value, bytes) else "…"
    where = _place(key) + shift if code else None
    return Case(f"{key} {shown} of type {kind}", tiny_model(changed), code, where, "model", stricter)


def _list(key: str, kind: int, values: Sequence[object], code: str | None, shift: int = 0, stricter: bool = False) -> Case:
    where = _place(key) + shift if code else None
    name = f"{key} {values if len(values) < 10 else len(values)} as array of type {kind}"
    return Case(name, tiny_model({key: array(key, kind, values)}), code, where, "model", stricter)


def shape_cases() -> Iterator[Case]:
    """Sizes, heads, layers and experts."""
    whole = tiny_model()
    yield Case("tiny model", whole, reads="model")
    yield Case("tiny model with bytes behind it", whole + bytes(500), reads="model")
    yield Case("tiny model one byte short", whole[:-1], "gguf.data-short", None, "model")
    yield Case("half a tiny model", whole[: len(whole) // 2], "gguf.data-short", None, "model")
    for n in (8, 16):
        changed = {"general.alignment": pair("general.alignment", U32, n)}
        for extra in range(1, 33, n):
            padded = {**changed, "k": pair("k" * extra, U8, 1)}
            odd = _data_start(padded, n) % 32
            code = "gguf.data-alignment" if odd else None
            yield Case(f"tiny model with alignment {n}, data at {odd} past 32", tiny_model(padded, n), code, None, "model")
    heads, kv = "llama.attention.head_count", "llama.attention.head_count_kv"
    yield _case(heads, U32, 0, "gguf.head-count")
    yield _case(kv, U32, 0, "gguf.head-count-kv")
    yield _case(kv, U32, 3, "gguf.head-division")
    yield _case(heads, U32, 3, "gguf.head-division", _place(kv) - _place(heads))
    yield _list(heads, U32, [4, 4], None)
    yield _list(kv, I32, [2, 2], None)
    yield _list(kv, U32, [2], "gguf.layer-count")
    yield _list(kv, U32, [2, 2, 2], "gguf.layer-count")
    yield _list(kv, I32, [2, -1], "gguf.layer-negative", stricter=True)
    yield _list(kv, U32, [2, 3], "gguf.head-division", stricter=True)
    yield _list(heads, F32, [4.0, 4.0], "gguf.key-type", -4)
    yield _case("llama.block_count", U32, 0, "gguf.block-count")
    yield _case("llama.block_count", U32, 513, "gguf.block-count")
    yield _case("llama.embedding_length", U32, 0, "gguf.embedding-length")
    yield _case("llama.block_count", U64, (1 << 64) - 1, "gguf.block-count")
    experts = "llama.expert_count"
    yield _case(experts, U32, 1025, "gguf.experts")
    yield _case(experts, U32, 4, "gguf.experts")
    yield _case("llama.expert_used_count", U32, 2, "gguf.experts")
    used = {"llama.expert_used_count": pair("llama.expert_used_count", U32, 5)}
    yield Case(
        "more experts used than there are", tiny_model({experts: pair(experts, U32, 4)} | used), "gguf.experts", None, "model"
    )
    yield _case("llama.expert_group_count", U32, 2, "gguf.experts")
    yield _case("llama.rope.scaling.type", STRING, "foo", "gguf.rope-scaling")
    yield _case("llama.rope.scaling.type", STRING, "yarn", None)


def type_cases() -> Iterator[Case]:
    """Keys of a type that b11192 does not take."""
    for key, kind, value in (
        ("general.name", U32, 1),
        ("general.file_type", I32, 1),
        ("split.count", U32, 1),
        ("llama.context_length", U64, 64),
        ("llama.embedding_length", I32, 32),
        ("llama.block_count", U16, 2),
        ("llama.attention.head_count", U64, 4),
        ("llama.attention.head_count_kv", BOOL, True),
        ("llama.feed_forward_length", I32, 32),
        ("llama.rope.dimension_count", F32, 8.0),
        ("llama.rope.freq_base", F64, 1e4),
        ("llama.rope.scaling.type", U32, 1),
        ("llama.rope.scaling.factor", U32, 1),
        ("llama.rope.scaling.original_context_length", U64, 1),
        ("llama.rope.scaling.finetuned", U8, 1),
        ("llama.attention.causal", U8, 1),
        ("llama.attention.key_length", U64, 8),
        ("llama.attention.value_length", I32, 8),
        ("llama.pooling_type", I32, 0),
        ("llama.expert_count", U64, 0),
        ("llama.expert_used_count", U64, 0),
        ("tokenizer.ggml.model", U32, 1),
        ("tokenizer.ggml.pre", BOOL, True),
        ("tokenizer.ggml.add_bos_token", U8, 1),
        ("tokenizer.ggml.add_space_prefix", U32, 1),
        ("tokenizer.ggml.eos_token_id", I32, 6),
        ("tokenizer.ggml.bos_token_id", U64, 6),
        ("tokenizer.ggml.tokens", STRING, "a"),
        ("tokenizer.ggml.merges", U32, 1),
        ("tokenizer.ggml.token_type", I32, 1),
        ("tokenizer.ggml.suppress_tokens", I32, 1),
    ):
        yield _case(key, kind, value, "gguf.key-type", -4)
    for key, kind, values in (
        ("tokenizer.ggml.tokens", U32, list(range(8))),
        ("tokenizer.ggml.token_type", U32, [1] * 8),
        ("tokenizer.ggml.scores", F64, [0.0] * 8),
        ("tokenizer.ggml.merges", I8, [0]),
        ("tokenizer.ggml.suppress_tokens", U32, [1]),
        ("general.architecture", STRING, ["llama"]),
        ("llama.block_count", U32, [2]),
    ):
        yield _list(key, kind, values, "gguf.key-type", -4)
    yield _list("tokenizer.ggml.scores", F32, [0.0] * 7, "gguf.vocabulary", 4)
    yield _list("tokenizer.ggml.token_type", I32, [1] * 7, "gguf.vocabulary", 4)
    yield _list("tokenizer.ggml.scores", I32, [0] * 8, None)
    yield _list("tokenizer.ggml.token_type", I32, [1] * 9, None)


def extra_cases() -> Iterator[Case]:
    """Keys that belong together, and keys that b11192 reads only beside others."""
    names = "general.tensor_extra.name", array("general.tensor_extra.name", STRING, ["blk.0.ffn_up.weight", "x"])
    key = "general.tensor_extra.prec_a4"
    behind = _place("k") - len("k") - 8 - 4 + len(names[1])
    for values, code in (([True, False], None), ([True], "gguf.tensor-extra"), ([True] * 3, "gguf.tensor-extra")):
        changed = dict([names, (key, array(key, BOOL, values))])
        offset = behind + 8 + len(key) + 4 if code else None
        yield Case(f"{len(values)} precisions for 2 tensors", tiny_model(changed), code, offset, "model")
    yield Case("no precisions for 2 tensors", tiny_model(dict([names])), "gguf.tensor-extra", _place(names[0]), "model")
    yield _list(key, U8, [1, 0], None)
    yield _case("general.tensor_extra.name", STRING, "blk.0.ffn_up.weight", None)
    yield _list("general.tensor_extra.name", U8, [1], "gguf.key-type", -4)
    for name in ("attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa"):
        yield _case(f"llama.{name}", U32, 4, None)
        yield _case(f"llama.{name}", I32, 4, "gguf.key-type", -4)
    yield _case("llama.rope.scaling.alpha", F32, 2.0, None)
    yield _case("llama.rope.scaling.alpha", F64, 2.0, "gguf.key-type", -4)
    yield _list("llama.classifier.output_labels", STRING, ["a", "b"], None)
    yield _list("llama.classifier.output_labels", U32, [1], "gguf.key-type", -4)
    yield _case("llama.classifier.output_labels", U32, 1, None)
    yield _case("llama.vocab_size", F32, 8.0, "gguf.key-type", -4)
    scaled = {"llama.rope.scaling.factor": pair("llama.rope.scaling.factor", F32, 2.0)}
    hidden = {**scaled, "llama.rope.scale_linear": pair("llama.rope.scale_linear", U32, 2)}
    yield Case("an older factor of another type, hidden", tiny_model(hidden), None, None, "model")
    yield _case("llama.rope.scale_linear", U32, 2, "gguf.key-type", -4)
    yield _case("tokenizer.ggml.precompiled_charsmap", STRING, "x", None)


def server_cases() -> Iterator[Case]:
    """What llama-server stops on after its library has loaded the file: at the start, or at the first prompt."""

    def served(key: str, kind: int, value: object, code: str | None) -> Case:
        return _case(key, kind, value, code)._replace(reads="server")

    yield Case("tiny model, served", tiny_model(), reads="server")
    for context in (0, 1 << 31, (1 << 32) - 1):
        yield served("llama.context_length", U32, context, "gguf.context-length")
    for context in (1, (1 << 31) - 1):
        yield served("llama.context_length", U32, context, None)
    sampling = "general.sampling."
    for penalty in (0.0, -1.0, 4e-7, math.inf, math.nan):
        yield served(f"{sampling}penalty_repeat", F32, penalty, "gguf.sampling")
    for penalty in (1e-40, 1e39):
        yield served(f"{sampling}penalty_repeat", F64, penalty, "gguf.sampling")
    for text, code in (
        ("0x0p1", "gguf.sampling"),
        ("-1x", "gguf.sampling"),
        ("x0", None),
        ("1e-38", None),
        ("1e-39", "gguf.sampling"),
    ):
        yield served(f"{sampling}penalty_repeat", STRING, text, code)
    for penalty in (6e-7, 3e38):
        yield served(f"{sampling}penalty_repeat", F32, penalty, None)
    for mirostat, code in ((-1, "gguf.sampling"), (0, None), (2, None), (3, "gguf.sampling")):
        yield served(f"{sampling}mirostat", I32, mirostat, code)
    yield served(f"{sampling}mirostat", U64, (1 << 32) + 1, None)
    yield served(f"{sampling}mirostat", F32, 2.9, None)
    yield served(f"{sampling}mirostat", BOOL, True, None)
    for name in ("top_k", "penalty_last_n"):
        yield served(f"{sampling}{name}", I32, -5, None)
    for name in ("temp", "top_p", "min_p", "xtc_probability", "mirostat_tau", "mirostat_eta"):
        yield served(f"{sampling}{name}", F32, math.nan, None)


def _data_start(changes: dict[str, bytes], alignment: int) -> int:
    tensors = sum(len(tensor(name, dims, 0, 0)) for name, dims in _shapes())
    head = FIRST_KEY + sum(map(len, {**_PAIRS, **changes}.values())) + tensors
    return -(-head // alignment) * alignment
