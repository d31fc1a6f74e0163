# SPDX-License-Identifier: MIT OR Apache-2.0
"""Split models: which part of one a file is."""

from __future__ import annotations

from bankml.core.gguf.header import Header
from bankml.core.refusal import Refusal


def split_part(header: Header) -> str | None:
    """Which part of a split model the file is, in words; None where it is a whole model.

    Source: the constructor of llama_model_loader, src/llama-model-loader.cpp.
    """
    count, number = header.integer("split.count"), header.integer("split.no")
    if count is None or count < 2:
        return None
    return f"one of {count} files of a split model" if number is None else f"part {number + 1} of {count} of a split model"


def split_refusal(header: Header) -> Refusal | None:
    """Why a part of a split model does not play; None where the file is a whole model."""
    part = split_part(header)
    if part is None:
        return None
    count, number = header.integer("split.count"), header.integer("split.no")
    others = "the merged file is wanted" if number == 0 else "the first file or the merged one is wanted"
    return Refusal(
        "model.split",
        f"this is {part}: bankml does not play split models yet, {others}",
        where="key split.count",
        found=f"split.no {number}, split.count {count}",
        allowed="split.count 0 or 1",
        hint="merge the parts with llama-gguf-split --merge FIRST MERGED",
    )
