# SPDX-License-Identifier: MIT OR Apache-2.0
import json

import pytest

from bankml.cli.main import main
from bankml.oracle import registry
from bankml.oracle.record import Record, read_record, write_record
from bankml.reference.build import Reference


@pytest.fixture(autouse=True)
def letters(monkeypatch):
    monkeypatch.setitem(registry.KINDS, "letters", "tests.oracle.sample_kind:KIND")
    monkeypatch.setattr(Reference, "__init__", lambda self, dir=None: None)
    monkeypatch.setattr(Reference, "facts", lambda self: {"version": "b11192", "variant": "haswell"})


def test_record_then_compare(tmp_path, capsys):
    path = tmp_path / "letters.json.gz"
    assert main(["oracle", "record", "letters", "-o", str(path), "--set", "word=banana"]) == 0
    made = read_record(path)
    assert (made.kind, made.options, made.model_sha256) == ("letters", {"word": "banana"}, None)
    assert main(["oracle", "compare", str(path)]) == 0
    assert capsys.readouterr().out == "letters: 3 of 3 identical\n"


def wrong(path, counts):
    write_record(Record("letters", {"version": "b11192"}, None, "", {}, {"word": "banana", "counts": counts}), path)


def test_a_difference_is_shown_and_is_exit_code_1(tmp_path, capsys):
    wrong(tmp_path / "r.json", {"a": 3, "n": 1})
    assert main(["oracle", "compare", str(tmp_path / "r.json")]) == 1
    printed = capsys.readouterr()
    assert printed.out == "letters: 1 of 2 identical\n"
    assert "n: 2 and not 1" in printed.err


def test_nothing_compared_is_not_a_pass(tmp_path, capsys):
    wrong(tmp_path / "r.json", {})
    assert main(["oracle", "compare", str(tmp_path / "r.json")]) == 1


def test_compare_as_json(tmp_path, capsys):
    wrong(tmp_path / "r.json", {"a": 3})
    assert main(["oracle", "compare", str(tmp_path / "r.json"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["kind"], report["identical"], report["total"], report["passed"]) == ("letters", 1, 1, True)


def test_a_record_of_an_unknown_kind_is_refused(tmp_path, capsys):
    write_record(Record("taste", {}, None, "", {}, {}), tmp_path / "r.json")
    assert main(["oracle", "compare", str(tmp_path / "r.json")]) == 1
    assert "no such kind" in capsys.readouterr().err


def test_another_model_than_the_recorded_one_is_refused(tmp_path, capsys):
    (tmp_path / "other.gguf").write_bytes(b"GGUF")
    write_record(Record("letters", {}, "0" * 64, "", {}, {}), tmp_path / "r.json")
    assert main(["oracle", "compare", str(tmp_path / "r.json"), str(tmp_path / "other.gguf")]) == 2
    assert "another model" in capsys.readouterr().err


@pytest.mark.parametrize("setting", ["word", "=banana"])
def test_a_setting_without_name_or_value_is_a_usage_error(tmp_path, setting, capsys):
    assert main(["oracle", "record", "letters", "-o", str(tmp_path / "r.json"), "--set", setting]) == 1
    assert "NAME=VALUE" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("wrod=banana", "the kind 'letters' has no such option (at --set wrod, found wrod, allowed: word, often)"),
        ("word=5", "has another form (at --set word, found 5, allowed: a text)"),
        ("often=x", "found 'x', allowed: a whole number from 0"),
        ("often=true", "found True"),
        ("often=-1", "found -1"),
        ("often=1.0", "found 1.0"),
    ],
)
def test_an_option_that_the_kind_has_not_or_cannot_read_is_refused(tmp_path, setting, says, capsys):
    assert main(["oracle", "record", "letters", "-o", str(tmp_path / "r.json"), "--set", setting]) == 1
    assert says in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_option_that_is_not_given_has_its_default(tmp_path):
    path = tmp_path / "r.json"
    assert main(["oracle", "record", "letters", "-o", str(path), "--set", "often=2"]) == 0
    made = read_record(path)
    assert (made.options, made.body["word"]) == ({"often": 2}, "apple")


def test_list_says_what_each_kind_checks(capsys):
    assert main(["oracle", "list", "--json"]) == 0
    listed = {row["kind"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(listed) == set(registry.KINDS)
    assert listed["letters"]["against"] == "a count by hand"
    assert listed["letters"]["options"] == {"word": "a text", "often": "a whole number from 0"}
    assert main(["oracle", "list"]) == 0
    assert "  --set    word=a text\n" in capsys.readouterr().out
