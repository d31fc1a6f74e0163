# SPDX-License-Identifier: MIT OR Apache-2.0
"""Matrix products of one weight type: ours and the reference's in one process, on the same weights, in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bankml.bench.memory import Reader, buffer_to_read
from bankml.bench.process import machine_facts
from bankml.bench.samples import Samples
from bankml.core.gguf.types import TYPE_IDS, TYPES
from bankml.core.model.matrices import COLUMN_PART, Matrix
from bankml.core.model.memory import Block
from bankml.core.model.program import Program, ProgramBuilder
from bankml.kernels.activations import rows
from bankml.kernels.compiler import isa
from bankml.kernels.products import matmul, weights
from bankml.kernels.team import Team
from bankml.refusal import EXIT_OTHER, Refusal

if TYPE_CHECKING:
    from bankml.reference.build import Reference
    from bankml.reference.ggml import Ggml, Product

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

ROWS, K = 12288, 4096
DECODE, PREFILL = 1, 32
_READ_BYTES = 160 << 20
"""Weights that one pass of decoding reads: more than the caches hold, so a narrow type's matrix is there several times."""
_MOST_COPIES = 1024
"""Of small matrices: a graph of ggml's holds 2,048 tensors, and aborts the process where it is given more."""
_DISTINCT_ROWS = 256
_LEAST_SECONDS = 0.15


@dataclass(frozen=True)
class Cell:
    """One type, one number of columns, one number of threads."""

    type: str
    columns: int
    threads: int
    blocks: int
    weight_bytes: int
    seconds: Samples
    """Of one product, one sample a round: the least of the round's passes."""
    their_seconds: Samples | None
    identical: bool | None
    """Whether every output had the reference's bits; None without a reference."""
    memory: Samples | None
    """Bytes a second that this number of threads reads in the same rounds; None for products that are not bound by it."""

    @property
    def ratio(self) -> Samples | None:
        """How many times faster than the reference."""
        return None if self.their_seconds is None else self.their_seconds.over(self.seconds)

    def rate(self, seconds: float) -> float:
        """Bytes of weights a second."""
        return self.weight_bytes / seconds

    @property
    def share(self) -> Samples | None:
        """The rate as a share of what memory gave in the same round."""
        if self.memory is None:
            return None
        return Samples.of([self.rate(seconds) for seconds in self.seconds.values]).over(self.memory)

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        members: dict[str, Any] = {
            "type": self.type,
            "columns": self.columns,
            "threads": self.threads,
            "weight_bytes": self.weight_bytes,
            **self._times("", self.seconds),
        }
        if self.memory is not None and self.share is not None:
            members |= {**self.memory.as_dict("memory_bytes_per_second"), **self.share.as_dict("share_of_memory")}
        if self.their_seconds is not None and self.ratio is not None:
            members |= {
                "identical": self.identical,
                **self._times("reference_", self.their_seconds),
                **self.ratio.as_dict("ratio"),
            }
        return members

    def nanoseconds(self, seconds: float) -> float:
        """Nanoseconds of one block of weights with one column."""
        return seconds * 1e9 / (self.blocks * self.columns)

    def _times(self, prefix: str, seconds: Samples) -> dict[str, Any]:
        least, median = min(seconds.values), seconds.median
        return {
            f"{prefix}seconds": list(seconds.values),
            f"{prefix}ns_per_block_min": self.nanoseconds(least),
            f"{prefix}ns_per_block_median": self.nanoseconds(median),
            f"{prefix}bytes_per_second": self.rate(least),
        }


@dataclass
class Report:
    """What was measured, and on what."""

    rows: int
    k: int
    weights: str
    rounds: int
    tier: str = isa.TIER
    reference: dict[str, Any] | None = None
    machine: dict[str, object] = field(default_factory=machine_facts)
    cells: list[Cell] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        members: dict[str, Any] = {
            "rows": self.rows,
            "k": self.k,
            "weights": self.weights,
            "rounds": self.rounds,
            "tier": self.tier,
            "cells": [cell.as_dict() for cell in self.cells],
            "machine": self.machine,
        }
        if self.reference is not None:
            members["reference"] = self.reference
        return members


def type_names() -> list[str]:
    """The types that have kernels."""
    return [TYPES[number].name for number in sorted(weights.TYPE_IDS)]


