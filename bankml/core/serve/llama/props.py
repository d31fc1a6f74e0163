# SPDX-License-Identifier: MIT OR Apache-2.0
"""``/props`` and ``/v1/models``: what llama-server tells of its model, read from the file's header.

Source: get_res_props, get_res_model_info, get_res_models (tools/server/server-context.cpp).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from bankml.core.gguf.types import TYPES
from bankml.core.serve.llama.shapes import FINGERPRINT
from bankml.core.serve.llama.verbose import short_settings

if TYPE_CHECKING:
    from bankml.core.engine import Engine
    from bankml.core.gguf.reader import GgufFile

# general.file_type -> what llama-server calls it. Source: llama_ftype_name, src/llama-model-loader.cpp.
_FILE_TYPES = {
    0: "all F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    7: "Q8_0",
    8: "Q5_0",
    9: "Q5_1",
    10: "Q2_K - Medium",
    11: "Q3_K - Small",
    12: "Q3_K - Medium",
    13: "Q3_K - Large",
    14: "Q4_K - Small",
    15: "Q4_K - Medium",
    16: "Q5_K - Small",
    17: "Q5_K - Medium",
    18: "Q6_K",
    19: "IQ2_XXS - 2.0625 bpw",
    20: "IQ2_XS - 2.3125 bpw",
    21: "Q2_K - Small",
    22: "IQ3_XS - 3.3 bpw",
    23: "IQ3_XXS - 3.0625 bpw",
    24: "IQ1_S - 1.5625 bpw",
    25: "IQ4_NL - 4.5 bpw",
    26: "IQ3_S - 3.4375 bpw",
    27: "IQ3_S mix - 3.66 bpw",
    28: "IQ2_S - 2.5 bpw",
    29: "IQ2_M - 2.7 bpw",
    30: "IQ4_XS - 4.25 bpw",
    31: "IQ1_M - 1.75 bpw",
    32: "BF16",
    36: "TQ1_0 - 1.69 bpw ternary",
    37: "TQ2_0 - 2.06 bpw ternary",
    38: "MXFP4 MoE",
    39: "NVFP4",
    40: "Q1_0",
    41: "Q2_0",
}
# The type that most tensors have -> general.file_type, where the file does not say; of MXFP4 the reference knows none.
_GUESSES = {"F32": 0, "F16": 1, "BF16": 32, "Q2_K": 10, "Q3_K": 12, "Q4_K": 15, "Q5_K": 17, "Q6_K": 18, "MXFP4": 0}
_VOCAB_TYPES = {"no_vocab": 0, "none": 0, "llama": 1, "gpt2": 2, "bert": 3, "t5": 4, "rwkv": 5, "plamo2": 6}


def file_type(gguf: GgufFile) -> str:
    """The file's weight type in llama-server's words; guessed from its tensors when the header does not say."""
    number = gguf.get("general.file_type")
    if isinstance(number, int):
        return _FILE_TYPES.get(number, "unknown, may not work")
    seen: dict[str, int] = {}
    most = ""
    # In the order of names: of types that are equally frequent, the first to reach the count wins.
    for name in sorted(gguf.tensors):
        kind = TYPES[gguf.tensors[name].type_id].name
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] > seen.get(most, 0) or kind == most:
            most = kind
    number = _GUESSES.get(most)
    named = (
        _FILE_TYPES[number] if number is not None else next((n for n in _FILE_TYPES.values() if n.split(" ")[0] == most), None)
    )
    return f"(guessed) {named or 'all F32'}"


def model_info(engine: Engine) -> dict[str, Any]:
    """The model as ``/v1/models`` lists it."""
    gguf = engine.gguf
    arch = gguf.get("general.architecture")
    name = str(gguf.path)
    return {
        "id": name,
        "aliases": [name],
        "tags": [],
        "object": "model",
        "created": int(time.time()),
        "owned_by": "llamacpp",
        "meta": {
            "vocab_type": _VOCAB_TYPES.get(str(gguf.get("tokenizer.ggml.model")), 0),
            "n_vocab": engine.tokenizer.n_vocab,
            "n_ctx": engine.n_ctx,
            "n_ctx_train": gguf.get(f"{arch}.context_length", 0),
            "n_embd": gguf.get(f"{arch}.embedding_length", 0),
            "n_params": sum(tensor.n_elements for tensor in gguf.tensors.values()),
            "size": sum(tensor.n_bytes for tensor in gguf.tensors.values()),
            "ftype": file_type(gguf),
        },
    }


def models(engine: Engine) -> dict[str, Any]:
    """The body of ``/v1/models``."""
    name = str(engine.gguf.path)
    return {
        "models": [
            {
                "name": name,
                "model": name,
                "modified_at": "",
                "size": "",
                "digest": "",
                "type": "model",
                "description": "",
                "tags": [""],
                "capabilities": ["completion"],
                "parameters": "",
                "details": {
                    "parent_model": "",
                    "format": "gguf",
                    "family": "",
                    "families": [""],
                    "parameter_size": "",
                    "quantization_level": "",
                },
            }
        ],
        "object": "list",
        "data": [model_info(engine)],
    }


def props(engine: Engine) -> dict[str, Any]:
    """The body of ``/props``: llama-server's members; what bankml does not have is said to be off."""
    from bankml.core.sampling import resolve_params

    tokenizer = engine.tokenizer

    def text(token: int | None) -> str:
        return "" if token is None else tokenizer.piece(token, special=True).decode("utf-8", "replace")

    return {
        "default_generation_settings": {"params": short_settings(resolve_params({}, engine.defaults)), "n_ctx": engine.n_ctx},
        "total_slots": 1,
        "model_alias": str(engine.gguf.path),
        "model_ftype": file_type(engine.gguf),
        "model_path": str(engine.gguf.path),
        "modalities": {"vision": False, "video": False, "audio": False},
        "endpoint_slots": False,
        "endpoint_props": False,
        "endpoint_metrics": False,
        "ui": False,
        "ui_settings": {},
        "chat_template": engine.template.source,
        "chat_template_caps": engine.template.caps,
        "bos_token": text(tokenizer.bos),
        "eos_token": text(tokenizer.eos),
        "build_info": FINGERPRINT,
        "is_sleeping": False,
        "cors_proxy_enabled": False,
    }
