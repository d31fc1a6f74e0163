# SPDX-License-Identifier: MIT OR Apache-2.0
"""The store of object files: what others may have written, what lies under another name and what is none is not linked."""

from __future__ import annotations

import logging
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from bankml.kernels.compiler import elf, native, store

pytestmark = pytest.mark.long

OTHER = 65534
ROOT = Path(__file__).resolve().parents[2]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")

LINK = """
import sys
from pathlib import Path
from bankml.kernels.compiler import native, store
if len(sys.argv) > 1:
    store.write("team", Path(sys.argv[1]).read_bytes())
team = native.module_named("team")
team.Team(2).close()
print("numba" in sys.modules)
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home with a store of its own, in this process."""
    monkeypatch.setenv("BANKML_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(store, "_unkept", {})
    monkeypatch.setattr(store, "_warned", [])
    forget()
    yield tmp_path / "home"
    forget()


def forget() -> None:
    store.folder.cache_clear()
    store.distrust.cache_clear()


def levels(home: Path) -> list[Path]:
    return [home, home / "cache", home / "cache" / "kernels", store.folder()]


def link(home: Path, *code: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"BANKML_HOME": str(home)}
    return subprocess.run([sys.executable, "-c", LINK, *code], env=environment, capture_output=True, text=True, check=False)


def test_folders_of_the_store_are_its_owners_alone_whatever_the_umask(home: Path) -> None:
    before = os.umask(0)
    try:
        store.write("kept", b"code")
    finally:
        os.umask(before)
    assert [folder.stat().st_mode & 0o777 for folder in levels(home)] == [0o755] * 4
    assert store.read("kept") == b"code"


def test_a_file_under_another_name_is_damage(home: Path) -> None:
    store.write("rope", b"code")
    shutil.copy(store.folder() / "rope.o", store.folder() / "q4_1.o")
    assert (store.read("rope"), store.read("q4_1")) == (b"code", None)


def test_a_file_of_another_folder_is_damage(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write("rope", b"code")
    former = store.folder()
    forget()
    monkeypatch.setattr(store, "_key", lambda: "0" * 16)
    shutil.copytree(former, store.folder(), dirs_exist_ok=True)
    assert store.has("rope")
    assert store.read("rope") is None


def test_all_that_decides_the_machine_code_names_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    from llvmlite import binding

    class Features(dict[str, bool]):
        def flatten(self) -> str:
            return "+other"

    seen = {store._key()}
    changes = [
        (binding, "llvm_version_info", (1, 2, 3)),
        (binding, "get_host_cpu_name", lambda: "another"),
        (binding, "get_host_cpu_features", Features),
        (sys, "implementation", SimpleNamespace(cache_tag="another")),
        (store, "find_spec", lambda name: None),
    ]
    for where, name, value in changes:
        with monkeypatch.context() as patch:
            patch.setattr(where, name, value)
            seen.add(store._key())
    assert len(seen) == 1 + len(changes)


KEYS = """
from pathlib import Path
from bankml.kernels.compiler import store
sources = sorted(Path("bankml/kernels").rglob("*.py"))
seen = {store._key()}
for source in sources:
    text = source.read_bytes()
    source.write_bytes(text + b"# changed")
    seen.add(store._key())
    source.write_bytes(text)
print(len(sources), len(seen))
"""


def test_every_source_of_the_kernels_names_the_folder(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "bankml", tmp_path / "bankml", ignore=shutil.ignore_patterns("__pycache__"))
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", KEYS], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    sources, keys = map(int, done.stdout.split())
    assert sources > 90
    assert keys == 1 + sources


@pytest.mark.parametrize("mode", [0o666, 0o664, 0o646])
def test_a_file_that_others_may_write_is_not_read(home: Path, mode: int) -> None:
    store.write("kept", b"code")
    store.remember("note")
    for name in ("kept.o", "note"):
        (store.folder() / name).chmod(mode)
    assert store.read("kept") is None
    assert not store.remembers("note")


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757, 0o1777])
@pytest.mark.parametrize("level", range(4))
def test_a_store_in_a_folder_that_others_may_write_is_neither_read_nor_written(
    home: Path, level: int, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    store.write("kept", b"code")
    store.remember("note")
    folder = levels(home)[level]
    folder.chmod(mode)
    forget()
    assert not store.has("kept")
    assert store.read("kept") is None
    assert not store.remembers("note")
    before = sorted(store.folder().iterdir())
    with caplog.at_level(logging.WARNING):
        store.write("new", b"code")
        store.write("newer", b"code")
    store.remember("newest")
    assert sorted(store.folder().iterdir()) == before
    assert (store.has("new"), store.read("new")) == (True, b"code")
    (warning,) = caplog.messages
    assert f"others may write {folder} (mode {mode:o})" in warning
    assert "BANKML_HOME" in warning


@as_root
@pytest.mark.parametrize("level", range(4))
def test_a_store_in_a_folder_of_another_user_is_neither_read_nor_written(home: Path, level: int) -> None:
    store.write("kept", b"code")
    os.chown(levels(home)[level], OTHER, -1)
    forget()
    assert store.read("kept") is None
    store.write("new", b"code")
    assert not (store.folder() / "new.o").exists()


@as_root
def test_a_file_of_another_user_is_not_read(home: Path) -> None:
    store.write("kept", b"code")
    os.chown(store.folder() / "kept.o", OTHER, -1)
    assert store.read("kept") is None


def test_a_pipe_in_a_files_place_is_not_waited_for(home: Path) -> None:
    store.write("kept", b"code")
    (store.folder() / "kept.o").unlink()
    os.mkfifo(store.folder() / "kept.o", 0o600)
    assert store.read("kept") is None


def test_what_is_no_object_file_is_compiled_again(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert link(home).stdout == "True\n"
    (stored,) = (home / "cache" / "kernels").glob("*/team.o")
    whole = stored.read_bytes()[32:]
    other = (b"", b"\0" * 5000, b"\x7fELF" * 1000, whole[:-64], whole[: len(whole) // 2], whole[:64])
    for number, code in enumerate(other):
        file = tmp_path / f"{number}"
        file.write_bytes(code)
        # Sealed as the store seals, so that only the look into the file can save the process.
        done = link(home, file)
        assert (done.returncode, done.stdout) == (0, "True\n"), (number, done.stderr)
        assert link(home).stdout == "False\n"


def test_damaged_object_files_are_seen_before_they_are_linked() -> None:
    native.module_named("team")
    code = store.read("team") or native.compile_object(native.entries("team"))
    symbols = [each.symbol for each in native.entries("team")]
    assert elf.objection(code, symbols) is None
    assert elf.objection(code, ["team.other"]) == "it does not define team.other"
    stream = random.Random(11)
    for _ in range(3000):
        damaged = bytearray(code)
        for _ in range(stream.choice((1, 4, 40))):
            place = stream.choice((stream.randrange(64), stream.randrange(len(code)), -stream.randrange(1, 1200)))
            damaged[place] = stream.randrange(256)
        del damaged[stream.choice((len(code), stream.randrange(len(code)))) :]
        # Never an exception; where a table is damaged, an objection.
        elf.objection(bytes(damaged), symbols)
    for name in ("section", "symbol", "relocation"):
        assert elf.objection(spoiled(code, name), symbols) is not None, name


def spoiled(code: bytes, what: str) -> bytes:
    """An object file with one wrong number."""
    damaged = bytearray(code)
    table = int.from_bytes(code[40:48], "little")
    count = int.from_bytes(code[60:62], "little")
    wanted = {"section": 1, "symbol": 2, "relocation": 4}[what]
    section = next(
        table + 64 * i for i in range(count) if int.from_bytes(code[table + 64 * i + 4 : table + 64 * i + 8], "little") == wanted
    )
    offset = int.from_bytes(code[section + 24 : section + 32], "little")
    if what == "section":
        damaged[section + 24 : section + 32] = (1 << 40).to_bytes(8, "little")
    elif what == "symbol":
        damaged[offset + 24 : offset + 28] = (1 << 30).to_bytes(4, "little")
    else:
        damaged[offset : offset + 8] = (1 << 30).to_bytes(8, "little")
    return bytes(damaged)
