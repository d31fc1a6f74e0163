# SPDX-License-Identifier: MIT OR Apache-2.0
"""The guard: judges a GGUF file by its header alone, before anything believes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bankml.core.gguf import key_types, metadata, spans
from bankml.core.gguf.file import FileBytes
from bankml.core.gguf.header import Buffer, Header, Truncated
from bankml.core.gguf.metadata import Shape
from bankml.core.gguf.parse import parse_header
from bankml.core.gguf.split import split_part
from bankml.core.gguf.types import type_name
from bankml.core.refusal import Refusal

PLAY, REFUSE, NEED_MORE = "play", "refuse", "need_more"


@dataclass
class Verdict:
    """What the guard says of a file, and why."""

    verdict: str
    engine: str
    reasons: list[Refusal] = field(default_factory=list)
    header: Header | None = None
    need_bytes: int | None = None
    size: int | None = None
    kv_f16_bytes_per_token: int | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 play, 2 refuse, 3 need more; 1 where the file could not be read."""
        return self.reasons[0].exit_code if self.reasons else 0

    @property
    def types(self) -> dict[str, int]:
        """Tensors of each type, ordered by type id."""
        counts: dict[int, int] = {}
        for tensor in self.header.tensors if self.header else ():
            counts[tensor.type_id] = counts.get(tensor.type_id, 0) + 1
        return {type_name(number): counts[number] for number in sorted(counts)}

    @property
    def trailing_bytes(self) -> int | None:
        """Bytes behind the last tensor; None where the file's size or its tensors' are not known."""
        if self.header is None or self.size is None:
            return None
        return max(0, self.size - spans.data_end(self.header))

    def refusal(self) -> Refusal:
        """All reasons as one Refusal: the first one's code and place, and the messages joined."""
        first = self.reasons[0]
        if len(self.reasons) == 1:
            return first
        return Refusal(
            first.code,
            "; ".join(reason.message for reason in self.reasons),
            where=first.where,
            found=first.found,
            allowed=first.allowed,
            hint=first.hint,
            exit_code=first.exit_code,
            extra={"reasons": [reason.as_dict() for reason in self.reasons]},
        )

    def as_dict(self) -> dict[str, Any]:
        """The report, as ``bankml guard --json`` prints it."""
        header = self.header
        report: dict[str, Any] = {
            "verdict": self.verdict,
            "engine": self.engine,
            "gguf_version": header.version if header else None,
            "arch": header.text("general.architecture") if header else None,
            "name": header.text("general.name") if header else None,
            "tensors": header.n_tensors if header else None,
            "types": self.types,
            "kv_f16_bytes_per_token": self.kv_f16_bytes_per_token,
            "reasons": [reason.message for reason in self.reasons],
            "refusals": [reason.as_dict() for reason in self.reasons],
            "notes": self.notes,
            "bytes": self.size,
            "trailing_bytes": self.trailing_bytes,
        }
        if self.need_bytes is not None:
            report["need_bytes"] = self.need_bytes
        return report


def judge_bytes(data: Buffer, engine: str = "mainline", size: int | None = None, name: str = "") -> Verdict:
    """The verdict on a file of ``size`` bytes (None: not known) that is called ``name`` and starts with ``data``.

    Never raises for what the bytes hold. A form that cannot be read stops at its first fault; a header that can
    be read gives every reason that stands against it.
    """
    engine = engine if engine == "prism" else "mainline"
    try:
        header = parse_header(data)
    except Truncated as more:
        return Verdict(NEED_MORE, engine, [more], need_bytes=more.need, size=size)
    except Refusal as refusal:
        return Verdict(REFUSE, engine, [refusal], size=size)
    shape = Shape(header, data)
    reasons = list(_reasons(header, shape, engine, size, name))
    kv = metadata.kv_bytes_per_token(shape)
    if any(reason.code == "gguf.kv-overflow" for reason in reasons):
        kv = None
    return Verdict(REFUSE if reasons else PLAY, engine, reasons, header, None, size, kv, list(_notes(header, size)))


def judge(path: Path | str, engine: str = "mainline") -> Verdict:
    """The verdict on a file; one that cannot be read is refused with exit code 1.

    Only the header is read, never tensor data.
    """
    engine = engine if engine == "prism" else "mainline"
    place = Path(path)
    try:
        data = FileBytes.open(place)
    except Refusal as refusal:
        return Verdict(REFUSE, engine, [refusal])
    try:
        return judge_bytes(data, engine, len(data), place.name)
    except Refusal as refusal:
        # It was cut short after its header was walked.
        return Verdict(REFUSE, engine, [refusal])
    finally:
        data.close()


def admit(data: FileBytes, engine: str, name: str) -> Header:
    """The header of an open file that plays.

    Raises:
        Refusal: every reason of the guard, as :meth:`Verdict.refusal` joins them.
    """
    verdict = judge_bytes(data, engine, len(data), name)
    if verdict.header is None or verdict.reasons:
        raise verdict.refusal()
    return verdict.header


def _reasons(header: Header, shape: Shape, engine: str, size: int | None, name: str) -> Iterator[Refusal]:
    yield from metadata.label_refusals(header, engine, name)
    yield from spans.type_refusals(header, engine)
    yield from metadata.shape_refusals(shape)
    yield from key_types.type_refusals(header)
    yield from metadata.vocabulary_refusals(header)
    yield from metadata.tensor_extra_refusals(header)
    yield from metadata.sampling_refusals(header)
    yield from spans.span_refusals(header, size)


def _notes(header: Header, size: int | None) -> Iterator[str]:
    part = split_part(header)
    if part is not None:
        yield f"{part}: the others are not judged with it"
    if not header.tensors:
        yield "no tensors: a vocabulary or metadata only"
    behind = max(0, size - spans.data_end(header)) if size is not None else 0
    if behind:
        yield f"{behind} trailing bytes behind the last tensor"
