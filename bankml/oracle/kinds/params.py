# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a request's sampling fields come to: limits, roundings, defaults from the GGUF file, refusals."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bankml.oracle.kind import Tally
from bankml.oracle.options import Options, declared
from bankml.refusal import Refusal

if TYPE_CHECKING:
    from bankml.core.tokenizer.tokenizer import Tokenizer
    from bankml.reference.build import Reference

_INTEGERS = ("top_k", "repeat_last_n", "dry_allowed_length", "dry_penalty_last_n", "mirostat", "min_keep", "seed")
_FLOATS = (
    "top_p",
    "min_p",
    "temperature",
    "typical_p",
    "top_n_sigma",
    "xtc_probability",
    "xtc_threshold",
    "dynatemp_range",
    "dynatemp_exponent",
    "repeat_penalty",
    "frequency_penalty",
    "presence_penalty",
    "dry_multiplier",
    "dry_base",
    "mirostat_tau",
    "mirostat_eta",
    "adaptive_target",
    "adaptive_decay",
)
_WHOLE: tuple[Any, ...] = (
    None,
    0,
    1,
    -1,
    -7,
    40,
    2**31 - 1,
    2**31,
    2**32 + 5,
    2**63,
    -(2**63),
    2**64 - 1,
    2**64,
    3.7,
    -3.7,
    1e12,
    True,
    "1",
    [1],
    {},
)
_REAL: tuple[Any, ...] = (None, 0, 1, -1, 0.5, 1.5, 0.1, 1e-30, 1e39, -1e39, 1e300, 16777217, 2**64, False, "0.5", [], {"a": 1})
_OTHERS: tuple[dict[str, Any], ...] = (
    {"top_k": "a", "top_p": "b"},
    {"top_p": "b", "top_k": "a"},
    {"seed": "x", "min_keep": -1},
    {"repeat_penalty": 1e-45},
    {"repeat_penalty": 1e-39},
    {"frequency_penalty": 1e39, "repeat_penalty": 0},
    {"dry_sequence_breakers": ["a", "b"]},
    {"dry_sequence_breakers": []},
    {"dry_sequence_breakers": "x"},
    {"dry_sequence_breakers": ["a", 5]},
    {"samplers": 5},
    {"samplers": "kpt?m"},
    {"samplers": ["TOP_K", "top-p", "minp", "nucleus", "typ", "temp", "nope", "dry"]},
    {"samplers": ["top_k", 5]},
    {"samplers": {}},
    {"logit_bias": 5},
    {"logit_bias": {"1": False, "2": True, " 3": 1, "+4": 2, "": 0.5, "x": 3, "-5": 1, "99999999999": 1, "7 ": 1}},
    {"logit_bias": [[1, 2], [2, False], [3, True], ["hello world", -1.5], [4], [5, 6, 7], [1.5, 2], [-1, 2], [49152, 1], 8]},
    {"logit_bias": {"1": 1e39, "2": -1e39, "3": "4"}},
    {"ignore_eos": True},
    {"ignore_eos": 1},
    {"ignore_eos": True, "logit_bias": {"9": 1}},
    {"dry_sequence_breakers": ["", "é", "日本語 and more than forty bytes of it", "\x00", "🙂"]},
    {"temperature": 1e39, "dry_base": 1e39, "dry_multiplier": 1},
)
_FILES: tuple[dict[str, Any], ...] = (
    {"general.sampling.temp": 0.123456789, "general.sampling.top_k": 20, "general.sampling.top_p": 0.85},
    {"general.sampling.min_p": 1, "general.sampling.top_k": 12.9, "general.sampling.penalty_last_n": -1},
    {"general.sampling.penalty_repeat": "1.25x", "general.sampling.temp": " 0.75", "general.sampling.top_k": "x5"},
    {"general.sampling.xtc_probability": 0.2, "general.sampling.xtc_threshold": 7.5, "general.sampling.top_p": 2.5},
    {"general.sampling.sequence": "top_k;MIN-P;nothing;temp", "general.sampling.mirostat": 2},
    {"general.sampling.mirostat_tau": 4.00000049, "general.sampling.mirostat_eta": 1e-7, "general.sampling.temp": True},
    {"general.sampling.temp": "1e39", "general.sampling.mirostat_tau": "inf", "general.sampling.mirostat_eta": "nan"},
)


_BASE: dict[str, Any] = {"prompt": "hi", "n_predict": 1}


def requests() -> list[dict[str, Any]]:
    """One field at a time over values of all kinds, then some together."""
    single = [{name: value} for name in _INTEGERS for value in _WHOLE] + [{name: value} for name in _FLOATS for value in _REAL]
    return [*single, *_OTHERS]


