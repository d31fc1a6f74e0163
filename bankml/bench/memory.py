# SPDX-License-Identifier: MIT OR Apache-2.0
"""How fast this machine's memory is read by the worker team: the floor under every decoded token."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from bankml.bench.process import machine_facts
from bankml.bench.samples import Samples
from bankml.core.model.memory import Block
from bankml.core.model.program import Program, ProgramBuilder
from bankml.kernels import stream
from bankml.kernels.team import Team

READ_BYTES = 768 << 20
"""Far more than any cache holds."""
_PART = 1 << 20


@dataclass(frozen=True)
class Memory:
    """Bytes a second at which a number of threads reads memory, one sample a pass."""

    read_bytes: int
    rates: dict[int, Samples]
    machine: dict[str, object] = field(default_factory=machine_facts)

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        rates = [
            {"threads": count, **samples.as_dict("bytes_per_second"), "best_bytes_per_second": max(samples.values)}
            for count, samples in self.rates.items()
        ]
        return {"read_bytes": self.read_bytes, "memory": rates, "machine": self.machine}


def buffer_to_read(size: int = READ_BYTES) -> Block:
    """A buffer for readers, which may share it."""
    source = Block(size // _PART * _PART)
    # Pages that nobody wrote are all the same one.
    source.bytes[:] = 0
    return source


class Reader:
    """A team that reads a buffer from end to end, in chunks that its threads claim."""

    def __init__(self, threads: int, source: Block) -> None:
        self._team, self._source = Team(threads), source
        self.size = len(source.bytes)
        self._sink = Block(64 * self._team.threads)
        builder = ProgramBuilder()
        words = {stream.SOURCE: source.address, stream.PART: _PART, stream.SINK: self._sink.address}
        builder.op(stream.read, builder.block(stream.FIELDS, words), self.size // _PART)
        self._program: Program = builder.build()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._team.release()
        self._team.close()

    def run(self) -> None:
        """One pass."""
        self._team.execute(self._program.table)

    def rate(self) -> float:
        """Bytes a second of one pass."""
        start = time.perf_counter()
        self.run()
        return self.size / (time.perf_counter() - start)


def memory_read(threads: int, passes: int = 5, size: int = READ_BYTES, pass_done: Callable[[], object] | None = None) -> Samples:
    """Bytes a second at which these threads read a buffer of `size` bytes, after one pass that is not counted."""
    with Reader(threads, buffer_to_read(size)) as reader:
        reader.run()
        rates = []
        for _ in range(passes):
            rates.append(reader.rate())
            if pass_done is not None:
                pass_done()
    return Samples.of(rates)
