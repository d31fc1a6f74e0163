# SPDX-License-Identifier: MIT OR Apache-2.0
"""The one table of the metadata keys that b11192 reads of a llama, qwen2 or qwen3 file, and what bankml does with each.

A key that is not here is read by neither, and changes no bit. The guard takes value types from this table, the plan reads
through it, and docs/keys.md is made of it. The oracle ``keys`` asks the reference about every row.

Source: llama_model_base::load_hparams, src/llama-model.cpp; src/llama-model-loader.cpp; src/llama-vocab.cpp;
common_init_sampler_from_model, common/common.cpp; src/models/llama.cpp, qwen2.cpp, qwen3.cpp.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from bankml.core.gguf.types import ARRAY, BOOL, F32, I8, I32, STRING, U8, U16, U32, VALUE_TYPES

ARCH: Final = "{arch}."
"""How the name of an architecture's own key begins."""
ARCHITECTURES: Final = ("llama", "qwen2", "qwen3")
SCALARS: Final = tuple(kind for kind in VALUE_TYPES if kind != ARRAY)


class Here(Enum):
    """What bankml does with a key."""

    READ = "read"
    """It decides what is computed or shown, as in b11192."""
    PASSED = "passed over"
    """b11192 reads it, and stops where its type is wrong; no answer depends on its value."""
    REFUSED = "refused"
    """It changes b11192's graph, and bankml has no such graph: only the value of an absent key plays."""


class Key(NamedTuple):
    """One key.

    ``types`` and ``elements`` are what b11192 takes as a scalar and as the elements of an array; anything else stops it.
    ``absent`` is what it takes where the key is absent. ``when`` says when it reads the key, if not always.
    """

    name: str
    types: tuple[int, ...]
    elements: tuple[int, ...]
    absent: str
    here: Here
    meaning: str
    refused: str = ""
    """Values that bankml refuses, and with which code."""
    archs: tuple[str, ...] = ()
    """The architectures that read it; empty where each of b11192's does."""
    when: str = ""
    passed_by: tuple[str, ...] = ()
    """Architectures whose graph has no use for a key that others refuse."""

    def for_arch(self, arch: str) -> str:
        """The name in a file of that architecture."""
        return self.name.replace(ARCH, f"{arch}.")

    def use(self, arch: str) -> Here:
        """What bankml does with it in a file of that architecture."""
        return Here.PASSED if arch in self.passed_by else self.here


_READ, _PASSED, _REFUSED = Here.READ, Here.PASSED, Here.REFUSED
_LAYERS: Final = (U32, I32, BOOL)
"""Elements of an array with one number for each layer."""


def _one(name: str, kind: int, absent: str, here: Here, meaning: str, refused: str = "", **more: object) -> Key:
    return Key(name, (kind,), (), absent, here, meaning, refused, **more)  # type: ignore[arg-type]


def _array(name: str, elements: tuple[int, ...], absent: str, here: Here, meaning: str, refused: str = "", when: str = "") -> Key:
    return Key(name, (), elements, absent, here, meaning, refused, when=when)


def _text(name: str, absent: str, here: Here, meaning: str, refused: str = "", when: str = "") -> Key:
    """A key that b11192 reads as text, whatever scalar it is; an array counts as absent."""
    return Key(name, SCALARS, SCALARS, absent, here, meaning, refused, when=when)


_FILE: Final = (
    _one("general.architecture", STRING, "required", _READ, "the graph", "others than these three: `model.architecture`"),
    _one("general.alignment", U32, "32", _READ, "where tensors lie", "see [the guard](guard.md)"),
    _one("general.name", STRING, "empty", _READ, "`phi-3`, `phi3` or `modern-bert` in it: special tokens that take blanks along"),
    _one("general.file_type", U32, "guessed from the tensors", _READ, "the weight type that `/props` shows"),
    Key(
        "general.tensor_extra.name",
        SCALARS,
        (STRING,),
        "no tensors",
        _PASSED,
        "weights whose products other processors may round less; a scalar counts as absent",
    ),
    Key(
        "general.tensor_extra.prec_a4",
        (),
        (BOOL,),
        "required",
        _PASSED,
        "the same, one for each name",
        "another number of them: `gguf.tensor-extra`",
        when="there are such names",
    ),
    _one("split.count", U16, "0", _REFUSED, "the file is one of as many", "2 or more: `model.split`"),
    _one("split.no", U16, "required", _READ, "which of them it is, from 0", when="`split.count` is above 1"),
    _one("split.tensors.count", I32, "required", _PASSED, "tensors of all files", when="`split.count` is above 1"),
)

