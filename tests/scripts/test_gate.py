# SPDX-License-Identifier: MIT OR Apache-2.0
"""The release gate: what passes, what fails, what is skipped."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def gate(tmp_path):
    """Runs some stages of the gate with a ``bankml`` of the test's own, without a reference."""

    def run(stages, bankml):
        folder = tmp_path / "bin"
        folder.mkdir()
        for name, script in (("python", f'exec "{sys.executable}" "$@"'), ("bankml", bankml)):
            (folder / name).write_text(f"#!/bin/sh\n{script}\n")
            (folder / name).chmod(0o755)
        variables = {
            "BIN": folder,
            "REFERENCE": tmp_path / "none",
            "FASTEST": tmp_path / "none",
            "WORK": tmp_path,
            "STAGES": stages,
        }
        environment = os.environ | {name: str(value) for name, value in variables.items()}
        done = subprocess.run(["testing/release_gate.sh"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert (tmp_path / "partial.txt").read_text() == done.stdout
        return done

    return run


def test_a_passed_stage_shows_its_last_line(gate):
    done = gate("default", "echo all is well")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASSED" in done.stdout
    assert "all is well" in done.stdout
    assert "1 passed, 0 skipped, none failed" in done.stdout


def test_the_first_failed_stage_stops_the_gate(gate):
    done = gate("default oracle", "echo no index; exit 1")
    assert done.returncode == 1
    assert "FAILED" in done.stdout
    assert "oracle" not in done.stdout
    assert done.stdout.endswith("0 passed, 0 skipped, 1 failed: the gate stopped there\n")


def test_a_missing_reference_is_skipped_and_never_passed(gate):
    records = [path.name for path in (ROOT / "tests" / "records").glob("*.json*")]
    done = gate(".json", "echo kinds")
    assert done.returncode == 0, done.stdout + done.stderr
    for name in records:
        (line,) = [line for line in done.stdout.splitlines() if line.startswith(f"oracle {name} ")]
        assert "SKIPPED" in line
        assert "make reference" in line


def test_the_report_names_the_machine_and_the_libraries(gate):
    printed = gate("nothing", "exit 1").stdout
    for word in ("commit", "processor", "memory", "system", "libraries", "reference"):
        assert f"\n{word} " in printed
