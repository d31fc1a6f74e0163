# SPDX-License-Identifier: MIT OR Apache-2.0
"""The commands sha256, pin, verify, pull, list, rm as a person runs them."""

import io
import json
import subprocess

import pytest

from bankml import __version__
from bankml.cli import progress
from bankml.core.pins import sha256_file
from bankml.core.pins.record import Provenance, write_pin
from tests.pins.conftest import near


def no_traceback(answer):
    assert "Traceback" not in answer.out + answer.err
    assert "internal error" not in answer.err
    return answer


class TestSha256:
    def test_is_sha256sum(self, bankml, tiny, tmp_path):
        empty = tmp_path / "empty"
        empty.touch()
        told = subprocess.run(["sha256sum", str(tiny), str(empty)], capture_output=True, text=True, check=True).stdout
        assert bankml("sha256", tiny, empty).out == told
        assert json.loads(bankml("sha256", "--json", tiny).out) == [
            {"file": str(tiny), "sha256": sha256_file(tiny), "bytes": tiny.stat().st_size}
        ]

    def test_what_cannot_be_read_is_exit_1(self, bankml, tmp_path):
        answer = no_traceback(bankml("sha256", tmp_path / "nothing"))
        assert (answer.code, answer.out) == (1, "")
        assert answer.err.startswith("bankml: cannot hash nothing: No such file")
        assert bankml("sha256").code == 1


class TestPin:
    def test_write_then_hold(self, bankml, tiny, tmp_path):
        fork = tmp_path / "F.json"
        answer = bankml("pin", tiny, "--fork", fork, "--write", "--source-repo", "r", "--licence-tag", "MIT")
        assert (answer.code, answer.out) == (0, f"pinned {sha256_file(tiny)}\n")
        assert bankml("pin", tiny, "--fork", fork) == answer
        record = json.loads(fork.read_text())
        assert (record["source_repo"], record["licence_tag"]) == ("r", "MIT")
        assert json.loads(bankml("pin", tiny, "--fork", fork, "--json").out)["verdict"] == "pinned"

    def test_refusals(self, bankml, tiny, tmp_path):
        fork = tmp_path / "F.json"
        want = sha256_file(tiny)
        bankml("pin", tiny, "--fork", fork, "--write")
        tiny.write_bytes(b"other")
        answer = bankml("pin", tiny, "--fork", fork)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err == f"refuse: Tiny-F32.gguf sha256 {sha256_file(tiny)} != pinned {want}: refused\n"
        answer = bankml("pin", tiny, "--fork", fork, "--json")
        assert answer.code == 2
        assert json.loads(answer.out)["reason"].startswith("Tiny-F32.gguf sha256 ")
        fork.write_text("{}")
        answer = bankml("pin", tiny, "--fork", fork)
        assert answer.code == 2
        assert answer.err.startswith("refuse: Tiny-F32.gguf has no sha256 record in FORK.json: unpinned, refused")

    def test_a_digest_that_is_almost_the_pinned_one(self, bankml, tiny, tmp_path):
        got = sha256_file(tiny)
        for number, want in enumerate(near(got)):
            fork = tmp_path / f"{number}.json"
            write_pin(fork, tiny.name, 1, want, Provenance("a test"))
            assert (bankml("pin", tiny, "--fork", fork).code, bankml("pin", tiny, "--fork", fork, "--write").code) == (2, 2)

    def test_what_is_missing_is_exit_1(self, bankml, tiny, tmp_path):
        for args in ([tiny], [tiny, "--fork", tmp_path / "nothing"], [tmp_path / "nothing", "--fork", tiny], ["--fork", tiny]):
            assert no_traceback(bankml("pin", *args)).code in (1, 2)
        assert bankml("pin", tiny).code == 1
        assert bankml("pin", tiny, "--fork", tmp_path / "nothing").code == 1
        assert bankml("pin", tiny, "--fork", tmp_path).code == 1
        assert bankml("pin", tmp_path / "nothing", "--fork", tmp_path / "F", "--write").code == 1
        assert bankml("pin", tiny, "--fork", "/proc/F", "--write").code == 1
        assert bankml("pin", tiny, "--fork", tmp_path / "F", "--source-repo", "r").code == 1


class TestVerify:
    def test_ok(self, bankml, tiny, tmp_path):
        fork = tmp_path / "F.json"
        bankml("pin", tiny, "--fork", fork, "--write")
        answer = bankml("verify", tiny, "--fork", fork)
        assert answer.code == 0
        assert answer.out.splitlines() == [
            "guard     play (mainline; llama; F32 1)",
            f"sha256    {sha256_file(tiny)}",
            f"pinned    {fork}",
            f"verified  {tiny}",
        ]
        assert answer.err == ""
        told = json.loads(bankml("verify", tiny, "--fork", fork, "--engine", "prism", "--json").out)
        assert (told["verdict"], told["engine"], told["bankml"]) == ("verified", "prism", __version__)
        assert json.loads(bankml("verify", tiny, "--fork", fork, "--engine", "other", "--json").out)["engine"] == "mainline"

    def test_by_name(self, bankml, tiny):
        assert bankml("pull", f"file:{tiny}").code == 0
        for name in ("tiny-f32", "Tiny-F32.gguf", "tiny:latest"):
            assert bankml("verify", name).code == 0

    def test_unpinned(self, bankml, tiny):
        answer = bankml("verify", tiny, "--json")
        assert answer.code == 2
        told = json.loads(answer.out)
        assert (told["verdict"], told["bankml"]) == ("refuse", __version__)
        assert told["reason"] == "Tiny-F32.gguf has no sha256 record in FORK.json: unpinned, refused"
        assert answer.err.startswith("bankml: Tiny-F32.gguf has no sha256 record")
        assert "ok" not in answer.err.lower()

    def test_exit_codes(self, bankml, tiny, tmp_path):
        for bad in (tmp_path / "nothing", tmp_path, "nothing"):
            answer = no_traceback(bankml("verify", bad))
            assert answer.code == 1
            assert answer.err.startswith("bankml: cannot read ")
        assert bankml("verify", tiny, "--fork", tmp_path / "nothing").code == 1
        assert bankml("verify").code == 1
        junk = tmp_path / "junk.gguf"
        junk.write_bytes(b"junk" * 9)
        answer = bankml("verify", junk)
        assert answer.code == 2
        assert answer.err.startswith("bankml: guard refused: not a GGUF file")
        junk.write_bytes(tiny.read_bytes()[:50])
        answer = bankml("verify", junk)
        assert answer.code == 3
        assert "header bytes: file truncated" in answer.err


