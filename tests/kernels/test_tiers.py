# SPDX-License-Identifier: MIT OR Apache-2.0
"""The AVX2 kernels give the reference's bits too, and every weight type has its record."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bankml.core.gguf.types import TYPES
from bankml.core.oracle.record import read_record
from bankml.kernels.isa import TIER
from bankml.kernels.scalar import products
from bankml.kernels.weights import TYPE_IDS

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "tests" / "records"
NAMES = [TYPES[number].name for number in sorted(TYPE_IDS)]


def test_every_type_has_a_record_and_a_scalar_model():
    recorded = set()
    for path in RECORDS.glob("kernels-*.json.gz"):
        recorded |= {matrix["type"] for matrix in read_record(path).body["matrices"] if "tensor" not in matrix}
    assert set(NAMES) - recorded == set()
    assert set(NAMES) - set(products.TYPES) == set()


@pytest.mark.skipif(TIER == "avx2", reason="this machine, or BANKML_ISA, has every other test on the AVX2 kernels already")
def test_the_avx2_kernels_give_the_same_bits():
    files = [path for path in sorted(RECORDS.glob("*.json.gz")) if path.name.startswith(("kernels", "operations", "attention"))]
    files = [path for path in files if read_record(path).model_sha256 is None]
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.compare_records", *map(str, files)],
        cwd=ROOT,
        env=os.environ | {"BANKML_ISA": "avx2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    *tallies, last = map(json.loads, done.stdout.splitlines())
    assert last == {"tier": "avx2"}
    assert len(tallies) == len(files)
    assert [tally for tally in tallies if tally["total"] == 0 or tally["identical"] != tally["total"]] == []
