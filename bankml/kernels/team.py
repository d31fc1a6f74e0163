# SPDX-License-Identifier: MIT OR Apache-2.0
"""The worker team: threads that run one program together, claiming chunks of each operation.

A *program* is a table of operations in memory. Every thread walks the same table; of each operation it claims chunks until none
is left, then goes on. An operation starts when the operations it depends on are complete, which is a count, not a barrier: a
thread that was descheduled delays others only by the one chunk it holds. An operation may have a *prologue* (small work whose
result each thread keeps in its own scratch, such as quantizing one row), run by a thread when it first claims a chunk there.

Bits do not depend on the number of threads: a chunk writes its own outputs and no two chunks share a sum.
"""

from __future__ import annotations

import atexit
import threading

import numpy as np

from bankml.kernels.compiler.native import compiled, entry
from bankml.kernels.compiler.simd import atomic_add, atomic_cas, atomic_load, atomic_store, call_kernel, ld_i64, pause, syscall6

# One operation: kernel, its arguments, chunks, first and past-last operation it waits for, prologue, its arguments, its key.
OP_FIELDS = 8
KERNEL, ARGS, CHUNKS, AFTER_FIRST, AFTER_END, PROLOGUE, PROLOGUE_ARGS, PROLOGUE_KEY = range(OP_FIELDS)
# Words of an operation, each tagged with the run's number: chunks claimed, chunks there are, and a cache line on, chunks done. A
# worker takes the number of chunks from here and not from the table, which the caller may already fit to the next run while a
# worker that was late still walks it: all claims of its own run are taken, so it can do nothing but leave.
_COUNTERS = 16
MAX_OPS = 1 << 14

# The team's own words, a cache line apart: run number (negative: leave), program, operations of the program, workers inside one.
_SYS_FUTEX, _SYS_YIELD = 202, 24
_FUTEX_WAIT, _FUTEX_WAKE = 128, 129
_SPINS = 2000


@compiled("void(intp, intp, intp, intp, intp)")
def _work(program, n_ops, counters, run, thread):
    """Walk the program once, as one of its threads; returns when nothing is left to claim or a later run has begun."""
    awaited = 0
    key = -1
    for op in range(n_ops):
        row = program + op * 64
        end = ld_i64(row, AFTER_END)
        if end > awaited:
            for j in range(max(ld_i64(row, AFTER_FIRST), awaited), end):
                done = counters + (j * 16 + 8) * 8
                want = atomic_load(counters + j * 128 + 8)
                if (want >> 20) != run:
                    return
                spins = 0
                while True:
                    have = atomic_load(done)
                    if have == want:
                        break
                    if (have >> 20) != run:
                        return
                    spins += 1
                    if spins > _SPINS:
                        syscall6(_SYS_YIELD, 0, 0, 0, 0, 0)
                    else:
                        pause(0)
            awaited = end
        claim = counters + op * 128
        limit = atomic_load(claim + 8)
        if (limit >> 20) != run:
            return
        chunks = limit & 0xFFFFF
        while True:
            have = atomic_load(claim)
            if (have >> 20) != run:
                return
            chunk = have & 0xFFFFF
            if chunk >= chunks:
                break
            if atomic_cas(claim, have, have + 1) == 0:
                continue
            prologue = ld_i64(row, PROLOGUE)
            if prologue != 0 and ld_i64(row, PROLOGUE_KEY) != key:
                key = ld_i64(row, PROLOGUE_KEY)
                call_kernel(prologue, ld_i64(row, PROLOGUE_ARGS), 0, thread)
            call_kernel(ld_i64(row, KERNEL), ld_i64(row, ARGS), chunk, thread)
            atomic_add(claim + 64, 1)


