# SPDX-License-Identifier: MIT OR Apache-2.0
"""How fast this machine's memory is read by the worker team: the floor under every decoded token."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bankml.core.bench.process import machine_facts
from bankml.core.bench.samples import Samples

# The model room says where compiled kernels live, so it comes before them.
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
        return {"read_bytes": self.read_bytes, "memory": rates_told(self.rates), "machine": self.machine}


def rates_told(rates: dict[int, Samples]) -> list[dict[str, Any]]:
    """Rates by threads, for ``--json``."""
    return [
        {"threads": count, **samples.as_dict("bytes_per_second"), "best_bytes_per_second": max(samples.values)}
        for count, samples in rates.items()
    ]


class Reader:
    """A buffer that a team reads from end to end, in chunks that its threads claim."""

    def __init__(self, team: Team, size: int) -> None:
        self._team, self._size = team, size // _PART * _PART
        self._source = Block(self._size)
        # Pages that nobody wrote are all the same one.
        self._source.bytes[:] = 0
        self._sink = Block(64 * team.threads)
        builder = ProgramBuilder()
        words = {stream.SOURCE: self._source.address, stream.PART: _PART, stream.SINK: self._sink.address}
        builder.op(stream.read, builder.block(stream.FIELDS, words), self._size // _PART)
        self._program: Program = builder.build()

    def rate(self) -> float:
        """Bytes a second of one pass."""
        start = time.perf_counter()
        self._team.execute(self._program.table)
        return self._size / (time.perf_counter() - start)


def memory_read(threads: int, passes: int = 5, size: int = READ_BYTES, pass_done: Callable[[], object] | None = None) -> Samples:
    """Bytes a second at which so many threads read a buffer of `size` bytes, after one pass that is not counted."""
    team = Team(threads)
    try:
        reader = Reader(team, size)
        reader.rate()
        rates = []
        for _ in range(passes):
            rates.append(reader.rate())
            if pass_done is not None:
                pass_done()
        team.release()
    finally:
        team.close()
    return Samples.of(rates)
