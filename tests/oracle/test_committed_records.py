# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every committed record of the reference's answers, re-derived: N of N, or the test fails."""

from pathlib import Path

import pytest

from bankml.core.pins import sha256_file
from bankml.oracle.record import read_record
from bankml.oracle.run import compare_record

RECORDS = Path(__file__).resolve().parent.parent / "records"
FILES = sorted(path for path in RECORDS.rglob("*.json*") if path.is_file())


@pytest.fixture(scope="session")
def smollm2_sha256(smollm2):
    return sha256_file(smollm2)


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(RECORDS)) for path in FILES])
@pytest.mark.every_kernel
def test_record(path, request):
    record = read_record(path)
    model = None
    if path.parent != RECORDS:
        # A folder is named after the model that its records are of.
        model = request.getfixturevalue("made_model")(path.parent.name)
        assert sha256_file(model) == record.model_sha256
    elif record.model_sha256 is not None:
        # Of a model that nobody has any more, the release gate could not ask again.
        assert record.model_sha256 == request.getfixturevalue("smollm2_sha256")
        model = request.getfixturevalue("smollm2")
    tally = compare_record(record, model)
    assert tally.passed, f"{record.kind}: {tally.identical} of {tally.total} identical\n" + "\n".join(tally.differences)


def test_records_are_small():
    large = {path.name: path.stat().st_size for path in FILES if path.stat().st_size > 300_000}
    assert not large
