# SPDX-License-Identifier: MIT OR Apache-2.0
"""The worker team: every chunk runs once, whatever late workers still walk."""

import numpy as np
import pytest

from bankml.kernels import team
from bankml.kernels.compiler.native import kernel
from bankml.kernels.compiler.simd import atomic_add

pytestmark = pytest.mark.long

OPS = 40
MOST_CHUNKS = 30
RUNS = 3000


@kernel
def _count(args, chunk, thread):
    """Count the chunk."""
    atomic_add(args + 8 * chunk, 1)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_chunk_runs_once_while_the_table_changes_between_runs(threads):
    # More threads than processors: some are always late, and walk the table while it is fitted to the next run.
    counts = np.zeros(MOST_CHUNKS, np.int64)
    program = np.array([[_count.address, counts.ctypes.data, 1, max(i - 1, 0), i, 0, 0, 0] for i in range(OPS)], np.int64)
    stream = np.random.default_rng(threads)
    workers = team.Team(threads)
    try:
        for _ in range(RUNS):
            program[:, team.CHUNKS] = stream.integers(1, MOST_CHUNKS, OPS)
            counts[:] = 0
            workers.execute(program)

            assert counts.tolist() == [int((program[:, team.CHUNKS] > chunk).sum()) for chunk in range(MOST_CHUNKS)]
    finally:
        workers.release()
        workers.close()
