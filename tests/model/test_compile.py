# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compiling in other processes: they end with the one that asks, and a store that keeps nothing costs them no second time."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from bankml.core.model import compile as compiling
from bankml.kernels.compiler import store

pytestmark = pytest.mark.long


@pytest.fixture
def empty_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BANKML_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(store, "_unkept", {})
    for cached in (store.folder, store.distrust):
        cached.cache_clear()
    yield tmp_path / "home"
    for cached in (store.folder, store.distrust):
        cached.cache_clear()


def test_a_worker_ends_with_its_input_in_the_middle_of_its_work():
    worker = subprocess.Popen(
        [sys.executable, "-m", "bankml.kernels.compiler.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = worker.communicate(b"attention.rows\nsampling.samplers\nattention.rope\n")
    assert (worker.returncode, out, err) == (0, b"", b"")


def test_whoever_is_interrupted_leaves_no_compiler_behind(empty_store):
    def interrupt(what: str, done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compiling._compile(["attention_rows", "sampling"], interrupt)
    assert [thread for thread in threading.enumerate() if thread.name == "bankml-compile"] == []
    assert [child for child in psutil.Process().children() if "bankml.kernels.compiler.worker" in child.cmdline()] == []


def test_what_cannot_be_kept_is_compiled_once(empty_store, monkeypatch):
    empty_store.write_text("a file where the home should be")
    compiling._compile(["team", "bpe"], None)
    assert store.has("team")
    assert store.has("bpe")
    monkeypatch.setattr("bankml.kernels.compiler.native.compile_object", lambda _: pytest.fail("compiled again"))
    assert store.read("team") is not None


CHECK = """
from bankml.core.exact import require
print(require())
"""


def test_a_home_that_cannot_be_written_costs_only_time(tmp_path: Path):
    (tmp_path / "home").write_text("a file where the home should be")
    environment = os.environ | {"BANKML_HOME": str(tmp_path / "home")}
    done = subprocess.run([sys.executable, "-c", CHECK], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "None\n"), done.stderr
    (warning,) = done.stderr.splitlines()
    assert warning.startswith("bankml: compiled kernels cannot be kept, so each start compiles them again: ")
    assert str(tmp_path / "home") in warning
    assert "BANKML_HOME" in warning
