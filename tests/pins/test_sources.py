# SPDX-License-Identifier: MIT OR Apache-2.0
"""pull: from a package index, from a file, from a URL; nothing under its final name before it is right."""

import errno
import hashlib
import json
import sys
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from bankml.core.pins import default, fetch, fetch_model, files, index, index_client, pull, sha256_file, verify
from bankml.core.pins.fetch import BLOCK
from bankml.core.pins.record import Provenance, home_fork, write_pin
from bankml.home import cache_dir, forks_dir, models_dir
from bankml.refusal import Refusal
from tests.pins.conftest import make_tiny, near
from tests.pins.web import Page, serving

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(fetch, "FIRST_PAUSE_S", 0.0)


def refused(*args, **options):
    with pytest.raises(Refusal) as caught:
        fetch_model(*args, **options)
    return caught.value


def stands():
    """The names in the store, temporary ones included."""
    return sorted(path.name for folder in (models_dir(), forks_dir()) if folder.exists() for path in folder.iterdir())


def left():
    """What is left of unfinished work."""
    return sorted(path.name for path in (cache_dir() / "partial").rglob("*") if path.is_file() and path.suffix != ".lock")


def folders():
    """The folders that are left of unfinished work."""
    return [path.name for path in (cache_dir() / "partial").iterdir() if path.is_dir()]


def record(name):
    return json.loads((forks_dir() / f"{name}.FORK.json").read_text())


