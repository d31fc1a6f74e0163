# SPDX-License-Identifier: MIT OR Apache-2.0
"""Folders of compiled kernels: the old ones go, those in use or used lately stay."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from bankml.kernels.compiler import folders

HOLD = """
import sys
from pathlib import Path
from bankml.kernels.compiler.folders import hold
hold(Path(sys.argv[1]))
print(flush=True)
input()
"""
OLD = time.time() - folders.KEEP_SECONDS - 3600


def made(folder: Path, *, age: bool, lock: bool) -> Path:
    inner = folder / "kernels_0123"
    inner.mkdir(parents=True)
    (inner / "team.run-1.nbi").write_bytes(b"x")
    if lock:
        (folder / "in-use").touch()
    if age:
        for each in (*folder.rglob("*"), folder):
            os.utime(each, (OLD, OLD))
    return folder


def test_only_what_nothing_used_for_long_is_removed(tmp_path: Path) -> None:
    own = made(tmp_path / ("a" * 16 + "-host"), age=True, lock=True)
    old = made(tmp_path / ("b" * 16 + "-host"), age=True, lock=True)
    older_than_locks = made(tmp_path / ("c" * 16 + "-avx2"), age=True, lock=False)
    fresh = made(tmp_path / ("d" * 16 + "-host"), age=False, lock=True)
    fresh_without_lock = made(tmp_path / ("e" * 16 + "-host"), age=False, lock=False)
    foreign = made(tmp_path / "something-else", age=True, lock=False)
    used = made(tmp_path / ("f" * 16 + "-host"), age=True, lock=True)
    with subprocess.Popen([sys.executable, "-c", HOLD, str(used)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        os.utime(used / "in-use", (OLD, OLD))
        assert folders.sweep(own) == [old, older_than_locks]
        assert sorted(tmp_path.iterdir()) == sorted([own, fresh, fresh_without_lock, foreign, used])
        other.communicate(b"\n")
    assert folders.sweep(own) == [used]


def test_holding_a_folder_marks_its_use_and_comes_once(tmp_path: Path) -> None:
    folder = made(tmp_path / ("a" * 16 + "-host"), age=True, lock=True)
    assert folders.hold(folder)
    assert not folders.hold(folder)
    assert folders.sweep(tmp_path / ("b" * 16 + "-host")) == []
    assert folder.exists()


def test_a_folder_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert not folders.hold(tmp_path / "file" / ("a" * 16 + "-host"))
