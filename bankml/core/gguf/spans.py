# SPDX-License-Identifier: MIT OR Apache-2.0
"""The tensors' types and the places their bytes take: in order, aligned, without overlap or gap, inside the file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from bankml.core.gguf.header import Header, TensorInfo, at, short
from bankml.core.gguf.types import FORK_TYPES, REMOVED, TYPE_COUNT, TYPES, type_name
from bankml.refusal import Refusal

_Q2_0 = 42
_CPU_ALIGNMENT = 32
"""b11192 maps the data section and hands it to its CPU buffer, which asserts this. Source: ggml-backend.cpp."""


def type_refusals(header: Header, engine: str) -> Iterator[Refusal]:
    """One refusal for each kind of tensor type that cannot be read by ``engine``."""
    by_type: dict[int, list[TensorInfo]] = {}
    for tensor in header.tensors:
        by_type.setdefault(tensor.type_id, []).append(tensor)
    unknown = sorted(number for number in by_type if number >= TYPE_COUNT and number not in FORK_TYPES)
    if unknown:
        yield Refusal(
            "gguf.type-unknown",
            f"type ids {unknown} unknown to every build this guard knows",
            where=_type_place(by_type[unknown[0]][0]),
            found=str(unknown[0]),
            allowed=f"0 to {TYPE_COUNT - 1}",
        )
    fork = sorted(number for number in by_type if number in FORK_TYPES)
    if fork and engine != "prism":
        yield Refusal(
            "gguf.type-fork",
            "PQ2_0/PTQ1_0 are PrismML-fork types",
            where=_type_place(by_type[fork[0]][0]),
            found=", ".join(f"{len(by_type[number])} × {FORK_TYPES[number]} ({number})" for number in fork),
            allowed=f"0 to {TYPE_COUNT - 1}",
            hint="--engine prism judges the file for that fork",
        )
    for number in sorted(set(by_type) & set(REMOVED)):
        yield Refusal(
            "gguf.type-removed",
            f"{REMOVED[number]} was removed before b11192",
            where=_type_place(by_type[number][0]),
            found=f"{len(by_type[number])} tensors of type {number}",
            allowed=", ".join(kind.name for kind in TYPES.values()),
            hint="quantize the model again",
        )


def span_refusals(header: Header, size: int | None) -> Iterator[Refusal]:
    """At most one refusal of each kind about the places of the tensors; ``size`` is the file's, where it is known."""
    legacy = _legacy_q2(header, size)
    if legacy:
        yield Refusal(
            "gguf.q2-legacy",
            f"{len(legacy)} Q2_0 tensors smaller than group-64 layout",
            where=_offset_place(legacy[0]),
            found=f"less than {legacy[0].n_bytes} bytes for {short(legacy[0].name)}",
            allowed="18 bytes for each 64 weights",
            hint="a file of the old group-128 layout: convert it again",
        )
    else:
        yield from _order_refusals(header)
    if header.tensors and header.data_start % _CPU_ALIGNMENT:
        yield Refusal(
            "gguf.data-alignment",
            "the data section is not aligned for b11192's memory map",
            where=at(header.header_end, "end of the header"),
            found=f"data at offset {header.data_start}, general.alignment {header.alignment}",
            allowed=f"a multiple of {_CPU_ALIGNMENT}",
        )
    if size is not None:
        yield from _bound_refusals(header, size)


def data_end(header: Header) -> int:
    """The file offset behind the last tensor, or behind the header where there are none, with its padding."""
    ends = [tensor.relative + tensor.n_bytes for tensor in header.tensors]
    if not ends:
        return _padded(header.header_end, header.alignment)
    return header.data_start + _padded(max(ends), header.alignment)


def _padded(n: int, alignment: int) -> int:
    return -(-n // alignment) * alignment


def _type_place(tensor: TensorInfo) -> str:
    return at(tensor.tail, f"type of tensor {short(tensor.name)}")


def _offset_place(tensor: TensorInfo) -> str:
    return at(tensor.tail + 4, f"offset of tensor {short(tensor.name)}")


def _legacy_q2(header: Header, size: int | None) -> list[TensorInfo]:
    """Q2_0 tensors that end, by their neighbour's offset, before the group-64 layout would.

    The last tensor has no neighbour: the end of the file counts, but only where the group-128 layout fits, so that
    a file that was cut short is not taken for an old one.
    """
    starts = sorted({tensor.relative for tensor in header.tensors})
    after = dict(pairwise(starts))
    found = []
    for tensor in header.tensors:
        if tensor.type_id != _Q2_0:
            continue
        end = after.get(tensor.relative)
        if end is None and size is not None:
            end = size - header.data_start
            if end - tensor.relative < tensor.n_elements // 128 * 34:
                continue
        if end is not None and end - tensor.relative < tensor.n_bytes:
            found.append(tensor)
    return found


def _order_refusals(header: Header) -> Iterator[Refusal]:
    """b11192 wants each tensor to begin where the one before it, padded, ends."""
    expected: int | None = 0
    seen: dict[int, str] = {}
    reported = set()
    for tensor in header.tensors:
        refusal = _order_refusal(tensor, expected, seen, header.alignment)
        if refusal and refusal.code not in reported:
            reported.add(refusal.code)
            yield refusal
        seen.setdefault(tensor.relative, tensor.name)
        # Behind a tensor whose layout is not known the next one may begin anywhere.
        expected = tensor.relative + _padded(tensor.n_bytes, header.alignment) if tensor.type_id in TYPES else None


def _order_refusal(tensor: TensorInfo, expected: int | None, seen: dict[int, str], alignment: int) -> Refusal | None:
    name = short(tensor.name)
    where = _offset_place(tensor)
    found = str(tensor.relative)
    allowed = "a multiple of the alignment" if expected is None else str(expected)
    if tensor.relative in seen:
        message = f"tensor {name} lies on tensor {short(seen[tensor.relative])}"
        return Refusal("gguf.tensor-same-offset", message, where=where, found=found, allowed=allowed)
    if tensor.relative % alignment:
        message = f"the data of tensor {name} are not aligned"
        return Refusal("gguf.tensor-misaligned", message, where=where, found=found, allowed=f"a multiple of {alignment}")
    if expected is None or tensor.relative == expected:
        return None
    if tensor.relative < expected:
        message = f"the data of tensor {name} overlap those of the tensor before it"
        return Refusal("gguf.tensor-overlap", message, where=where, found=found, allowed=allowed)
    message = f"there is a gap before the data of tensor {name}"
    return Refusal("gguf.tensor-gap", message, where=where, found=found, allowed=allowed)


def _bound_refusals(header: Header, size: int) -> Iterator[Refusal]:
    beyond = [tensor for tensor in header.tensors if tensor.offset + tensor.n_bytes > size or tensor.offset >= size]
    if not beyond:
        return
    tensor = min(beyond, key=lambda each: each.offset)
    name = f"{short(tensor.name)} ({type_name(tensor.type_id)})"
    others = f", and of {len(beyond) - 1} more" if len(beyond) > 1 else ""
    cut = tensor.offset < size
    yield Refusal(
        "gguf.data-short" if cut else "gguf.tensor-outside",
        f"the file ends {'inside' if cut else 'before'} the data of tensor {name}{others}",
        where=_offset_place(tensor),
        found=f"a file of {size} bytes",
        allowed=f"at least {tensor.offset + tensor.n_bytes}",
        hint="fetch the file again",
    )
