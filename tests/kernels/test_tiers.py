# SPDX-License-Identifier: MIT OR Apache-2.0
"""The kernels of every tier give the reference's bits, and every weight type has its record."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bankml.core.exact.products import TYPE_IDS
from bankml.core.gguf.types import TYPES
from bankml.kernels.compiler.isa import TIER
from bankml.kernels.scalar import products
from bankml.oracle.record import read_record

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "tests" / "records"
NAMES = {TYPES[number].name for number in TYPE_IDS}
# One type of each way to multiply; the release gate compares all of them.
_TYPES = ("f16", "q4_1", "q8_0", "q4_0", "q6_k")
# Of each way to take dot products of bytes at that tier's width.
_VNNI_TYPES = ("q8_0", "iq4_xs", "q4_k")
QUICK = ("kernels", *(f"kernels-{name}" for name in _TYPES), "operations", "attention", "start", "libm")


def test_every_type_has_a_record():
    recorded = set()
    for path in RECORDS.glob("kernels-*.json.gz"):
        recorded |= {m["type"] for m in read_record(path).body["matrices"] if "tensor" not in m and "wild" not in m}
    assert NAMES - recorded == set()


def test_every_type_is_recorded_with_nan_in_weights_and_in_rows():
    held = set()
    for matrix in read_record(RECORDS / "kernels-wild.json.gz").body["matrices"]:
        held |= {(matrix["type"], matrix["wild"], product["wild"]) for product in matrix["products"]}
    assert held == {(name, *wild) for name in NAMES for wild in ((True, False), (False, True), (True, True))}


def test_every_type_has_a_scalar_model():
    assert NAMES - set(products.TYPES) == set()


@pytest.mark.parametrize(("tier", "names"), [("avx2", QUICK), ("avxvnni", tuple(f"kernels-{name}" for name in _VNNI_TYPES))])
def test_the_kernels_of_the_other_tiers_give_the_same_bits(tier, names):
    if TIER in ("avx2", tier):
        pytest.skip("this machine, or BANKML_ISA, has every other test on these kernels already, or lacks what they need")
    files = [str(RECORDS / f"{name}.json.gz") for name in names]
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.compare_records", *files],
        cwd=ROOT,
        env=os.environ | {"BANKML_ISA": tier},
        capture_output=True,
        text=True,
        check=False,
    )
    *lines, last = done.stdout.splitlines()
    tallies = list(map(json.loads, lines))
    assert [tally for tally in tallies if tally["identical"] != tally["total"]] == []
    assert (done.returncode, last.split(":")[0], len(tallies)) == (0, f"{tier}-tier", len(files)), done.stderr[-3000:]
