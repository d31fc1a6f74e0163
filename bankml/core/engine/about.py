# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a model file is, whether it plays, and what stands in the way; from its header, without hashing it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bankml.core.chat.template import ChatTemplate
from bankml.core.gguf.guard import Verdict, judge
from bankml.core.gguf.header import Array, Header
from bankml.core.gguf.reader import GgufFile
from bankml.core.model.plan import plan
from bankml.core.pins.record import find_fork, pin_of
from bankml.core.tokenizer.tokenizer import Tokenizer
from bankml.refusal import EXIT_OTHER, EXIT_REFUSED, Refusal

_SIZES = {
    "context": "context_length",
    "embedding": "embedding_length",
    "layers": "block_count",
    "heads": "attention.head_count",
    "key_value_heads": "attention.head_count_kv",
    "key_length": "attention.key_length",
    "feed_forward": "feed_forward_length",
}


@dataclass
class About:
    """A report on a file. A part's refusal is None where bankml plays that part."""

    path: Path
    verdict: Verdict
    graph: Refusal | None
    tokenizer: Refusal | None
    template: Refusal | None
    has_template: bool
    pinned_sha256: str | None
    pin_problem: str | None
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def obstacles(self) -> list[Refusal]:
        """What stands in the way of playing the file."""
        parts = [each for each in (self.graph, self.tokenizer) if each is not None]
        return [*self.verdict.reasons, *(parts[:1] if self.graph is self.tokenizer else parts)]

    @property
    def plays(self) -> bool:
        """True when the guard, the graph and the tokenizer have nothing against it."""
        return not self.obstacles

    @property
    def exit_code(self) -> int:
        """0 when it plays; 2; 3 for a header that is cut short."""
        return 0 if self.plays else self.verdict.exit_code or EXIT_REFUSED

    def as_dict(self) -> dict[str, Any]:
        """The report, as ``bankml info --json`` prints it."""
        return {
            "file": str(self.path),
            "bytes": self.verdict.size,
            "plays": self.plays,
            "obstacles": [each.as_dict() for each in self.obstacles],
            **self.facts,
            "tokenizer": {
                **self.facts.get("tokenizer", {}),
                "supported": self.tokenizer is None and self.verdict.exit_code == 0,
                "refusal": self.tokenizer.as_dict() if self.tokenizer else None,
            },
            "template": {
                "present": self.has_template,
                "supported": self.template is None and self.verdict.exit_code == 0,
                "refusal": self.template.as_dict() if self.template else None,
            },
            "pinned": self.pinned_sha256 is not None,
            "pinned_sha256": self.pinned_sha256,
            "pin_problem": self.pin_problem,
            "notes": self.verdict.notes,
        }


def about(path: Path) -> About:
    """Judge, plan, and look at the text parts of a file; no weight is read and nothing is hashed.

    Raises:
        Refusal: the file cannot be read, or its header cannot.
    """
    verdict = judge(path)
    header = verdict.header
    if header is None or verdict.exit_code == EXIT_OTHER:
        raise verdict.refusal()
    graph = tokenizer = template = None
    own = header.entries.get("tokenizer.chat_template")
    has_template = own is not None and not isinstance(own.value, Array)
    if not verdict.reasons:
        with GgufFile.open(path) as gguf:
            graph = _refusal(lambda: plan(gguf))
            tokenizer = _refusal(lambda: Tokenizer.from_gguf(gguf).require_ends())
            if graph is not None and graph.code == "model.split":
                # The vocabulary stands in the first part: that this one lacks it is no reason of its own.
                tokenizer = graph
            template = _refusal(lambda: ChatTemplate.from_gguf(gguf)) if tokenizer is None else tokenizer
    pinned, problem = _pin(path)
    return About(path, verdict, graph, tokenizer, template, has_template, pinned, problem, _facts(verdict, header))


def _refusal(work: Callable[[], object]) -> Refusal | None:
    try:
        work()
    except Refusal as refusal:
        return refusal
    return None


def _pin(path: Path) -> tuple[str | None, str | None]:
    try:
        fork = find_fork(path)
        return (pin_of(fork, path.name) if fork else None), None
    except Refusal as refusal:
        return None, refusal.line()


def _facts(verdict: Verdict, header: Header) -> dict[str, Any]:
    """What the header says; None where it does not."""
    arch = header.text("general.architecture")
    elements = sum(tensor.n_elements for tensor in header.tensors)
    data = sum(tensor.n_bytes for tensor in header.tensors)
    sizes = {name: header.integer(f"{arch}.{key}") for name, key in _SIZES.items()}
    if sizes["key_value_heads"] is None and f"{arch}.attention.head_count_kv" not in header.entries:
        sizes["key_value_heads"] = sizes["heads"]
    if sizes["key_length"] is None and sizes["embedding"] and sizes["heads"]:
        sizes["key_length"] = sizes["embedding"] // sizes["heads"]
    tokens = header.entries.get("tokenizer.ggml.tokens")
    return {
        "arch": arch,
        "name": header.text("general.name"),
        "size_label": header.text("general.size_label"),
        "parameters": elements,
        "tensors": len(header.tensors),
        "types": verdict.types,
        "weight_bytes": data,
        "bits_per_weight": round(8 * data / elements, 3) if elements else None,
        **sizes,
        "vocabulary": tokens.value.n if tokens is not None and isinstance(tokens.value, Array) else None,
        "tokenizer": {
            "model": header.text("tokenizer.ggml.model"),
            "pre": header.text("tokenizer.ggml.pre"),
        },
        "kv_f16_bytes_per_token": verdict.kv_f16_bytes_per_token,
    }
