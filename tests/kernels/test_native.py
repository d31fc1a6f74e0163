# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compiled functions: kept in a store, linked without the compiler, called with what they declare and nothing else."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bankml.kernels.compiler import native, store, types
from bankml.kernels.compiler.native import compiled, entry
from bankml.kernels.compiler.simd import stack_array

pytestmark = pytest.mark.long

_three = stack_array(3)


@compiled
def _twice(x):
    return x + x


@entry(types.float32(types.float32[::1], types.int64))
def add_up(values, times):
    total = np.float32(0)
    for _ in range(times):
        for i in range(values.size):
            total += _twice(values[i])
    return total


@entry(types.Tuple((types.int64, types.float32, types.int64))(types.int32[:, ::1], types.float64))
def several(table, x):
    room = _three(0)
    for i in range(table.shape[0]):
        room[i] += table[i, 1]
    return room[0], np.float32(x), room[2]


@compiled(types.int64(types.int64))
def allocates(n):
    return np.zeros(n, np.int64).size


@compiled(types.float64(types.float64))
def calls(x):
    return math.sqrt(x)


def run(code: str, home: Path) -> str:
    environment = os.environ | {"BANKML_HOME": str(home)}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True).stdout


def test_numbers_and_arrays_go_in_and_numbers_and_tuples_come_out() -> None:
    assert add_up(np.array([1, 2.5], np.float32), np.int64(2)) == 14
    assert _twice(4) == 8
    table = np.arange(6, dtype=np.int32).reshape(3, 2)
    assert several(table, 0.1) == (1, np.float32(0.1), 5)


@pytest.mark.parametrize(
    "wrong",
    [np.zeros(2), np.zeros(4, np.float32)[::2], np.zeros((1, 2), np.float32), [1.0], None],
    ids=["type", "stride", "dimensions", "list", "none"],
)
def test_what_is_no_such_array_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match=r"add_up: argument 0 must be a contiguous array"):
        add_up(wrong, 1)


def test_a_function_that_would_allocate_is_not_compiled() -> None:
    with pytest.raises(Exception, match=r"No implementation of function Function\(<built-in function zeros>\)"):
        native.compile_object([allocates])


def test_a_function_that_calls_mathematics_of_the_c_library_is_not_compiled() -> None:
    with pytest.raises(RuntimeError, match=r"compiled code of tests\.kernels\.test_native calls sqrt"):
        native.compile_object([calls])


def test_the_store_gives_back_what_was_written_and_nothing_damaged() -> None:
    file = store.folder() / "test_native.kept.o"
    try:
        store.write("test_native.kept", b"code")
        assert store.has("test_native.kept")
        assert store.read("test_native.kept") == b"code"
        file.write_bytes(file.read_bytes()[:-1])
        assert store.read("test_native.kept") is None
    finally:
        file.unlink(missing_ok=True)
    assert store.read("test_native.kept") is None
    assert not list(store.folder().glob(".*"))


def test_what_is_compiled_is_linked_without_the_compiler(tmp_path: Path) -> None:
    code = """
import sys
from bankml.kernels.compiler import native
team = native.module_named("team")
workers = team.Team(2)
workers.close()
print("numba" in sys.modules)
"""
    assert (run(code, tmp_path), run(code, tmp_path)) == ("True\n", "False\n")
    (file,) = (tmp_path / "cache" / "kernels").glob("*/team.o")
    file.write_bytes(file.read_bytes()[:1000])
    assert (run(code, tmp_path), run(code, tmp_path)) == ("True\n", "False\n")


def test_a_store_that_cannot_be_written_costs_only_time(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "kernels").write_text("a file where the folder should be")
    code = """
from bankml.kernels.compiler import native
print(native.module_named("attention.rope").logf_of(1.0))
"""
    assert run(code, tmp_path) == "0.0\n"