def measure_kernels(
    types: Sequence[str],
    threads: Sequence[int],
    rounds: int,
    reference: Reference | None = None,
    real: Callable[[int], Floats] | None = None,
    shape: tuple[int, int] = (ROWS, K),
    round_done: Callable[[], object] | None = None,
) -> Report:
    """Measure every type with one column and with 32, with each number of threads.

    Args:
        real: gives rows of K real weights, which the reference's own quantizer then brings into each type; without it, or
            without a reference, blocks come from a fixed stream.

    Raises:
        Refusal: an unknown type; a row that is not whole blocks; outputs that differ from the reference's (``bench.differs``):
            a speed of other bits is none.
    """
    unknown = [name for name in types if name not in type_names()]
    if unknown:
        raise Refusal("bench.type", "bankml has no kernel for this type", found=unknown[0], allowed=", ".join(type_names()))
    rows_, k = shape
    for name in types:
        block = TYPES[TYPE_IDS[name]].block
        if k % block:
            raise Refusal(
                "bench.columns", f"a row of {name} is whole blocks", found=f"{k} weights", allowed=f"a multiple of {block}"
            )
    source = "real, by the reference's quantizer" if real is not None and reference is not None else "a fixed stream"
    report = Report(rows_, k, source, rounds, reference=reference.facts() if reference is not None else None)
    ggml = None
    if reference is not None:
        from bankml.reference.ggml import Ggml

        ggml = Ggml(reference)
    values = real(_DISTINCT_ROWS) if real is not None and ggml is not None else None
    memory = buffer_to_read()
    with ExitStack() as held:
        readers = {count: held.enter_context(Reader(count, memory)) for count in threads}
        for name in types:
            data = _weights(name, rows_, k, values, ggml)
            for count in threads:
                for columns in (DECODE, PREFILL):
                    floor = readers[count] if columns == DECODE else None
                    report.cells.append(_measure(name, data, shape, columns, count, rounds, ggml, floor))
                    if round_done is not None:
                        round_done()
    return report