class Params:
    """Kind ``params``."""

    name = "params"
    checks = "sampling fields of a request: values after limits and rounding, GGUF defaults, refusals"
    against = "llama-server's generation_settings and error bodies"
    small = True
    options: Options = declared()

    def record(self, model: Path | None, reference: Reference, options: dict[str, Any]) -> dict[str, Any]:
        """Ask every request, and start a server on each file whose header sets defaults.

        Raises:
            Refusal: no model was named.
        """
        if model is None:
            raise Refusal("oracle.model", "this kind of oracle needs a model")
        asked = []
        with reference.server(model, ctx=256) as server:
            for request in requests():
                status, said = server.post("/completion", {**_BASE, **request})
                answer = said["generation_settings"] if status == 200 else said["error"]
                asked.append({"request": request, "status": status, "answer": answer})
        files = []
        for kv in _FILES:
            with tempfile.TemporaryDirectory() as folder:
                changed = Path(folder) / "model.gguf"
                changed.write_bytes(_with_keys(model, kv))
                with reference.server(changed, ctx=256) as server:
                    files.append({"kv": kv, "answer": server.get("/props")[1]["default_generation_settings"]["params"]})
        return {"requests": asked, "files": files}

    def compare(self, body: dict[str, Any], model: Path | None) -> Tally:
        """Resolve every request, and every file's defaults; all of the settings or all of the error must be the same."""
        from bankml.core.gguf.reader import GgufFile
        from bankml.core.sampling import gguf_defaults, resolve_params
        from bankml.core.serve.llama.verbose import short_settings
        from bankml.core.tokenizer.tokenizer import Tokenizer

        if model is None:
            raise Refusal("oracle.model", "the recorded model is not on this machine", hint="`bankml pull` fetches it")
        tally = Tally()
        with GgufFile.open(model) as gguf:
            tokenizer = Tokenizer.from_gguf(gguf)
        for each in body["requests"]:
            status, found = _resolved(tokenizer, each["request"])
            same = status == each["status"] and _written(found) == _written(each["answer"])
            tally.count(same, f"{each['request']}: {status} {_differing(found, each['answer'])}")
        for each in body["files"]:
            found = short_settings(resolve_params({}, gguf_defaults(each["kv"])))
            tally.count(_written(found) == _written(each["answer"]), f"{each['kv']}: {_differing(found, each['answer'])}")
        return tally


def _resolved(tokenizer: Tokenizer, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """The status of a request with these fields, and its settings or its error as an answer has them."""
    from bankml.core.sampling import resolve_params
    from bankml.core.serve.llama.completion_request import read_completion
    from bankml.core.serve.llama.completion_shapes import NO_TEMPLATE
    from bankml.core.serve.llama.verbose import settings

    try:
        return 200, settings(resolve_params(request, {}, tokenizer), read_completion(_BASE), chat=NO_TEMPLATE)
    except Refusal as refusal:
        return refusal.status, refusal.http_body()["error"]


def _written(value: dict[str, Any]) -> str:
    """The value as an answer has it, members in their order."""
    from bankml.core.json.writer import dumps

    return dumps(value)


def _differing(found: dict[str, Any], recorded: dict[str, Any]) -> str:
    names = [name for name in {**recorded, **found} if (name in found, found.get(name)) != (name in recorded, recorded.get(name))]
    pairs = [f"{name} {found.get(name, 'missing')!r}, recorded {recorded.get(name, 'missing')!r}" for name in names]
    return "; ".join(pairs) or "the order differs"


def _with_keys(model: Path, kv: dict[str, Any]) -> bytes:
    """The file with more keys at the front of its header."""
    from bankml.core.gguf.reader import GgufFile

    data = model.read_bytes()
    with GgufFile.open(model) as gguf:
        start = min(tensor.offset for tensor in gguf.tensors.values())
        found = gguf.get("general.alignment", 32)
        alignment = found if isinstance(found, int) else 32
    tensors, keys = struct.unpack_from("<QQ", data, 8)
    added = b"".join(_key(name, value) for name, value in kv.items())
    header = data[:8] + struct.pack("<QQ", tensors, keys + len(kv)) + added + data[24:start]
    # The old padding is still at the end, so the new header may need up to two of them.
    return header + bytes(-len(added) % alignment) + data[start:]


def _key(name: str, value: Any) -> bytes:
    """One key and its value in GGUF's binary form."""
    head = struct.pack("<Q", len(name)) + name.encode()
    if isinstance(value, bool):
        return head + struct.pack("<IB", 7, value)
    if isinstance(value, str):
        return head + struct.pack("<IQ", 8, len(value)) + value.encode()
    if isinstance(value, int):
        return head + struct.pack("<Ii", 5, value)
    return head + struct.pack("<If", 6, value)


KIND = Params()
