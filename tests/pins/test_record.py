# SPDX-License-Identifier: MIT OR Apache-2.0
"""FORK.json: what counts as a pin, what does not, and writing one."""

import json
import signal
import subprocess
import sys

import pytest

from bankml.core.pins.record import Provenance, find_fork, pinned_sha256, remove_pin, write_pin
from bankml.core.refusal import Refusal
from tests.pins.conftest import near

A = "a" * 64
B = "b" * 64


def entry(sha256=A, path="m.gguf", **more):
    return {"path": path, "bytes": 3, "sha256": sha256, **more}


COUNT = {
    "plain": json.dumps({"source_repo": "r", "files": [entry()]}, indent=2),
    "compact": json.dumps({"files": [entry()]}, separators=(",", ":")),
    "upper case is normalised": json.dumps({"files": [entry(A.upper())]}),
    "sha256 before path": json.dumps({"files": [{"sha256": A, "bytes": 3, "path": "m.gguf"}]}),
    "among others": json.dumps({"files": [entry(B, "other"), entry(), {"path": "n"}]}),
    "twice the same": json.dumps({"files": [entry(), entry(A.upper())]}),
    "escapes in the name": json.dumps({"files": [entry()]}).replace('"m.', '"\\u006d.'),
    "unknown members": json.dumps({"files": [entry(mode=7)], "x": [None, 1.5, {}]}),
}

DO_NOT = {
    "empty file": "",
    "not JSON": "{",
    "not UTF-8": b'\xff{"files": []}',
    "a byte order mark": b"\xef\xbb\xbf" + json.dumps({"files": [entry()]}).encode(),
    "a list": json.dumps([entry()]),
    "no files": "{}",
    "files is an object": json.dumps({"files": {"m.gguf": A}}),
    "a file that is a string": json.dumps({"files": ["m.gguf", entry()]}),
    "other name": json.dumps({"files": [entry(path="M.gguf")]}),
    "name with a folder": json.dumps({"files": [entry(path="./m.gguf")]}),
    "63 digits": json.dumps({"files": [entry(A[1:])]}),
    "65 digits": json.dumps({"files": [entry(A + "a")]}),
    "not hex": json.dumps({"files": [entry("g" + A[1:])]}),
    "other digits": json.dumps({"files": [entry("١" * 64)]}),
    "a line break behind": json.dumps({"files": [entry(A + "\n")]}),
    "null": json.dumps({"files": [entry(None)]}),
    "a number": json.dumps({"files": [entry(int("1" * 64))]}),
    "no sha256": json.dumps({"files": [{"path": "m.gguf"}]}),
    "two that differ": json.dumps({"files": [entry(), entry(B)]}),
    "a key twice in the entry": '{"files": [{"path": "m.gguf", "sha256": "A", "sha256": "A"}]}'.replace("A", A),
    "files twice": '{"files": [], "files": [{"path": "m.gguf", "sha256": "A"}]}'.replace("A", A),
    "NaN": json.dumps({"x": float("nan"), "files": [entry()]}),
    "too deep": "[" * 100_000,
    "a number of 10,000 digits": f'{{"x": {"1" * 10_000}, "files": []}}',
    "text behind": json.dumps({"files": [entry()]}) + "x",
}


def put(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("case", COUNT)
def test_counts(tmp_path, case):
    assert pinned_sha256(put(tmp_path / "F", COUNT[case]), "m.gguf") == A


@pytest.mark.parametrize("case", DO_NOT)
def test_anything_else_is_unpinned(tmp_path, case):
    with pytest.raises(Refusal) as caught:
        pinned_sha256(put(tmp_path / "F", DO_NOT[case]), "m.gguf")
    assert caught.value.message == "m.gguf has no sha256 record in FORK.json: unpinned, refused"
    assert (caught.value.code, caught.value.exit_code) == ("pin.unpinned", 2)
    assert caught.value.found


def test_a_record_that_cannot_be_read_is_no_unpinned_file(tmp_path):
    for name in ("nothing", "."):
        with pytest.raises(Refusal, match="cannot read") as caught:
            pinned_sha256(tmp_path / name, "m.gguf")
        assert caught.value.exit_code == 1


def test_written_pins_are_read_and_say_where_the_file_came_from(tmp_path):
    fork = tmp_path / "new" / "m.gguf.FORK.json"
    write_pin(fork, "m.gguf", 3, A, Provenance("a test", "repo", "https://example.org/m.gguf", "r1", "MIT"))
    assert pinned_sha256(fork, "m.gguf") == A
    record = json.loads(fork.read_text())
    stamp = record.pop("imported_at_utc")
    assert len(stamp) == 20
    assert stamp.endswith("Z")
    assert record == {
        "source_repo": "repo",
        "source_url": "https://example.org/m.gguf",
        "source_revision": "r1",
        "licence_tag": "MIT",
        "pinned_from": "a test",
        "files": [{"path": "m.gguf", "bytes": 3, "sha256": A}],
    }
    assert [path.name for path in fork.parent.iterdir()] == [fork.name]


def test_a_second_file_joins_the_record_and_a_first_one_stays(tmp_path):
    fork = tmp_path / "F"
    write_pin(fork, "m.gguf", 3, A, Provenance("first"))
    write_pin(fork, "n.gguf", 4, B, Provenance("second"))
    write_pin(fork, "m.gguf", 3, A, Provenance("third"))
    record = json.loads(fork.read_text())
    assert record["pinned_from"] == "first"
    assert [file["path"] for file in record["files"]] == ["m.gguf", "n.gguf"]
    before = fork.read_bytes()
    for other in (B, *near(A)):
        with pytest.raises(Refusal, match=r"already pins m\.gguf to another sha256"):
            write_pin(fork, "m.gguf", 3, other, Provenance("fourth"))
    assert fork.read_bytes() == before
    remove_pin(fork, "m.gguf")
    assert pinned_sha256(fork, "n.gguf") == B
    remove_pin(fork, "n.gguf")
    assert not fork.exists()
    remove_pin(fork, "n.gguf")


WRITER = """
import sys
from pathlib import Path
from bankml.core.pins.record import Provenance, write_pin
print("ready", flush=True)
sys.stdin.readline()
for number in range(12):
    write_pin(Path(sys.argv[1]), f"{sys.argv[2]}-{number}", 3, "a" * 64, Provenance("x"))
"""


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "records").mkdir()
    return tmp_path / "records"


