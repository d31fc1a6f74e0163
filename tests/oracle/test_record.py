# SPDX-License-Identifier: MIT OR Apache-2.0
import gzip
import json

import pytest

from bankml.oracle.record import Record, read_record, write_record
from bankml.refusal import Refusal

RECORD = Record(
    kind="letters",
    made_with={"version": "b11192"},
    model_sha256=None,
    date="2026-01-01T00:00:00Z",
    options={},
    body={"text": "é \ud800 \u0000", "numbers": [1, 0.1, None, True]},
)


@pytest.mark.parametrize("name", ["r.json", "r.json.gz"])
def test_a_record_comes_back_as_it_was_written(tmp_path, name):
    write_record(RECORD, tmp_path / "sub" / name)
    assert read_record(tmp_path / "sub" / name) == RECORD
    assert [path.name for path in (tmp_path / "sub").iterdir()] == [name]


@pytest.mark.parametrize("name", ["r.json", "r.json.gz"])
def test_equal_records_give_equal_bytes(tmp_path, name):
    for folder in ("a", "b"):
        write_record(RECORD, tmp_path / folder / name)
    assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_record_of_not_a_number_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_record(Record("letters", {}, None, "", {}, {"x": float("nan")}), tmp_path / "r.json")
    assert not list(tmp_path.iterdir())


GOOD = RECORD.as_dict()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not json",
        b"[1, 2]",
        b"\xff\xfe",
        b"[" * 100_000,
        b"\x1f\x8b but no gzip",
        gzip.compress(b"[]", mtime=0),
        json.dumps({name: value for name, value in GOOD.items() if name != "body"}).encode(),
        json.dumps({**GOOD, "kind": 3}).encode(),
        json.dumps({**GOOD, "model_sha256": {}}).encode(),
    ],
)
def test_what_is_no_record_is_refused(tmp_path, data):
    path = tmp_path / "r.json"
    path.write_bytes(data)
    with pytest.raises(Refusal) as refused:
        read_record(path)
    assert refused.value.code == "oracle.record"
    assert str(path) in refused.value.line()


def test_a_truncated_record_is_refused_as_truncated(tmp_path):
    path = tmp_path / "r.json.gz"
    write_record(RECORD, path)
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(Refusal) as refused:
        read_record(path)
    assert refused.value.exit_code == 3