class TestStore:
    def test_pull_list_rm(self, bankml, tiny):
        answer = bankml("list")
        assert (answer.code, answer.out) == (0, "")
        assert "bankml pull" in answer.err
        assert json.loads(bankml("list", "--json").out) == []
        told = json.loads(bankml("pull", f"file:{tiny}", "--json").out)
        assert (told["name"], told["already"]) == ("tiny-f32", False)
        assert bankml("pull", f"file:{tiny}").out.startswith("already here  tiny-f32")
        (row,) = json.loads(bankml("list", "--json").out)
        assert (row["name"], row["sha256"], row["pinned"], row["arch"]) == ("tiny-f32", sha256_file(tiny), True, "llama")
        head, line = bankml("list").out.splitlines()
        assert head.split() == ["NAME", "SIZE", "SHA256", "ARCH", "SOURCE"]
        assert line.split()[:2] == ["tiny-f32", f"{tiny.stat().st_size / 1000:.1f}"]
        assert sha256_file(tiny)[:12] in line
        assert json.loads(bankml("rm", "tiny-f32", "--yes", "--json").out)["removed"] == "tiny-f32"
        assert json.loads(bankml("list", "--json").out) == []
        assert tiny.exists()
        assert bankml("rm", "tiny-f32", "--yes").code == 1

    def test_an_unpinned_model_is_listed_as_such(self, bankml, tiny, own_home):
        (own_home / "models").mkdir()
        (own_home / "models" / "loose.gguf").write_bytes(tiny.read_bytes())
        assert "unpinned" in bankml("list").out

    def test_rm_asks_where_somebody_can_answer(self, bankml, tiny, monkeypatch):
        bankml("pull", f"file:{tiny}")
        answer = bankml("rm", "tiny-f32")
        assert answer.code == 1
        assert "--yes" in answer.err
        assert bankml("rm", "tiny", "--yes").code == 1

        class Terminal(io.StringIO):
            def isatty(self):
                return True

        monkeypatch.setattr("sys.stdin", Terminal("n\n"))
        assert bankml("rm", "tiny-f32").code == 130
        assert len(json.loads(bankml("list", "--json").out)) == 1
        monkeypatch.setattr("sys.stdin", Terminal("y\n"))
        assert bankml("rm", "tiny-f32").code == 0
        assert json.loads(bankml("list", "--json").out) == []

    def test_pull_says_what_it_needs(self, bankml, tmp_path):
        answer = bankml("pull", "https://example.org/m.gguf", "--json")
        assert answer.code == 2
        assert json.loads(answer.out)["code"] == "pull.sha256"
        answer = no_traceback(bankml("pull", tmp_path / "nothing.gguf"))
        assert answer.code == 1

    def test_the_bytes_of_what_is_pulled(self, bankml, tiny):
        size = tiny.stat().st_size
        answer = bankml("pull", f"file:{tiny}", "--bytes", size + 1, "--json")
        assert (answer.code, json.loads(answer.out)["code"]) == (2, "fetch.size")
        assert json.loads(bankml("list", "--json").out) == []
        assert bankml("pull", f"file:{tiny}", "--bytes", size).code == 0
        assert bankml("pull", "--bytes", size).code == 2
        assert bankml("pull", f"file:{tiny}", "--bytes", 0).code == 1

    def test_a_store_that_cannot_be_written(self, bankml, tiny, monkeypatch, tmp_path):
        (tmp_path / "file").touch()
        monkeypatch.setenv("BANKML_HOME", str(tmp_path / "file"))
        assert no_traceback(bankml("pull", f"file:{tiny}")).code == 1
        assert no_traceback(bankml("list")).code in (0, 1)


def test_bars_are_for_terminals(monkeypatch):
    with progress.bars() as show:
        assert show is None

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    with progress.bars() as show:
        show("hash a", 1, 2)
        show("hash a", 2, 2)
        show("hash b", 5, None)
    assert "hash a" in screen.getvalue()
    assert "hash b" in screen.getvalue()


@pytest.mark.parametrize("name", ["sha256", "pin", "verify", "pull", "list", "rm"])
def test_help(bankml, name):
    answer = bankml(name, "--help")
    assert answer.code == 0
    assert answer.out.startswith(f"Usage: bankml {name} ")
