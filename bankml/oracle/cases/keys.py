# SPDX-License-Identifier: MIT OR Apache-2.0
"""Headers with one key, or a few that belong together, set to values that decide something."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from bankml.core.gguf.keys import ARCH, ARCHITECTURES, KEYS
from bankml.core.gguf.types import ARRAY, BOOL, F32, F64, I8, I32, I64, STRING, U8, U16, U32, U64
from bankml.oracle.cases.keys_models import HEADS, KV_HEADS, LAYERS, TOKENS, Changes

_SIZE: Final = len(TOKENS)
_LIBRARY_NAME: Final = re.compile(rb"(?<=\0)(?:%s|adapter|general|split|tokenizer|xielu)\.[a-z0-9_.]*[a-z0-9](?=\0)")


_PROBES: Final[tuple[list[Any], ...]] = ([[ARRAY, I8], [1]], [STRING, "x"], [U32, 1])


class Case(NamedTuple):
    """One header. ``refuses``: the code with which bankml refuses what the reference answers, and documents it."""

    arch: str
    changes: Changes
    refuses: str | None = None
    serve: bool = False
    """Asked of llama-server, since the program and not its library reads the key."""
    rows: int = _SIZE
    layers: int = LAYERS
    extra: tuple[str, ...] = ()
    """Further tensors of the rotation."""


def library_names(library: Path) -> list[str]:
    """The names of keys in the reference's own library, an architecture's with ``{arch}``."""
    found = {name.decode().replace("%s", ARCH[:-1]) for name in _LIBRARY_NAME.findall(library.read_bytes())}
    # The alignment decides where tensors lie: files with another are the guard's.
    return sorted((found | {key.name for key in KEYS}) - {"general.alignment"})


def probes(names: list[str]) -> Iterator[Case]:
    """Each name with types of which a reader takes one at most: b11192 stops exactly where it reads the key."""
    for arch in ARCHITECTURES:
        for name in names:
            for value in _PROBES:
                yield Case(arch, {name.replace(ARCH, f"{arch}."): value})


def cases() -> Iterator[Case]:
    """Every other case."""
    for arch in ARCHITECTURES:
        for case in (*_sizes(arch), *_attention(arch), *_rope(arch), *_absent(arch)):
            changes = {key.replace(ARCH, f"{arch}."): value for key, value in case.changes.items()}
            yield case._replace(arch=arch, changes=changes)
    yield from _file()
    yield from _vocabulary()
    yield from _serve()


def _one(key: str, kind: Any, value: Any, refuses: str | None = None, **more: list[Any] | None) -> Case:
    return Case("", {key: [kind, value], **{name.replace("__", "."): each for name, each in more.items()}}, refuses)


def _sizes(arch: str) -> Iterator[Case]:
    key = ARCH.__add__
    yield Case("", {})
    for value in (1, 7, 64, 2**31 - 1):
        yield _one(key("context_length"), U32, value)
    for value in (0, 2**31, 2**32 - 1):
        yield _one(key("context_length"), U32, value, "gguf.context-length")
    for value in (0, 32, 63, 128, 2**32 - 1):
        yield _one(key("embedding_length"), U32, value)
    for value in (0, 1, 100, 2**32 - 1):
        yield _one(key("embedding_length_out"), U32, value)
    for value in (0, 1, 3, 512, 513, 2**32 - 1):
        yield _one(key("block_count"), U32, value)
    for value in (0, 1, LAYERS, LAYERS + 1):
        yield _one(key("nextn_predict_layers"), U32, value)
    for value in (0, 1, 128, 2**32 - 1):
        yield _one(key("feed_forward_length"), U32, value)
    for name, right in (("feed_forward_length", 64), ("attention.head_count", HEADS), ("attention.head_count_kv", KV_HEADS)):
        for kind in (U32, I32):
            yield _one(key(name), [ARRAY, kind], [right] * LAYERS)
        yield _one(key(name), [ARRAY, U64], [right] * LAYERS)
        yield _one(key(name), [ARRAY, F32], [right] * LAYERS)
        yield _one(key(name), [ARRAY, BOOL], [True] * LAYERS)
        yield _one(key(name), [ARRAY, BOOL], [True, False])
        for count in (0, 1, 3):
            yield _one(key(name), [ARRAY, U32], [right] * count)
        yield _one(key(name), [ARRAY, U32], [right, 2 * right])
        yield _one(key(name), [ARRAY, U32], [2 * right, right])
        yield _one(key(name), [ARRAY, U32], [right, 0])
        yield _one(key(name), [ARRAY, U32], [0, right])
        yield _one(key(name), [ARRAY, I32], [right, -1], "gguf.layer-negative")
    for value in (0, 7, _SIZE, 2**32 - 1):
        yield _one(key("vocab_size"), U32, value)
    for value in (0, 1, 2, 3, 4, 77, 2**32 - 1):
        yield _one(key("pooling_type"), U32, value)
    yield _one(key("classifier.output_labels"), [ARRAY, STRING], ["a", "b"])
    yield _one(key("classifier.output_labels"), [ARRAY, STRING], [])
    yield _one(key("classifier.output_labels"), [ARRAY, U32], [1])
    experts = "model.not-built" if arch == "llama" else None
    for count, used in ((0, 0), (0, 1), (4, 0), (4, 2), (4, 4), (4, 5), (1, 1), (1025, 2)):
        changes: Changes = {key("expert_count"): [U32, count], key("expert_used_count"): [U32, used]}
        yield Case("", changes, experts if 0 < used <= count <= 1024 else None)
        changes = {key("expert_count"): [U32, count], key("expert_used_count"): [[ARRAY, U32], [used, 0]]}
        yield Case("", changes, experts if 0 < used <= count <= 1024 else None)
    for groups, used in ((0, 0), (1, 0), (1, 7), (2, 1), (2, 0), (2, 2), (3, 1), (4, 1)):
        for count in (0, 4):
            changes = {key("expert_count"): [U32, count], key("expert_used_count"): [U32, count // 2]}
            changes |= {key("expert_group_count"): [U32, groups], key("expert_group_used_count"): [U32, used]}
            yield Case("", changes)
    yield _one(key("expert_group_used_count"), U32, 5)


def _attention(arch: str) -> Iterator[Case]:
    key = ARCH.__add__
    for value in (0, 1, 3, 4, 2**32 - 1):
        yield _one(key("attention.head_count"), U32, value)
        yield _one(key("attention.head_count_kv"), U32, value)
    for value in (0, 16, 31, 32, 33, 64, 2**32 - 1):
        yield _one(key("attention.key_length"), U32, value)
        yield _one(key("attention.value_length"), U32, value)
        changes: Changes = {key("attention.key_length"): [U32, value], key("attention.value_length"): [U32, value]}
        yield Case("", changes)
        yield Case("", changes | {key("rope.dimension_count"): [U32, value]})
    for name in ("attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa"):
        for value in (0, 16, 2**32 - 1):
            yield _one(key(name), U32, value)
    yield _one(key("attention.causal"), BOOL, True)
    yield _one(key("attention.causal"), BOOL, False, "model.not-built")
    for real in (0.0, 1e-45, 1e-6, 1e-5, 1.0, 1e30, "inf", -1e-6, "-inf", "nan"):
        yield _one(key("attention.layer_norm_rms_epsilon"), F32, real)


_NO_NUMBERS: Final = "model.key-value"


def _rope(arch: str) -> Iterator[Case]:
    key = ARCH.__add__
    factor, kind, base = key("rope.scaling.factor"), key("rope.scaling.type"), key("rope.freq_base")
    for value in (0, 16, 30, 32, 34, 2**32 - 1):
        yield _one(key("rope.dimension_count"), U32, value)
    for scaling in ("none", "linear", "yarn", "longrope", "", "Linear", "dynamic"):
        yield _one(kind, STRING, scaling)
        yield Case("", {kind: [STRING, scaling], factor: [F32, 4.0]})
    finite = (0.0, -0.0, 1.0, 4.0, 0.5, 1.1, -4.0, 1e-30, 1e38, 3e38)
    for real in (*finite, "inf", "nan", 1e-45, 1e-38, -1e-39):
        small = real in ("nan", 1e-45, 1e-38, -1e-39)
        yield Case("", {factor: [F32, real]}, _NO_NUMBERS if small else None)
        refused = small or real in ("inf", -4.0)
        yield Case("", {factor: [F32, real], kind: [STRING, "yarn"]}, _NO_NUMBERS if refused else None)
    # 1 + log(factor) / 10 is 0 near here.
    yield Case("", {factor: [F32, 4.5399930e-5], kind: [STRING, "yarn"]}, _NO_NUMBERS)
    for real in (0.0, 1.0, 4.0, -2.0):
        yield _one(key("rope.scale_linear"), F32, real)
        yield Case("", {key("rope.scale_linear"): [F32, real], factor: [F32, 0.0]})
        yield Case("", {key("rope.scale_linear"): [F32, real], factor: [F32, 2.0]})
    yield Case("", {key("rope.scale_linear"): [U32, 4], factor: [F32, 2.0]})
    for real in (1.0, 2.0, 0.5, 1e4, 5e5, 1e38, 1e-30, "inf", 0.0, -1.0, -0.0, 1e-38, 1e-45, "nan"):
        refuses = _NO_NUMBERS if real in (0.0, -1.0, 1e-38, 1e-45, "nan") else None
        yield _one(base, F32, real, refuses)
        yield Case("", {base: [F32, real], kind: [STRING, "yarn"], factor: [F32, 4.0]}, refuses)
    original = key("rope.scaling.original_context_length")
    for value in (0, 1, 2, 64, 200, 1024, 8192, 2**31 - 1, 2**31, 2**32 - 1):
        yield _one(original, U32, value)
        refuses = _NO_NUMBERS if value >= 2**31 else None
        yield Case("", {original: [U32, value], kind: [STRING, "yarn"], factor: [F32, 4.0]}, refuses)
    yield Case("", {original: [U32, 0], key("context_length"): [U32, 128], kind: [STRING, "yarn"], factor: [F32, 4.0]})
    for real in (1.0, 0.0, 0.5, -1.0, 1.2, 1e-45, "inf", "nan"):
        refuses = _NO_NUMBERS if isinstance(real, str) else None
        yield _one(key("rope.scaling.attn_factor"), F32, real, refuses)
        changes: Changes = {key("rope.scaling.attn_factor"): [F32, real], kind: [STRING, "yarn"], factor: [F32, 4.0]}
        yield Case("", changes, refuses)
    for value in (True, False):
        yield _one(key("rope.scaling.finetuned"), BOOL, value)
    for real in (0.0, 1000.0, "nan"):
        yield _one(key("rope.scaling.alpha"), F32, real)
    for extra in (
        ("rope_freqs.weight",),
        ("rope_factors_long.weight", "rope_factors_short.weight"),
        ("rope_factors_long.weight",),
    ):
        for scaling in ("linear", "yarn", "longrope"):
            refuses = "model.tensor-unknown" if scaling == "longrope" and arch == "llama" and len(extra[0]) > 17 else None
            yield Case("", {kind: [STRING, scaling], factor: [F32, 4.0]}, refuses, extra=extra)
    yarn: Changes = {kind: [STRING, "yarn"], factor: [F32, 4.0]}
    for name, real in (
        ("yarn_beta_fast", 16.0), ("yarn_beta_slow", 2.0), ("yarn_ext_factor", 4.0), ("yarn_ext_factor", 0.0),
        ("yarn_attn_factor", 3.0), ("yarn_log_multiplier", 0.1),
    ):  # fmt: skip
        yield Case("", {**yarn, key(f"rope.scaling.{name}"): [F32, real]})


def _absent(arch: str) -> Iterator[Case]:
    for name in (
        *("context_length", "embedding_length", "block_count", "feed_forward_length"),
        *("attention.head_count", "attention.head_count_kv", "attention.layer_norm_rms_epsilon", "rope.dimension_count"),
    ):
        yield Case("", {ARCH + name: None})


def _file() -> Iterator[Case]:
    names: list[Any] = [[ARRAY, STRING], ["blk.0.ffn_up.weight", "nothing"]]
    files: tuple[Changes, ...] = (
        {"general.tensor_extra.name": names},
        {"general.tensor_extra.name": names, "general.tensor_extra.prec_a4": [[ARRAY, BOOL], [False, True]]},
        {"general.tensor_extra.name": names, "general.tensor_extra.prec_a4": [[ARRAY, BOOL], [False]]},
        {"general.tensor_extra.name": names, "general.tensor_extra.prec_a4": [[ARRAY, U8], [0, 1]]},
        {"general.tensor_extra.name": names, "general.tensor_extra.prec_a4": [BOOL, True]},
        {"general.tensor_extra.name": [STRING, "blk.0.ffn_up.weight"]},
        {"general.tensor_extra.name": [[ARRAY, STRING], []]},
        {"general.tensor_extra.prec_a4": [[ARRAY, U8], [1]]},
        {"general.architecture": None},
        {"general.architecture": [STRING, "Llama"]},
        {"general.name": None},
        {"general.name": [STRING, "Phi-3 mini"]},
        {"general.name": [STRING, "my PHI3"]},
        {"general.name": [STRING, "Modern-BERT base"]},
        {"general.file_type": [U32, 2]},
        {"general.file_type": [U32, 2**32 - 1]},
        {"split.count": [U16, 0]},
        {"split.count": [U16, 1]},
        {"split.count": [U16, 1], "split.no": [U32, 7], "split.tensors.count": [U16, 1]},
        {"split.count": [U16, 2]},
        {"split.count": [U16, 2], "split.no": [U16, 0], "split.tensors.count": [I32, 20]},
        {"split.count": [U16, 2], "split.no": [U16, 1], "split.tensors.count": [I32, 20]},
        {"split.count": [U16, 2], "split.no": [U32, 0]},
    )
    for changes in files:
        yield Case("llama", changes)


def _vocabulary() -> Iterator[Case]:
    ggml = "tokenizer.ggml."
    for role in (
        *("bos", "eos", "eot", "eom", "unknown", "seperator", "padding", "mask", "cls"),
        *("fim_pre", "fim_suf", "fim_mid", "fim_pad", "fim_rep", "fim_sep", "prefix", "suffix", "middle"),
    ):
        for value in (0, 3, _SIZE - 1, _SIZE, _SIZE + 1, 2**31, 2**32 - 1):
            yield Case("llama", {f"{ggml}{role}_token_id": [U32, value]})
    for role, other in (("fim_pre", "prefix"), ("fim_suf", "suffix"), ("fim_mid", "middle")):
        yield Case("llama", {f"{ggml}{role}_token_id": [U32, 3], f"{ggml}{other}_token_id": [U32, 5]})
        yield Case("llama", {f"{ggml}{role}_token_id": [U32, 3], f"{ggml}{other}_token_id": [U32, _SIZE]})
    for end in ("bos", "eos"):
        for value in (True, False):
            flag: Changes = {f"{ggml}add_{end}_token": [BOOL, value]}
            yield Case("llama", flag)
            yield Case("llama", flag | {f"{ggml}{end}_token_id": None})
            yield Case("llama", flag | {f"{ggml}{end}_token_id": [U32, _SIZE]})
            # The default id, 11, is outside this vocabulary.
            few: Changes = {f"{ggml}tokens": [[ARRAY, STRING], TOKENS[:11]], f"{ggml}{end}_token_id": None}
            yield Case("llama", flag | few, rows=11)
    for name in (
        "add_sep_token",
        "add_space_prefix",
        "remove_extra_whitespaces",
        "normalizer.lowercase",
        "normalizer.strip_accents",
    ):
        for value in (True, False):
            yield Case("llama", {ggml + name: [BOOL, value]})
    for changes in (
        {"pre": [STRING, "jina-v2-code"]},
        {"pre": [STRING, "jina-v2-de"], "add_bos_token": None},
        {"pre": [STRING, "llama-bpe"], "add_bos_token": None},
        {"pre": [STRING, "no-such"]},
        {"pre": [STRING, "default"]},
        {"model": None},
        {"model": [STRING, "gpt3"]},
        {"model": [STRING, "none"]},
        {"merges": None},
        {"merges": [[ARRAY, STRING], []]},
        {"merges": [[ARRAY, STRING], ["ab", "", " a b", "a b c"]]},
        {"tokens": None},
        {"tokens": [[ARRAY, STRING], TOKENS[:-1]]},
        {"tokens": [[ARRAY, STRING], [*TOKENS, "more"]]},
        {"tokens": [[ARRAY, STRING], ["", *TOKENS[1:]]]},
        {"tokens": [[ARRAY, STRING], [TOKENS[1], *TOKENS[1:]]]},
        {"tokens": [[ARRAY, STRING], []]},
        {"token_type": None},
        {"token_type": [[ARRAY, I32], [1] * (_SIZE - 1)]},
        {"token_type": [[ARRAY, I32], [1] * (_SIZE + 1)]},
        {"token_type": [[ARRAY, I32], [number % 9 - 1 for number in range(_SIZE)]]},
        {"token_type": [[ARRAY, I32], [6] * _SIZE]},
        {"token_type_count": [U32, 0]},
        {"token_type_count": [U32, 7]},
        {"scores": [[ARRAY, F32], [0.5] * _SIZE]},
        {"scores": [[ARRAY, F32], ["nan"] * _SIZE]},
        {"scores": [[ARRAY, I32], [-5] * (_SIZE + 3)]},
        {"scores": [[ARRAY, F32], [0.5] * (_SIZE - 1)]},
        {"suppress_tokens": [[ARRAY, I32], [1, -1, _SIZE, 2**31 - 1]]},
        {"suppress_tokens": [[ARRAY, I32], []]},
        {"precompiled_charsmap": [[ARRAY, U8], [1, 2, 3]]},
        {"precompiled_charsmap": [[ARRAY, I8], []]},
    ):
        yield Case("llama", {ggml + name: value for name, value in changes.items()})


def _serve() -> Iterator[Case]:
    """What llama-server reads beside its library, or stops on after the library has loaded the file."""
    sampling = "general.sampling."

    def served(changes: Changes, rows: int = _SIZE, layers: int = LAYERS) -> Case:
        return Case("llama", changes, serve=True, rows=rows, layers=layers)

    yield served({})
    for name in ("top_p", "min_p", "xtc_probability", "xtc_threshold", "temp", "mirostat_tau", "mirostat_eta"):
        for real in (-1.0, 0.0, 0.1234567, 1.5, "nan", "inf", "-inf"):
            yield served({f"{sampling}{name}": [F32, real]})
    for name in ("top_k", "penalty_last_n"):
        for value in (-5, -1, 0, 3, 2**31 - 1):
            yield served({f"{sampling}{name}": [I32, value]})
        yield served({f"{sampling}{name}": [U64, 2**64 - 1]})
        yield served({f"{sampling}{name}": [I64, 2**32 + 3]})
    for real in (1.5, 0.5, 1e-5, 0.0, -1.0, 1e-7, "nan", "inf", 1e38):
        yield served({f"{sampling}penalty_repeat": [F32, real]})
    for real in (1e39, 1e-40):
        yield served({f"{sampling}penalty_repeat": [F64, real]})
    for value in (-1, 0, 1, 2, 3, 77):
        yield served({f"{sampling}mirostat": [I32, value]})
        for name in ("mirostat_tau", "mirostat_eta"):
            for real in (-1.0, 0.0, 2.5, "nan", "inf"):
                if value in (1, 2):
                    yield served({f"{sampling}mirostat": [I32, value], f"{sampling}{name}": [F32, real]})
    for text in ("", ";;", "foo", "top_k;temperature", "TOP-K;temp;nucleus", "adaptive_p", "x" * 505 + ";top_k;temp"):
        yield served({f"{sampling}sequence": [STRING, text]})
    for text in ("0x1p3", "  7", "1e-3", ".5", "x", "", "nan", "-inf", "0.3 and more", " " * 126 + "75", " " * 127 + "7"):
        yield served({f"{sampling}temp": [STRING, text]})
    for text in ("0x10", " 12.9", "99999999999999999999", " " * 60 + "1234", "-3x"):
        yield served({f"{sampling}top_k": [STRING, text]})
    for name in ("temp", "penalty_repeat", "mirostat", "top_k", "sequence"):
        for pair in ([BOOL, True], [U8, 1], [[ARRAY, F32], [0.0]], [F64, 1.0]):
            yield served({sampling + name: list(pair)})
    for value in (0, 1, 2, 7, 9, 2**31 - 1, 2**31, 2**32 - 1):
        yield served({"llama.context_length": [U32, value]})
    for value in (0, 1, 4, 77):
        yield served({"llama.pooling_type": [U32, value]})
    template, tools, ggml = "tokenizer.chat_template", "tokenizer.chat_template.tool_use", "tokenizer.ggml."
    own = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    templates: tuple[Changes, ...] = (
        {template: [STRING, own]},
        {template: [STRING, ""]},
        {template: [STRING, "chatml"]},
        {template: [U32, 5]},
        {template: [BOOL, True]},
        {template: [F32, 0.5]},
        {template: [[ARRAY, STRING], [own]]},
        {tools: [STRING, own]},
        {template: [STRING, own], tools: [STRING, own + "!"]},
        {tools: [U32, 5]},
        {"tokenizer.chat_template.rerank": [STRING, own]},
        {ggml + "pre": [STRING, "tekken"]},
        {ggml + "suppress_tokens": [[ARRAY, I32], [3, -1, _SIZE]]},
        {ggml + "suppress_tokens": [[ARRAY, I32], list(range(_SIZE - 1))]},
        {ggml + "add_bos_token": [BOOL, True]},
        {ggml + "add_eos_token": [BOOL, True]},
        {"general.name": [STRING, 'a "name"']},
        {"general.file_type": [U32, 2]},
        {"general.file_type": [U32, 99]},
    )
    for changes in templates:
        yield served(changes)
    yield served({ggml + "pre": [STRING, "tekken"], "llama.block_count": [U32, 40]}, layers=40)
    few: Changes = {ggml + "tokens": [[ARRAY, STRING], TOKENS[:11]], ggml + "bos_token_id": None}
    yield served(few, rows=11)
    yield served(few | {ggml + "add_bos_token": [BOOL, True]}, rows=11)