def test_writers_of_one_record_lose_nothing(folder):
    fork = folder / "F"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, fork, str(name)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for name in range(8)
    ]
    for writer in writers:
        assert writer.stdout.readline() == b"ready\n"
    for writer in writers:
        writer.stdin.write(b"\n")
        writer.stdin.close()
    assert [writer.wait() for writer in writers] == [0] * 8
    pinned = sorted(file["path"] for file in json.loads(fork.read_text())["files"])
    assert pinned == sorted(f"{name}-{number}" for name in range(8) for number in range(12))
    assert names(fork.parent) == ["F"]
    for writer in writers:
        writer.stdout.close()


def test_a_pin_that_is_removed_meanwhile_takes_no_other_along(tmp_path):
    fork = tmp_path / "F"
    write_pin(fork, "old", 3, A, Provenance("x"))
    writer = subprocess.Popen([sys.executable, "-c", WRITER, fork, "new"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    writer.stdin.close()
    while writer.poll() is None:
        write_pin(fork, "passing", 3, A, Provenance("x"))
        remove_pin(fork, "passing")
    assert {file["path"] for file in json.loads(fork.read_text())["files"]} == {"old", *(f"new-{number}" for number in range(12))}


SLOW_WRITER = """
import sys
from pathlib import Path
from bankml.core.gguf.atomic import replace_file

def write(out):
    out.write(b"half")
    out.flush()
    print("ready", flush=True)
    sys.stdin.readline()
    out.write(b" and half")

replace_file(Path(sys.argv[1]), write)
"""


def slow_writer(path):
    writer = subprocess.Popen([sys.executable, "-c", SLOW_WRITER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert writer.stdout.readline() == b"ready\n"
    return writer


def test_what_a_killed_writer_left_goes_with_the_next_write_and_what_a_living_one_has_stays(folder):
    fork = folder / "F"
    (folder / ".F.notes.part").touch()
    (folder / ".G.1.0.part").touch()
    with slow_writer(fork) as living, slow_writer(fork) as killed:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert len(list(folder.glob(".F.*.0.part"))) == 2
        write_pin(fork, "m.gguf", 3, A, Provenance("x"))
        assert [part.name for part in folder.glob(".F.*.0.part")] == [f".F.{living.pid}.0.part"]
        assert pinned_sha256(fork, "m.gguf") == A
        living.communicate(b"\n")
        assert living.returncode == 0
    assert fork.read_bytes() == b"half and half"
    assert names(folder) == [".F.notes.part", ".G.1.0.part", "F"]


def test_what_is_no_record_is_not_written_over(tmp_path):
    fork = put(tmp_path / "F", "my diary")
    with pytest.raises(Refusal, match=r"F is no FORK\.json"):
        write_pin(fork, "m.gguf", 3, A, Provenance("x"))
    assert fork.read_text() == "my diary"


def test_any_file_name_can_be_pinned(tmp_path):
    for name in ('a "b"\\\n.gguf', "ü–日本.gguf", "bad\udc80.gguf"):
        fork = tmp_path / "F"
        write_pin(fork, name, 3, A, Provenance("x"))
        assert pinned_sha256(fork, name) == A
        fork.unlink()


@pytest.mark.parametrize("target", ["nowhere", "m.gguf.FORK.json"])
def test_a_pin_that_is_a_link_to_nothing_or_to_itself_cannot_be_read(tmp_path, own_home, target):
    put(tmp_path / "m.gguf.FORK.json", json.dumps({"files": [entry()]}))
    (own_home / "forks").mkdir()
    ours = own_home / "forks" / "m.gguf.FORK.json"
    ours.symlink_to(target)
    assert find_fork(tmp_path / "m.gguf") == ours
    for use in (lambda: pinned_sha256(ours, "m.gguf"), lambda: write_pin(ours, "m.gguf", 3, A, Provenance("x"))):
        with pytest.raises(Refusal, match="cannot read") as caught:
            use()
        assert caught.value.exit_code == 1
    remove_pin(ours, "m.gguf")
    assert not ours.is_symlink()


def test_bankmls_own_pins_come_before_those_beside_the_file(tmp_path, own_home):
    model = tmp_path / "m.gguf"
    assert find_fork(model) is None
    beside = put(tmp_path / "m.gguf.FORK.json", "{}")
    assert find_fork(model) == beside
    (own_home / "forks").mkdir()
    ours = put(own_home / "forks" / "m.gguf.FORK.json", "{}")
    assert find_fork(model) == ours
    assert find_fork(tmp_path / ("x" * 250)) is None
