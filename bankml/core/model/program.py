# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes a program: the table of operations and argument blocks that the worker team runs in one native call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bankml.kernels import team


class Program:
    """A finished table. ``set(rows, position)`` fits it to a micro-batch; then ``team.execute(table)``."""

    def __init__(self, builder: ProgramBuilder) -> None:
        self._args = np.array([word for block in builder.blocks for word in block], np.int64)
        base = int(self._args.ctypes.data)
        table = np.array(builder.ops, np.int64).reshape(-1, team.OP_FIELDS)
        for field in (team.ARGS, team.PROLOGUE_ARGS):
            used = table[:, field] >= 0
            table[used, field] = base + 8 * table[used, field]
            table[~used, field] = 0
        self.table: npt.NDArray[np.int64] = table
        self._rows = np.array(builder.rows_words, np.int64)
        self._positions = np.array(builder.position_words, np.int64)
        self._spans = np.array(builder.span_words, np.int64)
        self._last = np.array(builder.last_row_words, np.int64).reshape(-1, 3)
        chunked = np.array(builder.chunk_rules, np.int64).reshape(-1, 3)
        self._chunk_ops, self._chunk_part, self._chunk_times = chunked[:, 0], chunked[:, 1], chunked[:, 2]

    def set(self, rows: int, position: int, span: int) -> None:
        """Fit the table to `rows` rows whose first sits in cell `position`; `span` is split-KV's cells per span."""
        self._args[self._rows] = rows
        self._args[self._positions] = position
        self._args[self._spans] = span
        if len(self._last):
            self._args[self._last[:, 0]] = self._last[:, 1] + (rows - 1) * self._last[:, 2]
        self.table[self._chunk_ops, team.CHUNKS] = -(-rows // self._chunk_part) * self._chunk_times


class ProgramBuilder:
    """Collects operations in stages: an operation waits for all of the stage before its own."""

    def __init__(self) -> None:
        self.blocks: list[list[int]] = []
        self.ops: list[list[int]] = []
        self.rows_words: list[int] = []
        self.position_words: list[int] = []
        self.span_words: list[int] = []
        self.last_row_words: list[tuple[int, int, int]] = []
        self.chunk_rules: list[tuple[int, int, int]] = []
        self._words = 0
        self._stage: tuple[int, int] = (0, 0)
        self._keys: dict[tuple[int, ...], int] = {}

    def block(self, fields: int, values: dict[int, int]) -> int:
        """Add an argument block; returns its first word's index."""
        words = [0] * fields
        for field, value in values.items():
            words[field] = int(value)
        self.blocks.append(words)
        self._words += fields
        return self._words - fields

    def follow_rows(self, word: int) -> None:
        """`word` holds the number of rows of the micro-batch."""
        self.rows_words.append(word)

    def follow_position(self, word: int) -> None:
        """`word` holds the cell of the micro-batch's first row."""
        self.position_words.append(word)

    def follow_span(self, word: int) -> None:
        """`word` holds split-KV's cells per span."""
        self.span_words.append(word)

    def follow_last_row(self, word: int, base: int, stride: int) -> None:
        """`word` holds the address of the micro-batch's last row in rows of `stride` bytes at `base`."""
        self.last_row_words.append((word, base, stride))

    def stage(self) -> None:
        """What follows waits for what came since the last call."""
        if len(self.ops) > self._stage[1]:
            self._stage = (self._stage[1], len(self.ops))

    def op(
        self,
        kernel: Any,
        args: int,
        chunks: int = 1,
        *,
        per_rows: tuple[int, int] | None = None,
        prologue: tuple[Any, int, Sequence[int]] | None = None,
    ) -> None:
        """Add an operation.

        `per_rows` = (part, times): there are ceil(rows / part) * times chunks. `prologue` = (kernel, args, key): run by each
        thread before its first chunk unless its last prologue had the same key.
        """
        row = [kernel.address, args, chunks, *self._stage, 0, -1, 0]
        if prologue is not None:
            function, block, key = prologue
            number = self._keys.setdefault(tuple(key), len(self._keys) + 1)
            row[team.PROLOGUE : team.PROLOGUE_KEY + 1] = [function.address, block, number]
        if per_rows is not None:
            self.chunk_rules.append((len(self.ops), *per_rows))
        self.ops.append(row)

    def build(self) -> Program:
        """The finished program."""
        return Program(self)
