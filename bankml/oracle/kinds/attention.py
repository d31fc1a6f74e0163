# SPDX-License-Identifier: MIT OR Apache-2.0
"""The three attention kernels over made-up queries, keys and values, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bankml.core.exact import stream
from bankml.oracle.kind import Tally
from bankml.oracle.options import NUMBER, ROWS, Option, Options, declared

if TYPE_CHECKING:
    from bankml.reference.build import Reference
    from bankml.reference.ggml import Ggml

Floats = npt.NDArray[np.float32]
Halves = npt.NDArray[np.float16]
Case = dict[str, Any]
"""``rows`` of queries whose first sits in cell ``position``; ``dim``, ``heads``, ``kv_heads``; ``threads`` of the reference;
``spread`` of the scores; ``seed``; then ``answer``, one digest for each row."""

PAD = 256
SHAPES = ((64, 9, 3), (128, 4, 2), (32, 4, 1), (96, 2, 2), (64, 3, 3))
"""Head width, query heads, key heads: SmolLM2's first."""
_SPREADS = ("plain", "rising", "wide", "equal")
_ONE_ROW = (1, 2, 3, 15, 16, 17, 31, 63, 64, 65, 100, 127, 128, 129, 200, 254, 255, 256)
_SPLIT = (257, 300, 384, 511, 512, 513, 600, 767, 768, 769, 1000, 1024, 1500)
_FEW = ((2, 0), (2, 511), (3, 17), (5, 300), (16, 0), (17, 100), (28, 0), (40, 473), (63, 0), (63, 700))
_MANY = ((64, 0), (64, 1), (65, 0), (65, 449), (70, 60), (128, 1000), (150, 0), (150, 37), (512, 0), (300, 513))


class Attention:
    """Kind ``attention``; ``seed`` names another stream, ``shapes`` lists others as SHAPES does."""

    name = "attention"
    checks = "attention of one row, of few and of many: the reference, the split-KV and the tiled kernel, by rows"
    against = "ggml_flash_attn_ext on ggml's CPU backend, at 1 to 4 threads"
    small = True
    options: Options = declared(seed=Option(NUMBER, 0), shapes=Option(ROWS, SHAPES))

    def record(self, model: Path | None, reference: Reference, options: dict[str, Any]) -> dict[str, Any]:
        """One graph for each case."""
        from bankml.reference.ggml import F16, Ggml

        ggml = Ggml(reference)
        found = []
        for case in cases(options["seed"], options["shapes"]):
            q, k, v = _inputs(case)
            shape = (padded(case), case["kv_heads"])
            rows = attend_there(ggml, q, (F16, k), (F16, v), shape, case["position"], case["threads"], scale_of(case))
            found.append({**case, "answer": stream.row_digests(rows)})
        return {"cases": found}

    def compare(self, body: dict[str, Any], model: Path | None) -> Tally:
        """bankml's kernel for each case; every row counts."""
        from bankml.core.exact import attention as ours

        tally = Tally()
        for case in body["cases"]:
            q, k, v = _inputs(case)
            out = ours.attend(q, k, v, case["position"], case["threads"], scale_of(case))
            for row, (mine, theirs) in enumerate(zip(stream.row_digests(out), case["answer"], strict=True)):
                where = f"{case['rows']} rows at {case['position']}, {case['heads']} heads of {case['dim']}"
                tally.count(mine == theirs, f"{where}, {case['threads']} threads, {case['spread']}: row {row}")
        return tally


def cases(seed: int, shapes: Sequence[Sequence[int]] = SHAPES) -> Iterator[Case]:
    """Lengths on both sides of every border; each with one of the shapes and spreads, the borders with several threads."""
    number = 0

    def case(rows: int, position: int, threads: int) -> Case:
        nonlocal number
        dim, heads, kv_heads = shapes[number % len(shapes)]
        number += 1
        return {
            "rows": rows, "position": position, "dim": dim, "heads": heads, "kv_heads": kv_heads, "threads": threads,
            "spread": _SPREADS[number // len(shapes) % len(_SPREADS)], "seed": seed * 10_000 + number,
        }  # fmt: skip

    for cells in _ONE_ROW:
        yield case(1, cells - 1, 3)
        yield case(1, cells - 1, 1)
    for cells in _SPLIT:
        for threads in (1, 2, 3, 4, 8):
            yield case(1, cells - 1, threads)
    for rows, position in _FEW:
        yield case(rows, position, 3)
        yield case(rows, position, 2)
    for rows, position in _MANY:
        yield case(rows, position, 2)


def scale_of(case: Case) -> float:
    """What llama.cpp multiplies the scores with, in float32 steps."""
    return float(np.float32(1) / np.sqrt(np.float32(case["dim"])))


def padded(case: Case) -> int:
    """Cells that the reference looks at."""
    cells: int = -(-(case["position"] + case["rows"]) // PAD) * PAD
    return cells


def _inputs(case: Case) -> tuple[Floats, Halves, Halves]:
    """Queries float32[rows, heads, dim]; keys and values half[kv_heads, padded cells, dim], the unused cells filled too."""
    rows, dim, heads, kv_heads, seed = (case[name] for name in ("rows", "dim", "heads", "kv_heads", "seed"))
    cells = padded(case)
    q = stream.plain(rows * heads * dim, 3 * seed).reshape(rows, heads, dim)
    k = stream.plain(kv_heads * cells * dim, 3 * seed + 1).reshape(kv_heads, cells, dim)
    v = stream.plain(kv_heads * cells * dim, 3 * seed + 2).reshape(kv_heads, cells, dim)
    if case["spread"] == "rising":
        # Scores that mostly grow along the cells: a new maximum at nearly every one.
        q = np.abs(q) + np.float32(0.5)
        k = k * np.float32(0.125) + (np.arange(cells, dtype=np.float32) / np.float32(64))[None, :, None]
    elif case["spread"] == "wide":
        # Weights from 1 down to 0, subnormal ones between.
        q, v = q * np.float32(8), v * np.float32(2.0**-10)
    elif case["spread"] == "equal":
        k = np.where(np.arange(cells)[None, :, None] % 2 == 0, k[:, :1], k)
    return np.ascontiguousarray(q, np.float32), k.astype(np.float16), v.astype(np.float16)


def attend_there(
    ggml: Ggml, q: Floats, keys: tuple[int, npt.NDArray[Any]], values: tuple[int, npt.NDArray[Any]], shape: tuple[int, int],
    position: int, threads: int, scale: float,
) -> Floats:  # fmt: skip
    """Attention of q[rows, heads, dim], the first row in the cell ``position``; float32[rows, heads * dim].

    Args:
        keys: type id, and [key heads, cells, dim] in that type.
        values: the same.
        shape: cells, key heads.
    """
    from bankml.reference.ggml import F16, F32

    rows, _, dim = q.shape
    at = np.arange(shape[0])[None, :]
    mask = np.where(at > position + np.arange(rows)[:, None], np.float16(-np.inf), np.float16(0)).astype(np.float16)

    def build(context: Any, tensors: list[int]) -> int:
        query, masked, k, v = tensors
        return int(ggml.call("ggml_flash_attn_ext", context, query, k, v, masked, scale, 0.0, 0.0))

    inputs: list[tuple[int, npt.NDArray[Any]]] = [(F32, np.ascontiguousarray(q.transpose(1, 0, 2))), (F16, mask)]
    stored = [(type_id, (dim, *shape), data) for type_id, data in (keys, values)]
    return ggml.compute(build, inputs, threads, stored).reshape(rows, -1)


KIND = Attention()