_SIZES: Final = (
    _one("{arch}.vocab_size", U32, "the number of tokens", _PASSED, "a name for the model's size", archs=("llama",)),
    _one(
        "{arch}.context_length",
        U32,
        "required",
        _READ,
        "the most tokens of a slot; the original context of YaRN where that key is 0 or absent",
        "0, or 2^31 and more: `gguf.context-length`",
    ),
    _one("{arch}.embedding_length", U32, "required", _READ, "the width of a row", "0: `gguf.embedding-length`"),
    _one("{arch}.embedding_length_out", U32, "the embedding's", _PASSED, "the width of embeddings, which bankml does not give"),
    _one("{arch}.block_count", U32, "required", _READ, "layers", "0, or more than 512: `gguf.block-count`"),
    _one("{arch}.nextn_predict_layers", U32, "0", _REFUSED, "layers that guess further tokens", "above 0: `model.not-built`"),
    Key(
        "{arch}.feed_forward_length",
        (U32,),
        _LAYERS,
        "0",
        _READ,
        "the feed forward's width",
        "0: `model.shape`; fewer or more numbers than layers: `gguf.layer-count`. Of a list the first number counts",
    ),
    _one(
        "{arch}.expert_count",
        U32,
        "0",
        _REFUSED,
        "experts; qwen2's and qwen3's graphs have none of them",
        "above 0 in llama: `model.not-built`; numbers that do not add up: `gguf.experts`",
        passed_by=("qwen2", "qwen3"),
    ),
    Key("{arch}.expert_used_count", (U32,), _LAYERS, "0", _PASSED, "experts for a token", "see `expert_count`"),
    _one("{arch}.expert_group_count", U32, "0", _PASSED, "groups of experts", "see `expert_count`"),
    _one("{arch}.expert_group_used_count", U32, "0", _PASSED, "groups for a token", "see `expert_count`"),
    _one("{arch}.pooling_type", U32, "none", _PASSED, "how rows become one embedding"),
    Key(
        "{arch}.classifier.output_labels", SCALARS, (STRING,), "none", _PASSED, "a classifier's names; a scalar counts as absent"
    ),
)

_ATTENTION: Final = (
    Key(
        "{arch}.attention.head_count",
        (U32,),
        _LAYERS,
        "0",
        _READ,
        "heads of queries",
        "0: `gguf.head-count`. Of a list the first number counts",
    ),
    Key(
        "{arch}.attention.head_count_kv",
        (U32,),
        _LAYERS,
        "head_count",
        _READ,
        "heads of keys and values",
        "0: `gguf.head-count-kv`; no divisor of the heads: `gguf.head-division`; layers that differ: `model.layers-differ`",
    ),
    _one(
        "{arch}.attention.key_length",
        U32,
        "embedding / heads",
        _READ,
        "width of a head",
        "odd, or not value_length: `model.head-width`",
    ),
    _one(
        "{arch}.attention.value_length", U32, "embedding / heads", _READ, "width of a value", "not key_length: `model.head-width`"
    ),
    _one(
        "{arch}.attention.key_length_swa",
        U32,
        "key_length",
        _PASSED,
        "the same of layers with a window, which these graphs have not",
    ),
    _one("{arch}.attention.value_length_swa", U32, "value_length", _PASSED, "likewise"),
    _one(
        "{arch}.attention.causal", BOOL, "true", _REFUSED, "whether a token sees only those before it", "false: `model.not-built`"
    ),
    _one(
        "{arch}.attention.layer_norm_rms_epsilon",
        F32,
        "required",
        _READ,
        "added under the root of a norm",
        "below 0, or not a number: `model.key-value`",
        archs=ARCHITECTURES,
    ),
)