@entry("void(intp, intp, intp)")
def _member(team, counters, thread):
    """A worker's life: sleep until a run is posted, take part in it, again; ends when the run number is negative."""
    seen = 0
    while True:
        run = atomic_load(team)
        spins = 0
        while run == seen:
            spins += 1
            if spins > 4000:
                syscall6(_SYS_FUTEX, team, _FUTEX_WAIT, run & 0xFFFFFFFF, 0, 0)
            else:
                pause(0)
            run = atomic_load(team)
        if run < 0:
            return
        seen = run
        atomic_add(team + 192, 1)
        program = atomic_load(team + 64)
        n_ops = atomic_load(team + 128)
        if atomic_load(team) == run:
            _work(program, n_ops, counters, run, thread)
        atomic_add(team + 192, -1)


@entry("void(intp, intp, intp, intp, intp)")
def _execute(team, counters, run, program, n_ops):
    """Post a run, take part in it as thread 0, return when all of it is done."""
    for op in range(n_ops):
        atomic_store(counters + op * 128 + 8, (run << 20) | ld_i64(program + op * 64, 2))
        atomic_store(counters + op * 128 + 64, run << 20)
        atomic_store(counters + op * 128, run << 20)
    atomic_store(team + 64, program)
    atomic_store(team + 128, n_ops)
    atomic_store(team, run)
    syscall6(_SYS_FUTEX, team, _FUTEX_WAKE, 1 << 20, 0, 0)
    _work(program, n_ops, counters, run, 0)
    for op in range(n_ops):
        want = (run << 20) | ld_i64(program + op * 64, 2)
        spins = 0
        while atomic_load(counters + op * 128 + 64) != want:
            spins += 1
            if spins > _SPINS:
                syscall6(_SYS_YIELD, 0, 0, 0, 0, 0)
            else:
                pause(0)


@entry("void(intp)")
def _settle(team):
    """Wait until no worker is inside a program; one that comes late finds the run gone."""
    while atomic_add(team + 192, 0) != 0:
        syscall6(_SYS_YIELD, 0, 0, 0, 0, 0)


@entry("void(intp, intp)")
def _dismiss(team, counters):
    """Tell every worker to leave."""
    atomic_store(team, -1)
    syscall6(_SYS_FUTEX, team, _FUTEX_WAKE, 1 << 20, 0, 0)


def aligned(n_bytes: int) -> np.ndarray:
    """Zeroed bytes whose address is a multiple of 64."""
    raw = np.zeros(n_bytes + 64, dtype=np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + n_bytes]


class Team:
    """`threads` threads, the caller's among them, that run programs one at a time.

    A program is an int64 array of shape (operations, OP_FIELDS); it and all it points at must live until `release` or `close`.
    """

    def __init__(self, threads: int):
        self.threads = max(1, threads)
        self._words = aligned(4 * 64).view(np.int64)
        self._counters = aligned(MAX_OPS * _COUNTERS * 8).view(np.int64)
        self._run = 0
        self._members = [
            threading.Thread(target=_member, args=(*self._addresses(), i), daemon=True, name=f"bankml-{i}")
            for i in range(1, self.threads)
        ]
        for member in self._members:
            member.start()
        atexit.register(self.close)

    def _addresses(self) -> tuple[int, int]:
        return self._words.ctypes.data, self._counters.ctypes.data

    def execute(self, program: np.ndarray) -> None:
        """Run the program to its end. Not reentrant."""
        self._run += 1
        _execute(*self._addresses(), self._run, program.ctypes.data, len(program))

    def release(self) -> None:
        """Return when no worker reads any program any more, so that the last one may be freed.

        A run is over when its chunks are done; a worker that was late may still be walking the table then.
        """
        self._run += 1
        _execute(*self._addresses(), self._run, self._addresses()[0], 0)
        _settle(self._addresses()[0])

    def close(self) -> None:
        """Dismiss the workers and wait for them. Safe to call twice."""
        if self._members:
            _dismiss(*self._addresses())
            for member in self._members:
                member.join()
            self._members = []
        atexit.unregister(self.close)