def _measure(
    name: str,
    data: Bytes,
    shape: tuple[int, int],
    columns: int,
    threads: int,
    rounds: int,
    ggml: Ggml | None,
    floor: Reader | None,
) -> Cell:
    copies = min(max(1, _READ_BYTES // len(data)), _MOST_COPIES) if columns == DECODE else 1
    x = np.random.default_rng(0).standard_normal((columns, shape[1]), np.float32)
    with ExitStack() as held:
        ours = held.enter_context(Ours(name, data, shape, x, copies, threads))
        theirs: Product | None = None
        identical = None
        if ggml is not None:
            theirs = held.enter_context(ggml.products(TYPE_IDS[name], data, shape, x, copies, threads))
            theirs.run()
            ours.run()
            identical = bool(np.array_equal(ours.result().view(np.uint32), theirs.result().view(np.uint32)))
            if not identical:
                raise Refusal(
                    "bench.differs",
                    f"{name} with {columns} columns does not give the reference's bits",
                    hint="bankml oracle compare kernels",
                    exit_code=EXIT_OTHER,
                )
        sides = {"ours": ours.run}
        if theirs is not None:
            sides["theirs"] = theirs.run
        if floor is not None:
            sides["floor"] = floor.run
        seconds = _in_turn(sides, rounds)
    kind = TYPES[TYPE_IDS[name]]
    return Cell(
        name,
        columns,
        threads,
        shape[0] * shape[1] // kind.block,
        len(data),
        seconds["ours"].scaled(1 / copies),
        seconds["theirs"].scaled(1 / copies) if theirs is not None else None,
        identical,
        Samples.of([floor.size / each for each in seconds["floor"].values]) if floor is not None else None,
    )


def _in_turn(sides: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Samples]:
    """Seconds of the fastest pass of each round, by side; their order changes from round to round."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    for run in sides.values():
        run()
    for number in range(rounds):
        for name in sides if number % 2 == 0 else reversed(list(sides)):
            found[name].append(_fastest(sides[name]))
    return {name: Samples.of(seconds) for name, seconds in found.items()}


def _fastest(run: Callable[[], object]) -> float:
    """Seconds of the fastest pass: at least two, and as many as fit into the least time."""
    best = total = 0.0
    passes = 0
    while passes < 2 or total < _LEAST_SECONDS:
        start = time.perf_counter()
        run()
        seconds = time.perf_counter() - start
        best = seconds if passes == 0 else min(best, seconds)
        total += seconds
        passes += 1
    return best


class Ours:
    """Copies of a matrix, and the program that multiplies each by the same activation rows as a model's graph does."""

    def __init__(self, name: str, data: Bytes, shape: tuple[int, int], x: Floats, copies: int, threads: int) -> None:
        kind = weights.weight_type(TYPE_IDS[name], shape[0])
        self._shape, self._n = shape, len(x)
        self._keep: list[object] = [x, data]
        self._team = Team(threads)
        self._width = matmul.padded(shape[0])
        self._out = Block(4 * len(x) * self._width)
        formed = rows.formed_bytes(kind.form, shape[1])
        self._formed = Block(max(threads, len(x)) * (formed + 128))
        to = ProgramBuilder()
        for number in range(copies):
            matrix = Matrix(kind, shape[0], shape[1], int(data.ctypes.data))
            if kind.packed:
                packed = Block(matrix.groups * matrix.blocks * kind.packed)
                assert kind.pack is not None
                kind.pack(matrix.address, packed.address, shape[0], matrix.blocks, 0, matrix.groups)
                matrix.address = packed.address
                self._keep.append(packed)
            elif number:
                copy = Block(len(data))
                copy.bytes[:] = data
                matrix.address = copy.address
                self._keep.append(copy)
            self._add(to, matrix, x, number)
        self._program: Program = to.build()

    def __enter__(self) -> Ours:
        return self

    def __exit__(self, *_: object) -> None:
        self._team.release()
        self._team.close()

    def _add(self, to: ProgramBuilder, matrix: Matrix, x: Floats, number: int) -> None:
        kind, stride = matrix.kind, rows.formed_bytes(matrix.kind.form, matrix.k)
        apart = (stride + 127) // 128 * 128
        words = {
            rows.X: int(x.ctypes.data), rows.X_STRIDE: matrix.k, rows.K: matrix.k, rows.FORM: kind.form,
            rows.MINUS_OFFSET: kind.minus_offset, rows.TO: self._formed.address, rows.ROWS: len(x),
        }  # fmt: skip
        product = {
            matmul.WEIGHTS: matrix.address, matmul.GROUPS: matrix.groups, matmul.BLOCKS: matrix.blocks,
            matmul.OUT: self._out.address, matmul.OUT_STRIDE: self._width, matmul.ROWS: matrix.rows, matmul.K: matrix.k,
            matmul.TYPE: kind.id, matmul.Y: self._formed.address,
        }  # fmt: skip
        to.stage()
        if len(x) == 1:
            form = to.block(rows.FIELDS, words | {rows.TO_THREAD_STRIDE: apart, rows.ROW_PART: 1})
            parts = matrix.row_parts(self._team.threads)
            block = to.block(matmul.FIELDS, product | {matmul.Y_STRIDE: apart, matmul.ROW_PARTS: parts})
            to.op(kind.gemv, block, parts, prologue=(rows.form_rows, form, (number,)))
            return
        to.op(rows.form_rows, to.block(rows.FIELDS, words | {rows.TO_STRIDE: stride, rows.ROW_PART: 4}), -(-len(x) // 4))
        to.stage()
        parts = matrix.prompt_parts(self._team.threads)
        values = {matmul.Y_STRIDE: stride, matmul.ROW_PARTS: parts, matmul.COLUMNS: len(x), matmul.COLUMN_PART: COLUMN_PART}
        to.op(kind.gemm, to.block(matmul.FIELDS, product | values), parts * -(-len(x) // COLUMN_PART))

    def run(self) -> None:
        """One pass over all copies."""
        self._team.execute(self._program.table)

    def result(self) -> Floats:
        """The last pass's outputs, float32[columns, rows]."""
        return self._out.floats((self._n, self._width))[:, : self._shape[0]]


def _weights(name: str, rows_: int, k: int, values: Floats | None, ggml: Ggml | None) -> Bytes:
    """Rows x k weights in a type: some rows, again and again, for what a product costs does not depend on them."""
    some = min(_DISTINCT_ROWS, rows_)
    if values is None or ggml is None:
        from bankml.core.exact import stream

        part = stream.weights(name, some, k, 0, edges=False)
    else:
        part = ggml.quantized_rows(TYPE_IDS[name], values[:some, :k])
    whole: Bytes = np.ascontiguousarray(np.tile(part.reshape(some, -1), (-(-rows_ // some), 1))[:rows_]).reshape(-1)
    return whole


def real_rows(path: Any, k: int = K) -> Callable[[int], Floats]:
    """Rows of `k` real weights: the embedding of a model, row after row in one line, cut anew."""

    def rows_of(count: int) -> Floats:
        from bankml.core.exact import products
        from bankml.core.gguf.reader import GgufFile

        with GgufFile.open(path) as gguf:
            tensor = gguf.tensors["token_embd.weight"]
            width, there = tensor.dims[0], tensor.dims[1]
            wanted = min(there, -(-count * k // width))
            held = products.Held(tensor.type_id, gguf.data(tensor.name), there, width)
            flat = held.dequantized(0, wanted).reshape(-1)
        return np.resize(flat, (count, k))

    return rows_of


def by_type(cells: Sequence[Cell]) -> Iterator[tuple[str, dict[tuple[int, int], Cell]]]:
    """(type, {(threads, columns): cell}) in the order measured."""
    found: dict[str, dict[tuple[int, int], Cell]] = {}
    for cell in cells:
        found.setdefault(cell.type, {})[cell.threads, cell.columns] = cell
    yield from found.items()