_ROPE: Final = (
    _one(
        "{arch}.rope.dimension_count",
        U32,
        "key_length",
        _READ,
        "numbers of a head that rotate",
        "not key_length: `model.rope-dims`",
    ),
    _one("{arch}.rope.dimension_count_swa", U32, "dimension_count", _PASSED, "the same of layers with a window"),
    _one(
        "{arch}.rope.freq_base",
        F32,
        "10000",
        _READ,
        "the base of the angles",
        "not above 0, or so small that angles leave single precision: `model.key-value`",
    ),
    _one(
        "{arch}.rope.scaling.type",
        STRING,
        "linear",
        _READ,
        "`none`, `linear`, `yarn`, or `longrope`, which without factors is linear",
        "others: `gguf.rope-scaling`",
    ),
    _one(
        "{arch}.rope.scaling.factor",
        F32,
        "scale_linear",
        _READ,
        "1 / the scale of the angles; 0 means 1",
        "an angle past single precision; with YaRN also what is negative, infinite or e^-10: `model.key-value`",
    ),
    _one("{arch}.rope.scale_linear", F32, "0", _READ, "an older name of the factor", "as the factor", when="there is no factor"),
    _one("{arch}.rope.scaling.attn_factor", F32, "1", _READ, "multiplies what was rotated", "not finite: `model.key-value`"),
    _one(
        "{arch}.rope.scaling.original_context_length",
        U32,
        "context_length",
        _READ,
        "YaRN's context before it was stretched; 0 counts as absent",
        "with YaRN 2^31 and more: `model.key-value`",
    ),
    _one("{arch}.rope.scaling.finetuned", BOOL, "false", _PASSED, "printed"),
    _one("{arch}.rope.scaling.alpha", F32, "0", _PASSED, "for other architectures"),
)

