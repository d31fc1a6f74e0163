# SPDX-License-Identifier: MIT OR Apache-2.0
"""Value types: the keys on whose type b11192 stops, held to the table of keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from bankml.core.gguf.header import Array, Entry, Header, at, short
from bankml.core.gguf.keys import KEYS, Key
from bankml.core.gguf.types import VALUE_TYPES
from bankml.core.refusal import Refusal

_BYTE_LEVEL: Final = ("gpt2", "hybriddna", "whitespace", "gemma4")


def _is_split(header: Header) -> bool:
    return (header.integer("split.count") or 0) > 1


def _names_tensors(header: Header) -> bool:
    entry = header.entries.get("general.tensor_extra.name")
    return entry is not None and isinstance(entry.value, Array)


_READ_WHEN: Final[dict[str, Callable[[Header], bool]]] = {
    "split.no": _is_split,
    "split.tensors.count": _is_split,
    "general.tensor_extra.prec_a4": _names_tensors,
    "tokenizer.ggml.merges": lambda header: header.text("tokenizer.ggml.model") in _BYTE_LEVEL,
    "tokenizer.ggml.precompiled_charsmap": lambda header: header.text("tokenizer.ggml.model") == "t5",
    "{arch}.rope.scale_linear": lambda header: f"{header.text('general.architecture')}.rope.scaling.factor" not in header.entries,
}
"""The keys that are not always read, each with the question whether this file's is."""


def is_read(key: Key, header: Header) -> bool:
    """Whether b11192 reads the key of this file at all, if it is there."""
    arch = header.text("general.architecture")
    if key.archs and arch not in key.archs:
        return False
    return key.name not in _READ_WHEN or _READ_WHEN[key.name](header)


def type_refusals(header: Header) -> Iterator[Refusal]:
    """One refusal for each key whose value type makes b11192 give up."""
    arch = header.text("general.architecture")
    for key in KEYS:
        if key.for_arch("") != key.name and arch in (None, "clip"):
            continue
        name = key.for_arch(arch or "")
        entry = header.entries.get(name)
        if entry is not None and is_read(key, header) and not _is_taken(key, entry):
            yield wrong_type(name, entry, allowed_types(key))


def _is_taken(key: Key, entry: Entry) -> bool:
    return entry.value.type in key.elements if isinstance(entry.value, Array) else entry.type in key.types


def allowed_types(key: Key) -> str:
    """The types that b11192 takes for a key, in words."""
    scalars = " or ".join(VALUE_TYPES[kind].name for kind in key.types)
    elements = " or ".join(VALUE_TYPES[kind].name for kind in key.elements)
    return " or ".join([scalars] * bool(scalars) + [f"an array of {elements}"] * bool(elements))


def wrong_type(name: str, entry: Entry, allowed: str) -> Refusal:
    """The refusal of a key whose value is of another type than b11192 takes."""
    kind = VALUE_TYPES[entry.type].name
    found = f"an array of {VALUE_TYPES[entry.value.type].name}" if isinstance(entry.value, Array) else kind
    where = at(entry.value_offset - 4, f"value type of {short(name)}")
    return Refusal("gguf.key-type", f"{short(name)} is of the wrong type", where=where, found=found, allowed=allowed)