class TestFile:
    def test_it_is_copied_pinned_and_verified(self, tiny):
        pulled = fetch_model(f"file:{tiny}")
        assert (pulled.path, pulled.already) == (models_dir() / tiny.name, False)
        assert pulled.sha256 == sha256_file(tiny)
        assert verify(pulled.path).fork == pulled.fork
        assert record(tiny.name)["source_url"] == tiny.as_uri()
        assert fetch_model(f"file:{tiny}").already
        assert left() == []

    def test_forms_of_its_path(self, tiny, monkeypatch):
        monkeypatch.chdir(tiny.parent)
        spaced = make_tiny(tiny.parent / "a b.gguf")
        for source in (f"file:{tiny.name}", f"file:{tiny}", f"file://{tiny}", f"file://localhost{tiny}"):
            assert pull(source).name == tiny.name
        assert pull(spaced.as_uri()).name == "a b.gguf"
        assert refused("file://elsewhere/m.gguf").code == "pull.source"

    def test_a_given_sha256_is_held_to(self, tiny):
        got, want = sha256_file(tiny), "0" * 64
        assert refused(f"file:{tiny}", want).message == f"Tiny-F32.gguf sha256 {got} != pinned {want}: refused"
        assert stands() == []
        assert fetch_model(f"file:{tiny}", got.upper()).sha256 == got
        assert refused(f"file:{tiny}", "12").exit_code == 1

    def test_a_given_sha256_that_is_almost_right(self, tiny):
        for want in near(sha256_file(tiny)):
            assert refused(f"file:{tiny}", want).code == "pin.mismatch"
        assert stands() == []

    def test_a_model_that_is_pinned_to_almost_its_sha256_is_another(self, tiny):
        (models_dir()).mkdir()
        (models_dir() / tiny.name).write_bytes(tiny.read_bytes())
        for want in near(sha256_file(tiny)):
            write_pin(home_fork(tiny.name), tiny.name, 1, want, Provenance("a test"))
            assert refused(f"file:{tiny}").code == "pull.taken"
            home_fork(tiny.name).unlink()

    def test_what_the_guard_refuses_is_not_taken_in(self, tmp_path):
        path = tmp_path / "junk.gguf"
        path.write_bytes(b"junk" * 100)
        assert refused(f"file:{path}").message.startswith("guard refused: not a GGUF file")
        assert (stands(), left()) == ([], [])

    def test_what_cannot_be_read(self, tmp_path):
        (tmp_path / "d.gguf").mkdir()
        for name in ("nothing.gguf", "d.gguf"):
            assert refused(f"file:{tmp_path / name}").exit_code == 1

    @pytest.mark.parametrize("name", ["", "x", ".gguf", ".x.gguf", "x.bin", "a\nb.gguf", f"{'x' * 220}.gguf"])
    def test_names_that_a_model_cannot_have(self, name):
        assert refused(f"file:/tmp/{name}").code == "pull.name"

    def test_a_name_that_another_model_has(self, tiny, tmp_path):
        fetch_model(f"file:{tiny}")
        (tmp_path / "b").mkdir()
        other = make_tiny(tmp_path / "b" / tiny.name, "other")
        refusal = refused(f"file:{other}")
        assert (refusal.code, refusal.hint) == ("pull.taken", "`bankml rm tiny-f32` removes it")
        assert sha256_file(models_dir() / tiny.name) == sha256_file(tiny)
        (forks_dir() / f"{tiny.name}.FORK.json").unlink()
        assert refused(f"file:{other}").code == "pull.taken"
        assert fetch_model(f"file:{tiny}").already
        assert verify(models_dir() / tiny.name).pinned

    def test_a_damaged_copy_is_mended(self, tiny):
        path = pull(f"file:{tiny}")
        path.write_bytes(b"damage")
        assert not fetch_model(f"file:{tiny}").already
        assert verify(path).pinned

    def test_a_source_that_changes_meanwhile(self, tiny):
        def meddle(what, *_):
            if what.startswith("hash"):
                data = bytearray(tiny.read_bytes())
                data[-1] ^= 1
                tiny.write_bytes(data)

        assert refused(f"file:{tiny}", progress=meddle).code == "pin.changed"
        assert (stands(), left()) == ([], [])

    def test_a_full_disk(self, tiny, monkeypatch):
        def full(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(files.os, "fsync", full)
        assert refused(f"file:{tiny}").code == "disk.full"
        assert stands() == []

    def test_another_file_system(self, tiny, monkeypatch):
        real = Path.replace

        def replace_within(self, target):
            if self.parent != Path(target).parent:
                raise OSError(errno.EXDEV, "Invalid cross-device link")
            return real(self, target)

        monkeypatch.setattr(Path, "replace", replace_within)
        assert verify(pull(f"file:{tiny}")).pinned
        assert left() == []

    def test_many_at_once(self, tiny):
        came = []
        threads = [threading.Thread(target=lambda: came.append(fetch_model(f"file:{tiny}"))) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(pulled.already for pulled in came) == [False] + [True] * 5


class TestUrl:
    def test_it_needs_a_sha256(self):
        refusal = refused("https://example.org/m.gguf?token=secret")
        assert refusal.code == "pull.sha256"
        assert "secret" not in refusal.line()
        assert "--sha256" in refusal.hint

    @pytest.mark.parametrize("source", ["http://example.org/m.gguf", "ftp://x/m.gguf", "m.gguf", "hf:x/y", ""])
    def test_sources_that_are_none(self, source):
        assert refused(source, "0" * 64).code in ("fetch.url", "pull.source")

    @pytest.mark.parametrize("path", ["", "/", "/m.bin", "/..%2f..%2fm.gguf", "/a/%2e.gguf%00", "/.gguf"])
    def test_names_that_a_url_cannot_bring(self, path):
        assert refused(f"https://example.org{path}", "0" * 64).code in ("pull.name", "fetch.url")

    def test_fetched_through_cuts_and_pinned(self, tmp_path):
        model = make_tiny(tmp_path / "m.gguf", size=1 << 18)
        with serving({"/get/m.gguf": Page(model.read_bytes(), cuts=[4 * BLOCK, BLOCK])}) as web:
            url = f"{web.url}/get/m.gguf"
            pulled = fetch_model(f"{url}?token=t", sha256_file(model))
            assert [asked for _, asked, _ in web.seen] == [None, f"bytes={4 * BLOCK}-", f"bytes={5 * BLOCK}-"]
            web.seen.clear()
            assert fetch_model(url, pulled.sha256).already
            assert web.seen == []
        assert (pulled.source, record("m.gguf")["source_url"]) == (url, url)
        assert verify(pulled.path).pinned
        assert left() == []

    def test_a_wrong_hash_leaves_nothing(self, tiny):
        with serving({"/Tiny-F32.gguf": Page(tiny.read_bytes())}) as web:
            refusal = refused(f"{web.url}/Tiny-F32.gguf", "0" * 64)
        assert refusal.message == f"Tiny-F32.gguf sha256 {sha256_file(tiny)} != pinned {'0' * 64}: refused"
        assert (len(web.seen), stands(), left()) == (1, [], [])

    def test_an_almost_right_hash_leaves_nothing_either(self, tiny):
        with serving({"/Tiny-F32.gguf": Page(tiny.read_bytes())}) as web:
            for want in near(sha256_file(tiny)):
                assert refused(f"{web.url}/Tiny-F32.gguf", want).code == "pin.mismatch"
        assert (stands(), left(), folders()) == ([], [], [])

    def test_its_bytes_are_a_limit(self, tiny):
        right, size = sha256_file(tiny), tiny.stat().st_size
        pages = {"/Tiny-F32.gguf": Page(endless=True), "/long/Tiny-F32.gguf": Page(tiny.read_bytes(), chunked=True)}
        with serving(pages) as web:
            assert refused(f"{web.url}/Tiny-F32.gguf", right, size=size).code == "fetch.size"
            assert refused(f"{web.url}/long/Tiny-F32.gguf", right, size=size - 1).code == "fetch.size"
            assert (stands(), left(), folders()) == ([], [], [])
            assert verify(fetch_model(f"{web.url}/long/Tiny-F32.gguf", right, size=size).path).pinned
            assert refused(f"{web.url}/long/Tiny-F32.gguf", right, size=size + 1).code == "fetch.size"

    def test_parts_of_two_files_are_not_taken_for_one(self, tmp_path):
        right = make_tiny(tmp_path / "m.gguf", size=1 << 18)
        wrong = bytearray(right.read_bytes())
        wrong[7] ^= 1
        pages = {"/m.gguf": Page(bytes(wrong), etag=None, cuts=[4 * BLOCK] + [0] * 9)}
        with serving(pages) as web:
            assert refused(f"{web.url}/m.gguf", sha256_file(right)).code == "fetch.cut"
            assert left() == ["m.gguf", "m.gguf.state"]
            pages["/m.gguf"] = Page(right.read_bytes(), etag=None)
            web.seen.clear()
            assert verify(pull(f"{web.url}/m.gguf", sha256_file(right))).pinned
            assert [asked for _, asked, _ in web.seen] == [f"bytes={4 * BLOCK}-", None]

    def test_what_the_guard_refuses_is_not_taken_in(self):
        data = b"junk" * 100
        with serving({"/m.gguf": Page(data)}) as web:
            refusal = refused(f"{web.url}/m.gguf", hashlib.sha256(data).hexdigest())
        assert refusal.message.startswith("guard refused: not a GGUF file")
        assert (stands(), left()) == ([], [])


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """A small wheel that stands in for the default model's; pip knows no index but those a test names."""
    model = make_tiny(tmp_path / "Default-F32.gguf", size=1 << 18)
    path = tmp_path / "bankml_test_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(model, "bankml_test_model/Default-F32.gguf")
        info = "bankml_test_model-1.0.dist-info"
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: bankml-test-model\nVersion: 1.0\nRequires-Dist: nothing\n"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    known = default.WheelModel(
        project="bankml-test-model",
        version="1.0",
        wheel=path.name,
        wheel_bytes=path.stat().st_size,
        wheel_sha256=sha256_file(path),
        member="bankml_test_model/Default-F32.gguf",
        file="Default-F32.gguf",
        bytes=model.stat().st_size,
        sha256=sha256_file(model),
        licence="MIT",
    )
    monkeypatch.setattr(default, "DEFAULT", known)
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    return path


def package_index(wheel, page):
    listing = f'<!DOCTYPE html><html><body><a href="../../files/{wheel.name}">{wheel.name}</a></body></html>'
    return {
        "/simple/bankml-test-model/": Page(listing.encode(), content_type="text/html"),
        f"/files/{wheel.name}": page,
    }


class TestDefault:
    def test_from_the_index_that_pip_is_configured_for(self, wheel, monkeypatch):
        told = []
        with serving(package_index(wheel, Page(wheel.read_bytes()))) as web:
            monkeypatch.setenv("PIP_INDEX_URL", f"{web.url}/simple")
            pulled = fetch_model(progress=lambda *words: told.append(words))
            url = f"{web.url}/files/{wheel.name}"
        assert (pulled.path, pulled.already) == (models_dir() / "Default-F32.gguf", False)
        assert verify(pulled.path).pinned
        said = record("Default-F32.gguf")
        assert said.pop("imported_at_utc")
        assert said == {
            "source_repo": "bankml-test-model",
            "source_url": url,
            "source_revision": "1.0",
            "licence_tag": "MIT",
            "pinned_from": f"bankml_test_model/Default-F32.gguf in {wheel.name} with sha256 {sha256_file(wheel)}",
            "files": [{"path": "Default-F32.gguf", "bytes": pulled.bytes, "sha256": pulled.sha256}],
        }
        assert [words[0].split()[0] for words in told] == sorted(
            (words[0].split()[0] for words in told), key=["fetch", "hash", "extract"].index
        )
        assert left() == []
        monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
        assert fetch_model().already

    def test_a_cut_download_goes_on_in_the_next_run(self, wheel, monkeypatch):
        page = Page(wheel.read_bytes(), statuses=[], cuts=[5 * BLOCK])
        with serving(package_index(wheel, page)) as web:
            monkeypatch.setenv("PIP_INDEX_URL", f"{web.url}/simple")

            class StoppedError(Exception):
                pass

            def stop(what, done, total):
                raise StoppedError

            with pytest.raises(StoppedError):
                fetch_model(progress=stop)
            assert stands() == []
            web.seen.clear()
            pulled = fetch_model()
        assert verify(pulled.path).pinned
        asked = [asked for path, asked, _ in web.seen if path.startswith("/files/")]
        assert asked[0] is not None
        assert left() == []

    def test_cuts_within_a_run(self, wheel, monkeypatch):
        page = Page(wheel.read_bytes(), cuts=[5 * BLOCK, BLOCK])
        with serving(package_index(wheel, page)) as web:
            monkeypatch.setenv("PIP_INDEX_URL", f"{web.url}/simple")
            assert verify(pull()).pinned
        asked = [asked for path, asked, _ in web.seen if path.startswith("/files/")]
        assert asked == [None, f"bytes={5 * BLOCK}-", f"bytes={6 * BLOCK}-"]

    def test_from_a_folder_of_wheels(self, wheel, monkeypatch):
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
        assert verify(pull()).pinned
        assert record("Default-F32.gguf")["source_url"] == wheel.as_uri()
        assert wheel.exists()

    def test_through_pips_own_command_where_its_parts_are_others(self, wheel, monkeypatch):
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
        monkeypatch.setattr(index, "_run_client", lambda *_: ({}, index.NO_SUCH_PIP, ""))
        assert verify(pull()).pinned

    def test_a_wheel_with_another_hash(self, wheel, monkeypatch):
        bad = bytearray(wheel.read_bytes())
        bad[1000] ^= 1
        with serving(package_index(wheel, Page(bytes(bad)))) as web:
            monkeypatch.setenv("PIP_INDEX_URL", f"{web.url}/simple")
            refusal = refused()
        assert refusal.code == "pin.mismatch"
        assert refusal.message.startswith(f"{wheel.name} sha256 ")
        assert (stands(), left()) == ([], [])

    @pytest.mark.parametrize("more", [{"body": b"x"}, {"endless": True}], ids=["a byte", "no end"])
    def test_a_wheel_of_another_size_is_refused_at_once(self, wheel, monkeypatch, more):
        page = Page(wheel.read_bytes() + more.pop("body", b""), **more)
        with serving(package_index(wheel, page)) as web:
            monkeypatch.setenv("PIP_INDEX_URL", f"{web.url}/simple")
            assert refused().code == "fetch.size"
        assert (stands(), left()) == ([], [])

    def test_a_wheel_of_another_size_in_a_folder(self, wheel, monkeypatch):
        wheel.write_bytes(wheel.read_bytes() + b"x")
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
        assert refused().code == "fetch.size"
        assert (stands(), left()) == ([], [])

    def test_pips_own_command_takes_no_more_than_the_wheel(self, wheel, monkeypatch):
        monkeypatch.setattr(index, "_run_client", lambda *_: ({}, index.NO_SUCH_PIP, ""))
        with serving(package_index(wheel, Page(endless=True))) as web:
            monkeypatch.setenv("PIP_INDEX_URL", f"{web.url}/simple")
            assert refused().code == "pull.not_found"
        assert (stands(), left()) == ([], [])

    @pytest.mark.parametrize("page", [Page(b"<" * (index_client.MOST_PAGE + 1)), Page(endless=True)], ids=["long", "endless"])
    def test_a_page_without_measure_is_refused(self, wheel, monkeypatch, page):
        page.content_type = "text/html"
        with serving({"/simple/bankml-test-model/": page}) as web:
            monkeypatch.setenv("PIP_INDEX_URL", f"{web.url}/simple")
            refusal = refused()
        assert (refusal.code, refusal.exit_code, len(web.seen)) == ("pull.page", 1, 1)
        assert f"{web.url}/simple/bankml-test-model/ is longer" in refusal.message

    def test_a_pause_that_an_index_wishes_for_is_not_made(self, wheel, monkeypatch):
        pages = package_index(wheel, Page(wheel.read_bytes()))
        pages["/simple/bankml-test-model/"].statuses = [503]
        pages["/simple/bankml-test-model/"].retry_after = "999999"
        with serving(pages) as web:
            monkeypatch.setenv("PIP_INDEX_URL", f"{web.url}/simple")
            monkeypatch.setenv("PIP_RETRIES", "2")
            assert verify(pull()).pinned
        assert [path for path, *_ in web.seen].count("/simple/bankml-test-model/") == 2

    @pytest.mark.parametrize("wrong", ["sha256", "member", "wheel_sha256"])
    def test_what_is_not_the_known_one(self, wheel, monkeypatch, wrong):
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
        known = default.DEFAULT
        others = ["bankml_test_model/none.gguf"] if wrong == "member" else near(getattr(known, wrong))
        for other in others:
            monkeypatch.setattr(default, "DEFAULT", replace(known, **{wrong: other}))
            assert refused().code == ("pull.wheel" if wrong == "member" else "pin.mismatch")
            assert stands() == []

    def test_no_such_wheel_there(self, wheel, monkeypatch):
        with serving({}) as web:
            monkeypatch.setenv("PIP_INDEX_URL", f"{web.url}/simple")
            refusal = refused()
        assert (refusal.code, refusal.exit_code) == ("pull.not_found", 1)
        monkeypatch.setenv("PIP_INDEX_URL", f"{web.url}/simple")
        assert refused().code == "pull.not_found"

    def test_no_pip(self, wheel, monkeypatch, tmp_path):
        blocked = tmp_path / "blocked"
        blocked.mkdir()
        (blocked / "python").write_text(f"#!/bin/sh\nexec {sys.executable} -c \"import sys; sys.exit('No module named pip')\"\n")
        (blocked / "python").chmod(0o755)
        monkeypatch.setattr(index.sys, "executable", str(blocked / "python"))
        assert refused().code == "pull.no_pip"

    def test_its_sha256_is_known(self, wheel):
        for other in ("0" * 64, *near(default.DEFAULT.sha256)):
            assert refused(sha256=other).code == "pin.sha256"

    def test_the_real_one_is_what_the_constants_say(self, smollm2):
        known = default.DEFAULT
        assert (smollm2.name, smollm2.stat().st_size, sha256_file(smollm2)) == (known.file, known.bytes, known.sha256)