_IDS: Final = {
    "bos": ("11", _READ, "added before a text; shown to templates"),
    "eos": ("11", _READ, "added behind a text; ends an answer"),
    "eot": ("by its text", _READ, "ends an answer"),
    "eom": ("by its text", _READ, "ends an answer"),
    "unknown": ("none", _PASSED, "other tokenizers' token for what they do not know"),
    "seperator": ("none", _PASSED, "other tokenizers' separator"),
    "padding": ("none", _PASSED, "fills batches"),
    "mask": ("none", _PASSED, "stands for a missing word"),
    "fim_pre": ("by its text", _READ, "infill: a token that the key names leaves those with such a text as they are"),
    "fim_suf": ("by its text", _READ, "likewise"),
    "fim_mid": ("by its text", _READ, "likewise"),
    "fim_pad": ("by its text", _READ, "likewise; ends an answer"),
    "fim_rep": ("by its text", _READ, "likewise; ends an answer"),
    "fim_sep": ("by its text", _READ, "likewise; ends an answer"),
    "prefix": ("fim_pre", _READ, "an older name, read after the newer"),
    "suffix": ("fim_suf", _READ, "likewise"),
    "middle": ("fim_mid", _READ, "likewise"),
}
_TOKENIZER: Final = (
    _one("tokenizer.ggml.model", STRING, "required", _READ, "the kind of tokenizer", "others than `gpt2`: `text.model`"),
    _one(
        "tokenizer.ggml.pre",
        STRING,
        "default",
        _READ,
        "how text is cut into words",
        "absent or not [known](tokenizer.md): `text.pre`",
    ),
    _array("tokenizer.ggml.tokens", (STRING,), "required", _READ, "the vocabulary", "a text twice: `text.duplicate`"),
    _array(
        "tokenizer.ggml.token_type",
        (I32,),
        "1 for each",
        _READ,
        "normal, unknown, control, user-defined, unused, byte",
        "fewer than tokens: `gguf.vocabulary`",
    ),
    _one("tokenizer.ggml.token_type_count", U32, "0", _PASSED, "for other architectures"),
    _array(
        "tokenizer.ggml.scores",
        (F32, I32),
        "0 for each",
        _PASSED,
        "ranks of other tokenizers",
        "fewer than tokens: `gguf.vocabulary`",
    ),
    _array(
        "tokenizer.ggml.merges",
        (STRING,),
        "required",
        _READ,
        "which texts merge, in order",
        when="the tokenizer is byte-level BPE",
    ),
    *(
        _one(f"tokenizer.ggml.{role}_token_id", U32, absent, here, meaning, "outside the vocabulary: ignored")
        for role, (absent, here, meaning) in _IDS.items()
    ),
    _one(
        "tokenizer.ggml.add_bos_token",
        BOOL,
        "by the pre-tokenizer",
        _READ,
        "whether bos is added",
        "true without bos: `text.add-special`",
    ),
    _one("tokenizer.ggml.add_eos_token", BOOL, "false", _READ, "whether eos is added", "true without eos: `text.add-special`"),
    _one("tokenizer.ggml.add_sep_token", BOOL, "false", _PASSED, "for other tokenizers"),
    _one("tokenizer.ggml.add_space_prefix", BOOL, "false", _READ, "whether detokenizing takes one space off the start"),
    _one("tokenizer.ggml.remove_extra_whitespaces", BOOL, "false", _PASSED, "for other tokenizers"),
    _one("tokenizer.ggml.normalizer.lowercase", BOOL, "true", _PASSED, "for other tokenizers"),
    _one("tokenizer.ggml.normalizer.strip_accents", BOOL, "lowercase", _PASSED, "for other tokenizers"),
    _array(
        "tokenizer.ggml.precompiled_charsmap", (I8, U8), "none", _PASSED, "for other tokenizers", when="the tokenizer is `t5`"
    ),
    _array(
        "tokenizer.ggml.suppress_tokens",
        (I32,),
        "none",
        _READ,
        "tokens that are never drawn; those outside the vocabulary are ignored",
    ),
    _text("tokenizer.chat_template", "b11192's ChatML", _READ, "[the template](templates.md)"),
    _text("tokenizer.chat_template.tool_use", "none", _READ, "the template of requests with tools"),
    _text("tokenizer.chat_template.rerank", "none", _PASSED, "the template of a reranker", when="`pooling_type` is 4"),
)

_SAMPLING: Final = tuple(
    _text(f"general.sampling.{name}", absent, _READ, meaning, refused)
    for name, absent, meaning, refused in (
        ("sequence", "b11192's order", "the samplers, between semicolons", ""),
        ("top_k", "40", "`top_k`", ""),
        ("top_p", "0.95", "`top_p`", ""),
        ("min_p", "0.05", "`min_p`", ""),
        ("xtc_probability", "0", "`xtc_probability`", ""),
        ("xtc_threshold", "0.1", "`xtc_threshold`", ""),
        ("temp", "0.8", "`temperature`", ""),
        ("penalty_last_n", "64", "`repeat_last_n`", ""),
        ("penalty_repeat", "1", "`repeat_penalty`", "what is not above 0, or not finite, itself or 1 / it: `gguf.sampling`"),
        ("mirostat", "0", "`mirostat`", "others than 0, 1, 2: `gguf.sampling`"),
        ("mirostat_tau", "5", "`mirostat_tau`", ""),
        ("mirostat_eta", "0.1", "`mirostat_eta`", ""),
    )
)

GROUPS: Final[dict[str, tuple[Key, ...]]] = {
    "The file": _FILE,
    "Sizes": _SIZES,
    "Attention": _ATTENTION,
    "Rotation": _ROPE,
    "Tokenizer and template": _TOKENIZER,
    "Sampling": _SAMPLING,
}
KEYS: Final = tuple(key for group in GROUPS.values() for key in group)
BY_NAME: Final = {key.name: key for key in KEYS}
PER_LAYER: Final = tuple(key for key in KEYS if key.elements == _LAYERS)
